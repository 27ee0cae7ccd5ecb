// A completion-queue tag for one batch of operations.

#ifndef RETRY_GUARD_CALL_BATCH_TAG_H_
#define RETRY_GUARD_CALL_BATCH_TAG_H_

#include <grpc/grpc.h>
#include <grpcpp/impl/call_op_set.h>

namespace retry_guard::internal {

// Runs a function when a batch is done. gRPC's own tags wrap a std::function
// and live in the call's arena; this one lives in its owner and allocates
// nothing. The owner must stay until the handler runs, which may destroy it.
class BatchTag : public grpc_completion_queue_functor {
 public:
  using Handler = void (*)(void* self, bool ok);

  // `operations` gets this tag by set_core_cq_tag.
  template <typename Operations>
  void Attach(Operations* operations, void* self, Handler handler) {
    operations_ = operations;
    self_ = self;
    handler_ = handler;
    functor_run = &BatchTag::Run;
    inlineable = 0;
    operations->set_core_cq_tag(this);
  }

 private:
  static void Run(grpc_completion_queue_functor* functor, int ok) {
    auto* const tag = static_cast<BatchTag*>(functor);
    bool batch_ok = ok != 0;
    void* ignored = tag->operations_;
    // False: interceptors after ours are looking; the tag comes again.
    if (!tag->operations_->FinalizeResult(&ignored, &batch_ok)) return;
    tag->handler_(tag->self_, batch_ok);
  }

  grpc::internal::CompletionQueueTag* operations_ = nullptr;
  void* self_ = nullptr;
  Handler handler_ = nullptr;
};

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_BATCH_TAG_H_
