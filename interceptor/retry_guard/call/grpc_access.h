// What attempts need of what gRPC C++ keeps private. (unary_ops.cc names the
// few private members that taking a call over needs.)
//
// An attempt must be indistinguishable from the call that it stands for, and
// some of a call's settings have setters but no getters: wait-for-ready,
// authority, the parent call. Interceptors after ours must also see an attempt
// the way that they see a real call: a pre-serialised request, and the caller's
// own reply object. gRPC's public stubs offer neither.
//
// gRPC befriends the class templates that implement unary calls, so a
// specialization of one of them for a type of ours may look inside. It is
// ordinary C++, checked by the compiler, and was tried with gRPC 1.51 and 1.83.
// Should a later version rename what is used here or in unary_ops.cc, these two
// are what breaks, at compile time.

#ifndef RETRY_GUARD_CALL_GRPC_ACCESS_H_
#define RETRY_GUARD_CALL_GRPC_ACCESS_H_

#include <grpc/grpc.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/impl/call.h>
#include <grpcpp/impl/channel_interface.h>
#include <grpcpp/impl/client_unary_call.h>
#include <grpcpp/impl/rpc_method.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/client_callback.h>
#include <grpcpp/support/status.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#if __has_include(<grpcpp/impl/proto_utils.h>)
#include <grpcpp/impl/proto_utils.h>
#else
#include <grpcpp/impl/codegen/proto_utils.h>  // up to 1.52
#endif

namespace retry_guard::internal {
struct Key {};
}  // namespace retry_guard::internal

namespace grpc::internal {

// Befriended by ChannelInterface and ClientContext.
template <>
class CallbackUnaryCallImpl<retry_guard::internal::Key,
                            retry_guard::internal::Key> {
 public:
  static CompletionQueue* CallbackCq(ChannelInterface* channel) {
    return channel->CallbackCQ();
  }
  static Call CreateCall(ChannelInterface* channel, const RpcMethod& method,
                         ClientContext* context, CompletionQueue* cq) {
    return channel->CreateCall(method, context, cq);
  }
  // A call that no interceptor sees, not even a global one.
  static Call CreateBareCall(ChannelInterface* channel, const RpcMethod& method,
                             ClientContext* context, CompletionQueue* cq) {
    return channel->CreateCallInternal(method, context, cq, SIZE_MAX);
  }
  static std::multimap<std::string, std::string>* SendMetadata(
      ClientContext* context) {
    return &context->send_initial_metadata_;
  }
  static uint32_t MetadataFlags(const ClientContext& context) {
    return context.initial_metadata_flags();
  }
  // What cannot be read through the public interface.
  static void CopySettings(const ClientContext& from, ClientContext* to) {
    to->wait_for_ready_ = from.wait_for_ready_;
    to->wait_for_ready_explicitly_set_ = from.wait_for_ready_explicitly_set_;
    to->authority_ = from.authority_;
    to->propagate_from_call_ = from.propagate_from_call_;
    to->propagation_options_ = from.propagation_options_;
    // The metadata has it already; this is for its getter alone.
    to->compression_algorithm_ = from.compression_algorithm_;
  }
  // A call that has been created keeps core's channel; the context also keeps
  // the C++ one, which must not be dropped on a thread of its own queue.
  static void ReleaseChannel(ClientContext* context) {
    context->channel_ = nullptr;
  }
  static void SetDebugErrorString(const std::string& text, ClientContext* to) {
    to->debug_error_string_ = text;
  }
  static bool Corked(const ClientContext& context) {
    return context.initial_metadata_corked_;
  }
  static bool WaitForReadySet(const ClientContext& context) {
    return context.wait_for_ready_explicitly_set_;
  }
  // As ClientContext::FromServerContext does it for a new context.
  static void SetParent(const ServerContextBase& inbound, ClientContext* to) {
    const std::unique_ptr<ClientContext> child =
        ClientContext::FromInternalServerContext(inbound, PropagationOptions());
    to->propagate_from_call_ = child->propagate_from_call_;
    to->propagation_options_ = child->propagation_options_;
  }
  static grpc_call* Parent(const ClientContext& context) {
    return context.propagate_from_call_;
  }
};

// Befriended by CompletionQueue as well.
template <>
class BlockingUnaryCallImpl<retry_guard::internal::Key,
                            retry_guard::internal::Key> {
 public:
  // A completion queue for one thread that waits for one tag.
  class PluckQueue {
   public:
    PluckQueue()
        : cq_(grpc_completion_queue_attributes{
              GRPC_CQ_CURRENT_VERSION, GRPC_CQ_PLUCK, GRPC_CQ_DEFAULT_POLLING,
              nullptr}) {}
    CompletionQueue* get() { return &cq_; }
    // Blocks until the operations are done; their success.
    bool Pluck(CompletionQueueTag* tag) { return cq_.Pluck(tag); }

   private:
    CompletionQueue cq_;
  };
};

}  // namespace grpc::internal

namespace retry_guard::internal {

using GrpcAccess = grpc::internal::CallbackUnaryCallImpl<Key, Key>;
using PluckQueue = grpc::internal::BlockingUnaryCallImpl<Key, Key>::PluckQueue;

template <typename Ops, typename = void>
struct SendsWithAllocator : std::false_type {};
template <typename Ops>
struct SendsWithAllocator<
    Ops, std::void_t<decltype(std::declval<Ops&>().SendMessage(
             std::declval<const grpc::ByteBuffer&>(), nullptr))>>
    : std::true_type {};

// Newer versions want to be told whose memory to use; null is the heap's.
template <typename Message, typename Ops>
grpc::Status SendMessage(const Message& message, Ops* ops) {
  if constexpr (SendsWithAllocator<Ops>::value) {
    return ops->SendMessage(message, nullptr);
  } else {
    return ops->SendMessage(message);
  }
}
template <typename Message, typename Ops>
grpc::Status SendMessagePtr(const Message* message, Ops* ops) {
  if constexpr (SendsWithAllocator<Ops>::value) {
    return ops->SendMessagePtr(message, nullptr);
  } else {
    return ops->SendMessagePtr(message);
  }
}

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_GRPC_ACCESS_H_
