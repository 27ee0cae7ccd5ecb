// A call between its attempts: what it may do next, and why. The same for all
// roads; a road only knows how to run an attempt and how to wait.
//
//   Begin -> BeforeAttempt -> (the road runs the attempt) -> AfterAttempt
//                ^                                               |
//                +---------- (the road waits) <---- retry -------+--> answer

#ifndef RETRY_GUARD_CALL_CALL_CORE_H_
#define RETRY_GUARD_CALL_CALL_CORE_H_

#include <grpc/support/time.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "retry_guard/call/attempt.h"
#include "retry_guard/call/channel_state.h"
#include "retry_guard/call/inbound_call.h"
#include "retry_guard/call/metadata.h"
#include "retry_guard/call/method_state.h"
#include "retry_guard/policy/decider.h"

namespace retry_guard::internal {

// An answer that was kept: the attempt that brought it is gone.
struct KeptAnswer {
  grpc::Status status;
  KeptMetadata initial;
  KeptMetadata trailing;
};

// Belongs to one call; used by one thread at a time, except for the flags,
// which may be set from any thread.
class CallCore {
 public:
  // `info` is read here only. The caller's context must outlive the call.
  CallCore(std::shared_ptr<ChannelState> channel,
           grpc::experimental::ClientRpcInfo* info);
  ~CallCore();
  CallCore(const CallCore&) = delete;
  CallCore& operator=(const CallCore&) = delete;

  // When the call is about to send its initial metadata: reads its deadline,
  // its policy, its marker. `metadata` is the caller's and outlives the call.
  void Begin(SendMetadata* metadata);

  // Asks whether the next attempt may be sent. Nothing: it may, and counts as
  // sent. Else this is the call's answer, and it was reported.
  std::optional<KeptAnswer> BeforeAttempt();

  // Makes `context` that of the attempt that BeforeAttempt allowed.
  void FillContext(grpc::ClientContext* context);

  // The first attempt may go out as the very call that the application makes:
  // no other deadline and no other setting is wanted than that has; metadata
  // alone needs FillMetadata.
  bool first_attempt_is_callers() const;

  // What the attempt sends beside what the caller has put there.
  void FillMetadata(SendMetadata* metadata) const;

  // The caller's context after an attempt that was the caller's own: what we
  // have added to its metadata is not needed any more.
  void RestoreMetadata();

  struct Next {
    bool retry = false;
    absl::Time at;  // not before this
  };

  // How an attempt ended.
  struct Ended {
    const grpc::Status& status;
    const grpc::ClientContext& context;  // the attempt's
    // Response headers have been received: only then may they be looked at,
    // since gRPC reads them once.
    bool headers_received = true;
    bool committed = false;  // something of it already reached the caller
    bool seen_late = false;  // it may have ended before anybody looked
    bool timed_out = false;  // we ended it for its perAttemptTimeout
  };

  // The attempt that runs, a stream's, has received response headers or a
  // message. For the breaker and the estimate of attempt times it has succeeded
  // with that, however long the stream will be. At most once per attempt.
  void ServerAnswers();

  // Takes that in, decides, reports. On a retry, what is needed of the attempt
  // later was copied.
  Next AfterAttempt(const Ended& ended);

  // What the caller gets of an attempt's final status: the same, but for a
  // deadline that passed in mid-attempt and must not hide what the server had
  // said before.
  grpc::Status FinalStatus(const grpc::Status& status) const;

  // The application has dropped the call before it ended, and will drop its
  // context: nothing of that is used afterwards. Not while another function of
  // this runs.
  void Abandon();

  // For a call whose messages cannot be handled: it is never retried.
  void ForbidRetries(Reason why) { forbidden_ = why; }

  void SetCancelled() { cancelled_.store(true, std::memory_order_release); }
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }

  // The caller's own caller is gone while we wait.
  void SetParentEnded(grpc::StatusCode code) {
    parent_ended_.store(static_cast<int>(code), std::memory_order_release);
  }

  ChannelState& channel() { return *channel_; }
  MethodState& method() { return *method_; }
  grpc::ClientContext* caller() { return caller_; }
  grpc::ChannelInterface* rpc_channel() { return rpc_channel_; }

  // When a call whose only attempt is made with the caller's own context must
  // end, where core does not know it: that context has a later deadline, or
  // none. Else infinite.
  absl::Time deadline_unknown_to_core() const {
    absl::Time when = absl::InfiniteFuture();
    if (deadline_tightened_) when = terms_.deadline;
    if (attempt_timeout_set_ && !streaming()) {
      when = std::min(when, AttemptTimeoutAt());
    }
    return when;
  }

  // When the attempt that was allowed last has to be over, where it is not the
  // deadline of its context that says so: that of a stream is bounded only
  // until it commits. Else infinite.
  absl::Time attempt_timeout_at() const {
    return streaming() && attempt_timeout_set_ ? AttemptTimeoutAt()
                                               : absl::InfiniteFuture();
  }

  // Nothing was to be sent before the first message is.
  bool corked() const { return corked_; }

  // That of the caller's context: as core has it, and on the clock of the
  // channel.
  gpr_timespec raw_deadline() const { return raw_deadline_; }
  absl::Time context_deadline() const;

  // Not a unary call: its attempts may commit before they end.
  bool streaming() const {
    return type_ != grpc::internal::RpcMethod::NORMAL_RPC;
  }

  // The call has a reply, not a stream of them.
  bool receives_one_message() const {
    return type_ == grpc::internal::RpcMethod::NORMAL_RPC ||
           type_ == grpc::internal::RpcMethod::CLIENT_STREAMING;
  }

  // How many bytes of a stream may be kept to be sent again.
  int64_t buffer_limit() const { return terms_.policy->buffer_limit_bytes; }

  // What the caller's reply object is.
  Reply ReplyAt(void* object) const {
    return {method_->types().KindOfReply(channel_->codec(), object), object};
  }

  AttemptTarget TargetBelow(grpc::ChannelInterface* below);

 private:
  struct Refusal {
    Reason reason;
    absl::Duration breaker_retry_after = absl::ZeroDuration();
  };

  void GiveTokenBack();
  void InheritMarker();
  void TightenDeadline(absl::Duration timeout);
  void AdviseInbound(Reason reason, absl::StatusCode code,
                     absl::Duration breaker_retry_after);
  // What the config that is in force makes of this call.
  void ReadPolicy();
  bool ClaimsRetries() const;
  std::optional<Refusal> AskPermission(bool is_retry, absl::Time now);
  KeptAnswer AnswerRefusal(const Refusal& refusal, bool is_retry,
                           absl::Time now);
  Outcome MakeOutcome(const Ended& ended, const std::string& peer) const;
  void ReadPolicyLate();
  void Learn(const Ended& ended, const Outcome& outcome, absl::Time now);
  void SettlePermit(const Outcome& outcome, absl::Time now, bool was_short);
  Ruling Rule(const Ended& ended, const Outcome& outcome, bool was_probe,
              absl::Time now);
  void PrepareRetry(const Ended& ended, const Outcome& outcome,
                    const Ruling& ruling, absl::Time now);
  void ReportDecision(Decision decision, absl::Time now);
  void ReportTransition(
      const std::optional<CircuitBreaker::Transition>& change);
  CircuitBreaker& breaker();
  bool SetsWaitForReady() const;
  absl::Duration AttemptTime() const;
  absl::Time AttemptTimeoutAt() const {
    return attempt_started_ + terms_.policy->per_attempt_timeout;
  }
  bool AttemptDeadlinePassed() const;
  bool CancelledByParent(const Ended& ended, const Outcome& outcome) const;

  const std::shared_ptr<ChannelState> channel_;
  std::unique_ptr<MethodState> unlisted_;  // when the table has no room
  MethodState* method_ = nullptr;
  const grpc::internal::RpcMethod::RpcType type_;
  grpc::ClientContext* const caller_;
  grpc::ChannelInterface* const rpc_channel_;
  // As it was when the call was made: gRPC forgets it as the call starts.
  const bool corked_;

  grpc_call* parent_ = nullptr;           // held from Begin on
  std::shared_ptr<InboundCall> inbound_;  // if the server interceptor knows it

  const ServiceConfig* config_ = nullptr;
  CallTerms terms_;
  CallProgress progress_;
  SendMetadata* metadata_ = nullptr;
  SendMetadata kept_metadata_;   // as it was at the start
  bool config_unknown_ = false;  // the channel's own, at the start
  bool has_key_ = false;         // the caller set an idempotency key
  bool marked_ = false;          // a layer above owns the retries, and said so
  bool owner_ = false;           // we claim them
  std::string new_key_;          // the idempotency key that we made, if any
  std::optional<Reason> forbidden_;

  absl::Time started_;
  absl::Time wait_started_ = absl::InfiniteFuture();
  // That of the caller's context, on the clock that never steps: gRPC, too,
  // looks at the other one only when a call is made, and ours is made once.
  const gpr_timespec raw_deadline_;
  bool deadline_tightened_ = false;  // by the config's timeout

  // Of the attempt that runs, or ran last.
  absl::Time attempt_started_;
  gpr_timespec attempt_deadline_;
  bool attempt_timeout_set_ = false;  // it may end before the call's deadline
  bool settled_ = false;              // the breaker knows how it went
  CircuitBreaker::Permit permit_;

  std::optional<RetryBudget::Token> token_;  // of the retry that waits
  std::optional<KeptAnswer> last_answer_;    // of the server, before a retry

  std::atomic<bool> cancelled_{false};
  std::atomic<int> parent_ended_{0};
};

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_CALL_CORE_H_
