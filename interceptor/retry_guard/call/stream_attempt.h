// An attempt of a streaming call, of any of the three kinds.

#ifndef RETRY_GUARD_CALL_STREAM_ATTEMPT_H_
#define RETRY_GUARD_CALL_STREAM_ATTEMPT_H_

#include <google/protobuf/message_lite.h>
#include <grpcpp/impl/call_op_set.h>
#include <grpcpp/support/byte_buffer.h>

#include <memory>

#include "retry_guard/call/attempt.h"
#include "retry_guard/call/batch_tag.h"
#include "retry_guard/call/codec.h"
#include "retry_guard/call/grpc_access.h"
#include "retry_guard/call/stream_write.h"

namespace retry_guard::internal {

// Told about the operations of an attempt, each on a thread of gRPC's, with no
// lock held.
class StreamListener {
 public:
  virtual ~StreamListener() = default;

  // Response headers have come, or the attempt ended without. Once.
  virtual void OnHeaders(bool trailers_only) = 0;
  virtual void OnWritten(bool ok) = 0;
  // `ok` without a message: the end of the stream. Not `ok`: what came, if
  // anything, was no message.
  virtual void OnRead(bool ok, bool got_message) = 0;
  // The status is there. Operations that are under way will still report.
  virtual void OnStatus() = 0;
};

// Runs on the callback API. Operations of one kind are started one at a time;
// those of different kinds may be, and end, at the same time. Whoever starts an
// operation keeps the attempt until it has reported.
class StreamAttempt final : public Attempt {
 public:
  // Creates the call and sends its headers, together with `first` if it is not
  // null, for which (or for the headers alone) OnWritten will come; asks for
  // response headers and the status. Keeps `listener` until Forget.
  void Start(const AttemptTarget& target,
             std::shared_ptr<StreamListener> listener,
             const StreamWrite* first);
  void Write(const StreamWrite& write);
  void Read(const Reply& reply);

  // Ends it with DEADLINE_EXCEEDED. Once it was started; from any thread.
  void TimeOut();

  // Nothing of it is under way any more: lets the listener go.
  void Forget() { listener_ = nullptr; }

 private:
  using StartOps =
      grpc::internal::CallOpSet<grpc::internal::CallOpSendInitialMetadata,
                                grpc::internal::CallOpSendMessage,
                                grpc::internal::CallOpClientSendClose>;
  using WriteOps =
      grpc::internal::CallOpSet<grpc::internal::CallOpSendMessage,
                                grpc::internal::CallOpClientSendClose>;
  using HeadersOps =
      grpc::internal::CallOpSet<grpc::internal::CallOpRecvInitialMetadata>;
  template <typename R>
  using ReadOps =
      grpc::internal::CallOpSet<grpc::internal::CallOpRecvMessage<R>>;
  using StatusOps =
      grpc::internal::CallOpSet<grpc::internal::CallOpClientRecvStatus>;

  template <typename Ops>
  void Send(Ops* ops);

  // By the operations that `kOps`, a member, is.
  template <auto kOps, typename R>
  void ReadInto(R* reply);

  std::shared_ptr<StreamListener> listener_;
  grpc::internal::Call call_;
  BatchTag send_tag_, headers_tag_, read_tag_, status_tag_;
  // Two: of a call that an interceptor after ours has hijacked, operations that
  // have sent headers would show them again.
  StartOps start_;
  WriteOps write_;
  HeadersOps headers_;
  ReadOps<google::protobuf::MessageLite> read_message_;
  ReadOps<grpc::ByteBuffer> read_bytes_;
  StatusOps status_ops_;
};

// Runs each operation to its end on the calling thread. A thread that writes
// and one that reads may do so at the same time.
class BlockingStreamAttempt final : public Attempt {
 public:
  // Creates the call and sends its headers, with `first` if it is not null.
  bool Start(const AttemptTarget& target, const StreamWrite* first);
  bool Write(const StreamWrite& write);

  // Response headers, if they have not been received yet. On the reading side.
  void AwaitHeaders();
  // A message; false at the end of the stream. With the headers, if they have
  // not been received yet.
  bool Read(const Reply& reply);
  // Blocks until the server has ended the call and all its messages were read.
  void AwaitStatus();

  // Once the headers have been received, if any: this is no answer of trailers
  // alone.
  bool has_headers() const { return has_headers_; }

  // The last Read failed although there may have been something to read.
  bool undecodable() const { return undecodable_; }

 private:
  template <typename R>
  bool ReadInto(R* reply);

  PluckQueue queue_;
  grpc::internal::Call call_;
  bool headers_received_ = false;
  bool has_headers_ = false;
  bool undecodable_ = false;
};

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_STREAM_ATTEMPT_H_
