#include "retry_guard/call/call_core.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "retry_guard/call/core_time.h"
#include "retry_guard/call/grpc_access.h"
#include "retry_guard/call/retry_info.h"
#include "retry_guard/policy/absl_view.h"

namespace retry_guard::internal {
namespace {

// How early an attempt may end and still have ended by its timeout. The server
// counts the same time, by a clock that core reads once per turn of its loop,
// and so may be first by milliseconds when it is busy.
absl::Duration TimerSlack(absl::Duration timeout) {
  return std::clamp(timeout / 10, absl::Milliseconds(1),
                    absl::Milliseconds(50));
}

const ReceivedMetadata& InitialMetadata(const CallCore::Ended& ended) {
  static const auto* const none = new ReceivedMetadata();
  return ended.headers_received ? ended.context.GetServerInitialMetadata()
                                : *none;
}

ServerHint ReadHint(const CallCore::Ended& ended, Clock& clock) {
  const ReceivedMetadata& trailing = ended.context.GetServerTrailingMetadata();
  std::vector<std::string_view> pushback;
  const auto [first, last] = trailing.equal_range(kPushbackMs);
  for (auto it = first; it != last; ++it) pushback.push_back(View(it->second));

  HintSources sources;
  sources.pushback_ms = pushback;
  const std::string details = ended.status.error_details();
  sources.status_details = details;
  std::string_view retry_after = FindOne(trailing, kRetryAfter);
  if (retry_after.data() == nullptr) {
    retry_after = FindOne(InitialMetadata(ended), kRetryAfter);
  }
  if (retry_after.data() != nullptr) sources.retry_after = retry_after;
  return ReadServerHint(sources, clock.WallNow());
}

}  // namespace

CallCore::CallCore(std::shared_ptr<ChannelState> channel,
                   grpc::experimental::ClientRpcInfo* info)
    : channel_(std::move(channel)),
      method_(channel_->methods().FindOrAdd(info->method())),
      type_(static_cast<grpc::internal::RpcMethod::RpcType>(info->type())),
      caller_(info->client_context()),
      rpc_channel_(info->channel()),
      corked_(GrpcAccess::Corked(*caller_)),
      raw_deadline_(
          gpr_convert_clock_type(caller_->raw_deadline(), GPR_CLOCK_MONOTONIC)),
      attempt_deadline_(raw_deadline_) {
  if (method_ == nullptr) {
    unlisted_ = std::make_unique<MethodState>(info->method());
    method_ = unlisted_.get();
  }
}

CallCore::~CallCore() {
  if (parent_ != nullptr) grpc_call_unref(parent_);
  GiveTokenBack();
}

// Of a retry that is not sent after all.
void CallCore::GiveTokenBack() {
  if (!token_.has_value()) return;
  channel_->guard().budget().GiveBack(*token_);
  token_.reset();
}

void CallCore::Begin(SendMetadata* metadata) {
  metadata_ = metadata;
  // An attempt that starts after the inbound call has ended would otherwise
  // find its parent gone; held, it is a call that has ended, and so ends ours.
  parent_ = GrpcAccess::Parent(*caller_);
  if (parent_ != nullptr) {
    grpc_call_ref(parent_);
    inbound_ = InboundCalls::OfThisProcess().Find(parent_);
  }
  started_ = channel_->clock().Now();
  channel_->LookAtChannelConfig(rpc_channel_, started_);
  config_unknown_ = !channel_->policies().channel_config_seen();
  InheritMarker();
  if (!metadata_->empty()) {
    marked_ = metadata_->find(kRetryOwner) != metadata_->end();
    has_key_ = metadata_->find(kIdempotencyKey) != metadata_->end();
  }
  terms_.deadline = started_ + TimeUntil(raw_deadline_);
  if (inbound_ != nullptr) TightenDeadline(TimeUntil(inbound_->deadline()));
  ReadPolicy();
  if (terms_.policy->idempotency_key && !has_key_ && !forbidden_.has_value()) {
    new_key_ = channel_->random().Uuid();
    ReadPolicy();  // makes the call safe to repeat
  }
  // As the application and interceptors before ours have made it. Those after
  // ours add to the caller's own, if that is the first attempt; and gRPC shows
  // the start of a hijacked stream again with later writes, for others to add
  // to it each time.
  kept_metadata_ = *metadata_;
  metadata_ = &kept_metadata_;
}

// A call made through ClientContext::FromServerContext has its parent, but not
// its parent's marker. One that the application has set itself is left alone.
void CallCore::InheritMarker() {
  const RetryMarker* const marker =
      inbound_ == nullptr ? nullptr : inbound_->marker();
  if (marker == nullptr) return;
  if (metadata_->find(kRetryOwner) != metadata_->end()) return;
  metadata_->emplace(kRetryOwner, marker->owner);
  if (marker->attempt > 0) {
    SetOne(*metadata_, kRetryAttempt, absl::StrCat(marker->attempt));
  }
  const absl::Duration remaining = TimeUntil(inbound_->deadline());
  if (remaining != absl::InfiniteDuration()) {
    SetOne(*metadata_, kRetryRemainingMs, RemainingMs(remaining));
  }
}

absl::Time CallCore::context_deadline() const {
  return channel_->clock().Now() + TimeUntil(raw_deadline_);
}

void CallCore::TightenDeadline(absl::Duration timeout) {
  const absl::Time deadline = started_ + timeout;
  if (deadline >= terms_.deadline) return;
  terms_.deadline = deadline;
  deadline_tightened_ = true;
}

// What a handler that returns this call's answer upward should say to those who
// might retry it.
void CallCore::AdviseInbound(Reason reason, absl::StatusCode code,
                             absl::Duration breaker_retry_after) {
  if (inbound_ == nullptr) return;
  const bool gave_up = reason == Reason::kAttemptsExhausted ||
                       reason == Reason::kBudgetExhausted ||
                       reason == Reason::kDeadlineTooClose ||
                       reason == Reason::kBreakerOpen;
  if (gave_up && owner_ && terms_.policy->layer == Layer::kHere) {
    inbound_->AdviseNever(code);
  } else if (reason == Reason::kBreakerOpen &&
             breaker_retry_after > absl::ZeroDuration()) {
    inbound_->AdviseLater(code, CoreTimeAfter(breaker_retry_after));
  }
}

void CallCore::ReadPolicy() {
  config_ = &channel_->policies().Current();
  const MethodPolicy& policy = method_->PolicyIn(*config_);
  terms_.policy = &policy;
  terms_.another_layer_owns = marked_ && policy.layer != Layer::kHere;
  terms_.key_travels = has_key_ || !new_key_.empty();
  terms_.repeat =
      ClassifyRepeat(policy, method_->types().idempotent(), terms_.key_travels);
  terms_.core_retries = channel_->CoreRetries(method_->name());
  if (policy.timeout.has_value()) TightenDeadline(*policy.timeout);
  owner_ = ClaimsRetries();
}

bool CallCore::ClaimsRetries() const {
  return !forbidden_.has_value() &&
         OwnsRetries(terms_, channel_->guard().retries_enabled());
}

CircuitBreaker& CallCore::breaker() {
  GuardState& guard = channel_->guard();
  // Callers who choose the names of methods must not fill memory with breakers.
  if (!terms_.policy->own_breaker || unlisted_ != nullptr) {
    return guard.breaker();
  }
  CircuitBreaker* own = method_->own_breaker.load(std::memory_order_acquire);
  if (own == nullptr) {
    own = &guard.OwnBreaker(method_->name());
    method_->own_breaker.store(own, std::memory_order_release);
  }
  return *own;
}

absl::Duration CallCore::AttemptTime() const {
  return terms_.policy->min_attempt_time.value_or(
      method_->estimate().Expected());
}

std::optional<KeptAnswer> CallCore::BeforeAttempt() {
  const absl::Time now = channel_->clock().Now();
  const bool is_retry = progress_.attempts > 0;
  GuardState& guard = channel_->guard();
  if (is_retry) guard.counters().CountBackoff(now - wait_started_);

  if (const std::optional<Refusal> refusal = AskPermission(is_retry, now)) {
    return AnswerRefusal(*refusal, is_retry, now);
  }
  token_.reset();  // spent
  // The kill switch may have been thrown since the attempt before.
  owner_ = ClaimsRetries();
  ++progress_.attempts;
  guard.counters().CountAttempt(!is_retry);
  if (!is_retry) guard.budget().CountCall(now);

  attempt_started_ = now;
  settled_ = false;
  const absl::Duration remaining = terms_.deadline - now;
  attempt_timeout_set_ = terms_.policy->per_attempt_timeout < remaining;
  if (attempt_timeout_set_ && !streaming()) {
    attempt_deadline_ = CoreTimeAfter(terms_.policy->per_attempt_timeout);
  } else if (deadline_tightened_) {
    attempt_deadline_ = CoreTimeAfter(remaining);
  } else {
    attempt_deadline_ = raw_deadline_;
  }
  return std::nullopt;
}

std::optional<CallCore::Refusal> CallCore::AskPermission(bool is_retry,
                                                         absl::Time now) {
  const int parent_ended = parent_ended_.load(std::memory_order_acquire);
  const bool parent_cancelled = parent_ended == grpc::StatusCode::CANCELLED;
  if (const auto reason =
          RefuseBeforeAttempt(terms_, is_retry, cancelled() || parent_cancelled,
                              channel_->guard().retries_enabled(), now)) {
    return Refusal{*reason};
  }
  if (parent_ended != 0) return Refusal{Reason::kDeadlineTooClose};

  CircuitBreaker::Admission admission =
      is_retry ? breaker().AdmitRetry(now) : breaker().AdmitFirst(now);
  ReportTransition(admission.transition);
  if (!admission.permit) {
    return Refusal{Reason::kBreakerOpen, admission.retry_after};
  }
  permit_ = std::move(admission.permit);
  return std::nullopt;
}

KeptAnswer CallCore::AnswerRefusal(const Refusal& refusal, bool is_retry,
                                   absl::Time now) {
  GiveTokenBack();
  KeptAnswer answer;
  if (refusal.reason == Reason::kCallerCancelled) {
    answer.status = grpc::Status(grpc::StatusCode::CANCELLED, "CANCELLED");
  } else if (is_retry) {
    answer = *std::move(last_answer_);
  } else if (refusal.reason == Reason::kBreakerOpen) {
    answer.status = WithRetryInfo(
        grpc::StatusCode::UNAVAILABLE,
        absl::StrCat("retry_guard: the circuit breaker is open for ",
                     method_->name(), "; next probe in ",
                     RemainingMs(absl::Ceil(refusal.breaker_retry_after,
                                            absl::Milliseconds(1))),
                     " ms"),
        refusal.breaker_retry_after);
  } else {
    answer.status =
        grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "Deadline Exceeded");
  }
  channel_->guard().counters().CountRefusal(refusal.reason);
  AdviseInbound(refusal.reason, SanitizeStatusCode(answer.status.error_code()),
                refusal.breaker_retry_after);
  if (channel_->observed()) {
    const std::string message = answer.status.error_message();
    Decision decision;
    decision.reason = refusal.reason;
    decision.code = SanitizeStatusCode(answer.status.error_code());
    decision.message = message;
    ReportDecision(decision, now);
  }
  return answer;
}

void CallCore::FillContext(grpc::ClientContext* context) {
  GrpcAccess::CopySettings(*caller_, context);
  context->set_deadline(attempt_deadline_);
  context->set_credentials(caller_->credentials());
  context->set_census_context(caller_->census_context());
  if (SetsWaitForReady()) {
    context->set_wait_for_ready(*terms_.policy->wait_for_ready);
  }
  SendMetadata& metadata = *GrpcAccess::SendMetadata(context);
  metadata = *metadata_;
  FillMetadata(&metadata);
}

// What the caller has set itself outranks the config.
bool CallCore::SetsWaitForReady() const {
  return terms_.policy->wait_for_ready.has_value() &&
         !GrpcAccess::WaitForReadySet(*caller_);
}

bool CallCore::first_attempt_is_callers() const {
  return !attempt_timeout_set_ && !deadline_tightened_ && !SetsWaitForReady();
}

void CallCore::FillMetadata(SendMetadata* metadata) const {
  // One value each. Most callers send nothing of their own, and then there is
  // nothing to look for.
  if (!metadata->empty()) {
    if (owner_) {
      metadata->erase(kRetryOwner);
      metadata->erase(kRetryAttempt);
    }
    if (owner_ || marked_) metadata->erase(kRetryRemainingMs);
    // One of an inbound call, say, means nothing here.
    metadata->erase(kPreviousAttempts);
  }
  if (!new_key_.empty()) metadata->emplace(kIdempotencyKey, new_key_);
  if (owner_) {
    metadata->emplace(kRetryOwner, channel_->LayerName(*config_));
    metadata->emplace(kRetryAttempt, absl::StrCat(progress_.attempts));
  }
  if ((owner_ || marked_) && terms_.deadline != absl::InfiniteFuture()) {
    metadata->emplace(kRetryRemainingMs,
                      RemainingMs(terms_.deadline - attempt_started_));
  }
  if (progress_.attempts > 1) {
    metadata->emplace(kPreviousAttempts, absl::StrCat(progress_.attempts - 1));
  }
}

void CallCore::RestoreMetadata() {
  *GrpcAccess::SendMetadata(caller_) = kept_metadata_;
}

Outcome CallCore::MakeOutcome(const Ended& ended,
                              const std::string& peer) const {
  const grpc::Status& status = ended.status;
  Outcome outcome;
  outcome.code = SanitizeStatusCode(status.error_code());
  if (outcome.code == absl::StatusCode::kOk) return outcome;
  TransportFacts facts;
  facts.reached_a_peer = NamesTransportAddress(peer);
  facts.got_metadata = !InitialMetadata(ended).empty() ||
                       !ended.context.GetServerTrailingMetadata().empty();
  outcome.reached_a_peer = facts.reached_a_peer;
  outcome.event =
      RecognizeTransportEvent(outcome.code, status.error_message(), facts);
  outcome.attempt_timed_out =
      outcome.code == absl::StatusCode::kDeadlineExceeded &&
      (ended.timed_out || AttemptDeadlinePassed());
  outcome.hint = ReadHint(ended, channel_->clock());
  return outcome;
}

bool CallCore::AttemptDeadlinePassed() const {
  return attempt_timeout_set_ && !streaming() &&
         TimeUntil(attempt_deadline_) <=
             TimerSlack(terms_.policy->per_attempt_timeout);
}

// Core ends an attempt with its parent; no server has said that. Where a
// server's CANCELLED may be retried the call goes on as if it were one: if the
// parent has ended, so does the wait at once.
bool CallCore::CancelledByParent(const Ended& ended,
                                 const Outcome& outcome) const {
  return parent_ != nullptr && outcome.code == absl::StatusCode::kCancelled &&
         !IsRetryable(outcome, *terms_.policy, terms_.key_travels) &&
         InitialMetadata(ended).empty() &&
         ended.context.GetServerTrailingMetadata().empty();
}

void CallCore::ServerAnswers() {
  const absl::Time now = channel_->clock().Now();
  settled_ = true;
  method_->estimate().Record(now - attempt_started_);
  ReportTransition(permit_.Settle(CircuitBreaker::Result::kSuccess, now, 0));
}

void CallCore::Abandon() {
  permit_ = CircuitBreaker::Permit();
  GiveTokenBack();
  channel_->guard().counters().CountRefusal(Reason::kCallerCancelled);
  if (!channel_->observed()) return;
  Decision decision;
  decision.reason = Reason::kCallerCancelled;
  decision.code = absl::StatusCode::kCancelled;
  ReportDecision(decision, channel_->clock().Now());
}

AttemptTarget CallCore::TargetBelow(grpc::ChannelInterface* below) {
  AttemptTarget target;
  target.channel_state = channel_.get();
  target.channel = below;
  // Attempts of a method that is not remembered must not be registered.
  target.method = &method_->rpc_method(
      type_, unlisted_ == nullptr ? rpc_channel_ : nullptr);
  return target;
}

void CallCore::SettlePermit(const Outcome& outcome, absl::Time now,
                            bool was_short) {
  const bool ok = outcome.code == absl::StatusCode::kOk;
  const CircuitBreaker::Result result = BreakerResult(
      outcome, channel_->guard().policy().breaker, cancelled(), was_short);
  ReportTransition(
      permit_.Settle(result, now, ok ? 0 : channel_->random().Unit()));
}

CallCore::Next CallCore::AfterAttempt(const Ended& ended) {
  const grpc::Status& status = ended.status;
  const absl::Time now = channel_->clock().Now();
  const bool ok = status.ok();
  if (!ok && config_unknown_) ReadPolicyLate();
  const bool observed = channel_->observed();
  const std::string message = ok ? std::string() : status.error_message();
  const std::string peer =
      ok && !observed ? std::string() : ended.context.peer();
  const Outcome outcome = MakeOutcome(ended, peer);
  const bool was_probe = permit_.is_probe();
  Learn(ended, outcome, now);
  if (observed) {
    channel_->Notify(AttemptReport{method_->name(), progress_.attempts,
                                   outcome.code, message, peer,
                                   now - attempt_started_, was_probe});
  }

  const Ruling ruling = Rule(ended, outcome, was_probe, now);
  Next next;
  if (ruling.retry()) {
    next.retry = true;
    next.at = now + ruling.delay;
    PrepareRetry(ended, outcome, ruling, now);
  } else if (ok) {
    channel_->guard().counters().CountSuccess(progress_.attempts);
  } else {
    channel_->guard().counters().CountRefusal(ruling.reason);
    AdviseInbound(ruling.reason, outcome.code,
                  ruling.reason == Reason::kBreakerOpen
                      ? breaker().UntilNextProbe(now)
                      : absl::ZeroDuration());
  }
  if (observed) {
    Decision decision;
    decision.verdict = ruling.retry() ? Verdict::kRetry : Verdict::kReturn;
    decision.reason = ruling.reason;
    decision.code = outcome.code;
    decision.message = message;
    decision.peer = peer;
    decision.delay = ruling.delay;
    decision.resend = ruling.resend;
    ReportDecision(decision, now);
  }
  return next;
}

// The call began before the resolver had answered. An attempt that was sent had
// to wait for that; where this one was not, the next one may know more.
void CallCore::ReadPolicyLate() {
  channel_->AwaitChannelConfig(rpc_channel_);
  config_unknown_ = !channel_->policies().channel_config_seen();
  if (channel_->policies().is_explicit()) {
    // The call keeps its policy; what core does is all that was unknown.
    terms_.core_retries = channel_->CoreRetries(method_->name());
  } else {
    ReadPolicy();
  }
}

// Breaker, estimate and budget hear of an attempt before anything is decided.
void CallCore::Learn(const Ended& ended, const Outcome& outcome,
                     absl::Time now) {
  const bool ok = outcome.code == absl::StatusCode::kOk;
  if (!settled_) {
    const absl::Duration had = std::min(terms_.policy->per_attempt_timeout,
                                        terms_.deadline - attempt_started_);
    SettlePermit(outcome, now, had < method_->estimate().Expected());
    const absl::Duration took = now - attempt_started_;
    if (ok && ended.seen_late) method_->estimate().RecordAtMost(took);
    if (ok && !ended.seen_late) method_->estimate().Record(took);
  }
  RetryBudget& budget = channel_->guard().budget();
  if (ok) {
    budget.CountSuccess();
  } else if (outcome.hint.stop ||
             IsRetryable(outcome, *terms_.policy, terms_.key_travels)) {
    budget.CountFailure();
  }
}

Ruling CallCore::Rule(const Ended& ended, const Outcome& outcome,
                      bool was_probe, absl::Time now) {
  GuardState& guard = channel_->guard();
  AttemptEnd end;
  end.outcome = &outcome;
  end.forbidden = forbidden_;
  end.caller_cancelled = cancelled() || CancelledByParent(ended, outcome);
  end.committed = ended.committed;
  end.was_probe = was_probe;
  end.breaker_closed = breaker().state() == BreakerState::kClosed;
  end.retries_enabled = guard.retries_enabled();
  end.expected_attempt_time = AttemptTime();
  const bool ok = outcome.code == absl::StatusCode::kOk;
  return DecideAfterAttempt(terms_, progress_, end, guard.budget(), now,
                            ok ? 0 : channel_->random().Unit());
}

// Keeps what is needed of the attempt once it is gone.
void CallCore::PrepareRetry(const Ended& ended, const Outcome& outcome,
                            const Ruling& ruling, absl::Time now) {
  token_ = ruling.token;
  wait_started_ = now;
  // What this side made itself must not hide what the server has said.
  if (outcome.attempt_timed_out && last_answer_.has_value()) return;
  last_answer_ =
      KeptAnswer{ended.status, KeptMetadata(InitialMetadata(ended)),
                 KeptMetadata(ended.context.GetServerTrailingMetadata())};
}

void CallCore::ReportDecision(Decision decision, absl::Time now) {
  decision.method = method_->name();
  decision.attempt = progress_.attempts;
  decision.remaining = terms_.deadline - now;
  decision.elapsed = now - started_;
  channel_->Notify(decision);
}

void CallCore::ReportTransition(
    const std::optional<CircuitBreaker::Transition>& change) {
  if (!change.has_value() || !channel_->observed()) return;
  std::string_view method;
  if (terms_.policy->own_breaker) method = method_->name();
  channel_->Notify(BreakerStateChange{method, change->from, change->to});
}

grpc::Status CallCore::FinalStatus(const grpc::Status& status) const {
  if (status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED ||
      !last_answer_.has_value()) {
    return status;
  }
  const grpc::Status& last = last_answer_->status;
  if (last.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) return status;
  // A server may answer so, too, while there is time left: then these are its
  // last words. (How much an inbound call has left is not known everywhere.)
  const absl::Duration timeout = terms_.policy->per_attempt_timeout;
  const absl::Duration slack = TimerSlack(timeout);
  const bool attempt_timed_out =
      attempt_timeout_set_ &&
      channel_->clock().Now() - attempt_started_ >= timeout - slack;
  if (parent_ == nullptr && !attempt_timed_out &&
      TimeUntil(attempt_deadline_) > slack) {
    return status;
  }
  return {status.error_code(),
          absl::StrCat(
              status.error_message(), " in attempt ", progress_.attempts,
              "; the server's last answer was ",
              AbslView(StatusCodeName(SanitizeStatusCode(last.error_code()))),
              ": ", last.error_message()),
          status.error_details()};
}

}  // namespace retry_guard::internal
