// How far a stream has come that is relayed to one attempt after the other, and
// what that allows to do next.

#ifndef RETRY_GUARD_CALL_STREAM_PROGRESS_H_
#define RETRY_GUARD_CALL_STREAM_PROGRESS_H_

#include <grpcpp/support/interceptor.h>

#include <cstdint>
#include <deque>
#include <vector>

#include "retry_guard/call/delivery.h"
#include "retry_guard/call/send_buffer.h"
#include "retry_guard/call/stream_write.h"

namespace retry_guard::internal {

// Is told what happens (to the application's batches, to the operations of the
// attempt that runs) and says, one at a time, what there is to do. Does nothing
// itself: batches it only names. Thread-compatible; what Next has given may be
// done without the lock under which it was asked.
//
// A write is done when an attempt has written it, and a message is read only
// when the application asks for one: so the flow control of the attempt is that
// of the application.
class StreamProgress {
 public:
  using Batch = grpc::experimental::InterceptorBatchMethods;

  StreamProgress() = default;
  // Of a stream whose first attempt has failed elsewhere, having sent `sends`.
  explicit StreamProgress(SendBuffer sends);

  // ---- What the application does.

  // What it sends as it starts, before any other; no batch waits for that.
  void StartWith(StreamWrite write);
  // `batch` goes on once `write` is done, or will never be.
  void Write(Batch* batch, StreamWrite write);
  // `batch` goes on once there is what it `wants`.
  void Receive(Batch* batch, const BatchWants& wants);
  // It has dropped the stream: no operation is to be started any more.
  void Drop() { dropped_ = true; }

  // ---- What happens to attempts, one after the other.

  // One is made, and will send what this returns together with its headers;
  // null if these go alone. A stream that sends more than `buffer_limit` bytes,
  // which are all kept until then, commits.
  const StreamWrite* AttemptStarts(int64_t buffer_limit);
  // It has been started; from now on it may be given more to do.
  void AttemptRuns() { phase_ = Phase::kRunning; }
  // Its operations report, each once, in any order. The headers that it sends
  // report as a write.
  void HeadersCame(bool trailers_only);
  void WriteDone(bool ok);
  // `ok` without a message: the end of the stream. Not `ok`: what came, if
  // anything, was no message.
  void ReadDone(bool ok, bool got_message);
  void StatusCame() { has_status_ = true; }

  // The application may have seen something of the attempt, or too much would
  // have to be kept: there will be no other.
  void Commit();
  // The attempt is over, and another one will be made later.
  void Retry();
  // The attempt is over, or none was allowed: the call has its answer.
  void SetAnswered() { answered_ = true; }

  // ---- What to do.

  enum class Kind {
    kNothing,
    kWrite,     // `write` goes to the attempt
    kRead,      // from the attempt, to where `batch` wants it
    kSent,      // `batch` goes on; its write is done if `ok`
    kReceived,  // `batch` goes on with what it wants; a message if `ok`
    kOver,      // every operation of the attempt has reported: decide
    kDropped,   // as kOver, but nobody asks any more
  };
  struct Step {
    Kind kind = Kind::kNothing;
    const StreamWrite* write = nullptr;  // stays until WriteDone
    Batch* batch = nullptr;
    bool ok = false;
  };
  Step Next();

  // ---- What is known.

  bool dropped() const { return dropped_; }
  bool answered() const { return answered_; }
  bool committed() const { return committed_; }
  bool attempt_is_over() const { return phase_ == Phase::kOver; }
  // Of what may have to be sent, or sent again.
  int64_t kept_bytes() const { return sends_.bytes(); }
  // The last read failed although there may have been something to read.
  bool undecodable() const { return undecodable_; }

 private:
  // Of the attempt. Operations are started while it runs.
  enum class Phase { kNoAttempt, kStarting, kRunning, kOver };
  enum class Headers { kAwaited, kNone, kThere };
  enum class Message { kUnknown, kNone, kThere };  // to be delivered next
  enum class UnderWay { kNothing, kHeaders, kWrite };

  struct Sending {
    Batch* batch;
    int64_t number;  // of its write
  };
  struct Receiving {
    Batch* batch;
    BatchWants wants;
  };

  void CommitIfTooMuch();
  bool CanWriteNoMore() const;
  bool OperationsAreDone() const;
  bool AttemptIsOver() const;
  bool WantsStatus() const;
  bool HasAll(const BatchWants& wants) const;
  // Each fills in `step` if there is something of its kind to do.
  bool TakeSent(Step* step);
  bool TakeReceived(Step* step);
  bool TakeOver(Step* step);
  bool TakeWrite(Step* step);
  bool TakeRead(Step* step);

  // The application's batches that wait.
  std::deque<Sending> sending_;
  std::vector<Receiving> receiving_;
  bool dropped_ = false;

  SendBuffer sends_;
  int64_t buffer_limit_ = 0;
  bool committed_ = false;
  bool answered_ = false;

  // Of the attempt that runs, or ran last.
  Phase phase_ = Phase::kNoAttempt;
  Headers headers_ = Headers::kAwaited;
  Message message_ = Message::kUnknown;
  UnderWay under_way_ = UnderWay::kNothing;
  bool reading_ = false;
  bool undecodable_ = false;
  bool has_status_ = false;
  bool can_write_ = false;
};

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_STREAM_PROGRESS_H_
