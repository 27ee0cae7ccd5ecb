#include "retry_guard/call/parent_watch.h"

#include <grpcpp/impl/call_op_set.h>

#include <atomic>
#include <utility>

#include "retry_guard/call/batch_tag.h"
#include "retry_guard/call/grpc_access.h"

namespace retry_guard::internal {
namespace {

class UnsentCall final : public ParentWatch {
 public:
  UnsentCall(std::shared_ptr<CallCore> core,
             std::shared_ptr<Interruption> interruption)
      : core_(std::move(core)), interruption_(std::move(interruption)) {}

  void Start(const grpc::internal::RpcMethod& method, grpc::CompletionQueue* cq,
             std::shared_ptr<UnsentCall> self) {
    self_ = std::move(self);
    GrpcAccess::CopySettings(*core_->caller(), &context_);
    context_.set_deadline(core_->raw_deadline());
    grpc::internal::Call call =
        GrpcAccess::CreateBareCall(core_->rpc_channel(), method, &context_, cq);
    // The watch may end after the caller's call, on a thread of the channel's
    // own queue, and must not be the last to let go of the channel there.
    GrpcAccess::ReleaseChannel(&context_);
    operations_.ClientRecvStatus(&context_, &status_);
    tag_.Attach(&operations_, this, [](void* self, bool /*ok*/) {
      static_cast<UnsentCall*>(self)->Ended();
    });
    operations_.FillOps(&call);
  }

  void Stop() override {
    stopped_.store(true, std::memory_order_release);
    context_.TryCancel();
  }

 private:
  void Ended() {
    const std::shared_ptr<UnsentCall> self = std::move(self_);
    if (stopped_.load(std::memory_order_acquire)) return;
    core_->SetParentEnded(status_.error_code());
    interruption_->EndWait();
  }

  const std::shared_ptr<CallCore> core_;
  const std::shared_ptr<Interruption> interruption_;
  std::shared_ptr<UnsentCall> self_;
  std::atomic<bool> stopped_{false};
  grpc::ClientContext context_;
  grpc::Status status_;
  BatchTag tag_;
  grpc::internal::CallOpSet<grpc::internal::CallOpClientRecvStatus> operations_;
};

}  // namespace

std::shared_ptr<ParentWatch> ParentWatch::Start(
    std::shared_ptr<CallCore> core, std::shared_ptr<Interruption> interruption,
    const grpc::internal::RpcMethod& method) {
  if (GrpcAccess::Parent(*core->caller()) == nullptr) return nullptr;
  grpc::CompletionQueue* const cq = GrpcAccess::CallbackCq(core->rpc_channel());
  if (cq == nullptr) return nullptr;
  auto watch =
      std::make_shared<UnsentCall>(std::move(core), std::move(interruption));
  watch->Start(method, cq, watch);
  return watch;
}

}  // namespace retry_guard::internal
