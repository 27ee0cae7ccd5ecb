// A road is a way to serve one call: each knows how to run an attempt and how
// to wait; what to do next they all ask of CallCore.
//
//   refused   no attempt may be sent at all: the answer is there at once
//   takeover  the call itself is the first attempt; its end is held back if
//             there are to be further ones
//   inline    a blocking caller: attempts and waits on the caller's own thread
//             (of a stream only the first attempt; if there is another one, the
//             stream goes over to the relay)
//   observed  the call itself is the one attempt; we look on, and see to it
//   that
//             it ends in time
//   relay     everything else: attempts on the callback API, waits on timers

#ifndef RETRY_GUARD_CALL_ROAD_H_
#define RETRY_GUARD_CALL_ROAD_H_

#include <grpcpp/support/interceptor.h>

#include <memory>

#include "retry_guard/call/call_core.h"
#include "retry_guard/call/stream_write.h"
#include "retry_guard/call/unary_ops.h"

namespace retry_guard::internal {

class Road {
 public:
  virtual ~Road() = default;

  // The batch that starts the call, once. What had come before it, to be sent
  // after it, was given to OnBatch by now.
  virtual void OnStart(grpc::experimental::InterceptorBatchMethods* batch) = 0;

  // A batch of the call. Each comes up to three times (to send, to receive if
  // hijacked, received), the start too; the road Proceeds each time, now or
  // later. PRE_SEND_INITIAL_METADATA means nothing here: once hijacked, gRPC
  // sets it again for every batch that uses the operations of the start.
  virtual void OnBatch(grpc::experimental::InterceptorBatchMethods* batch) = 0;

  // The caller cancels, and the call's core knows. On any thread, under the
  // lock of the caller's context: touches nothing of that, runs nothing of the
  // caller's.
  virtual void OnCancel() = 0;

  // The application is about to destroy the call's context; a stream, or a
  // unary call that was asked for its headers alone, may not have ended yet.
  // Nothing of the caller's is used once this has returned.
  virtual void OnDropped() {}
};

// How the application learns of a call's end.
enum class Caller {
  kWaits,  // its thread is blocked in the call
  kPolls,  // a completion queue, when it likes
  kIsCalledBack,
};

// How the roads are opened. `core` has begun.
std::shared_ptr<Road> MakeRefusedRoad(KeptAnswer answer, bool is_stream);
std::shared_ptr<Road> MakeInlineRoad(std::shared_ptr<CallCore> core);
std::shared_ptr<Road> MakeObservedRoad(std::shared_ptr<CallCore> core);
std::shared_ptr<Road> MakeTakeoverRoad(std::shared_ptr<CallCore> core,
                                       const UnaryOps& ops, Caller caller);
std::shared_ptr<Road> MakeRelayRoad(std::shared_ptr<CallCore> core,
                                    bool status_in_first_batch);
// For streams.
std::shared_ptr<Road> MakeInlineStreamRoad(std::shared_ptr<CallCore> core);
// `first` goes out with the start; it may be empty.
std::shared_ptr<Road> MakeStreamRelayRoad(std::shared_ptr<CallCore> core,
                                          StreamWrite first);

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_ROAD_H_
