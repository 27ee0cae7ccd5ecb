// The relay road for streams, as the inline road hands calls over to it.

#ifndef RETRY_GUARD_CALL_STREAM_RELAY_ROAD_H_
#define RETRY_GUARD_CALL_STREAM_RELAY_ROAD_H_

#include <memory>

#include "absl/time/time.h"
#include "retry_guard/call/attempt.h"
#include "retry_guard/call/call_core.h"
#include "retry_guard/call/interruption.h"
#include "retry_guard/call/road.h"
#include "retry_guard/call/send_buffer.h"

namespace retry_guard::internal {

// What a stream is in the middle of, between two attempts.
struct StreamHandover {
  std::shared_ptr<CallCore> core;
  std::unique_ptr<grpc::ChannelInterface> below;
  AttemptTarget target;
  std::shared_ptr<Interruption> interruption;
  SendBuffer sends;
  absl::Time retry_at;
};

// For a call that has been hijacked and has had its first attempt: waits, and
// goes on from there.
std::shared_ptr<Road> ContinueOnStreamRelayRoad(StreamHandover handover);

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_STREAM_RELAY_ROAD_H_
