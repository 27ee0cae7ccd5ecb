// A batch of a call that there is not, with nothing in it: what fakes derive
// from.

#ifndef RETRY_GUARD_TESTS_UNIT_CALL_BLANK_BATCH_H_
#define RETRY_GUARD_TESTS_UNIT_CALL_BLANK_BATCH_H_

#include <grpcpp/impl/channel_interface.h>
#include <grpcpp/support/interceptor.h>

#include <map>
#include <memory>
#include <string>

namespace retry_guard::internal {

class BlankBatch : public grpc::experimental::InterceptorBatchMethods {
 public:
  bool QueryInterceptionHookPoint(
      grpc::experimental::InterceptionHookPoints /*type*/) override {
    return false;
  }
  void Proceed() override {}
  void Hijack() override {}
  grpc::ByteBuffer* GetSerializedSendMessage() override { return nullptr; }
  const void* GetSendMessage() override { return nullptr; }
  void ModifySendMessage(const void* /*message*/) override {}
  bool GetSendMessageStatus() override { return true; }
  std::multimap<std::string, std::string>* GetSendInitialMetadata() override {
    return nullptr;
  }
  grpc::Status GetSendStatus() override { return {}; }
  void ModifySendStatus(const grpc::Status& /*status*/) override {}
  std::multimap<std::string, std::string>* GetSendTrailingMetadata() override {
    return nullptr;
  }
  void* GetRecvMessage() override { return nullptr; }
  std::multimap<grpc::string_ref, grpc::string_ref>* GetRecvInitialMetadata()
      override {
    return nullptr;
  }
  grpc::Status* GetRecvStatus() override { return nullptr; }
  std::multimap<grpc::string_ref, grpc::string_ref>* GetRecvTrailingMetadata()
      override {
    return nullptr;
  }
  std::unique_ptr<grpc::ChannelInterface> GetInterceptedChannel() override {
    return nullptr;
  }
  void FailHijackedRecvMessage() override {}
  void FailHijackedSendMessage() override {}
};

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_TESTS_UNIT_CALL_BLANK_BATCH_H_
