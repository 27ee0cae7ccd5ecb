#include "retry_guard/call/stream_progress.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace retry_guard::internal {
namespace {

// The number of a write that will not be made.
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

}  // namespace

StreamProgress::StreamProgress(SendBuffer sends) : sends_(std::move(sends)) {
  sends_.Restart();
}

void StreamProgress::StartWith(StreamWrite write) {
  sends_.Add(std::move(write));
}

void StreamProgress::Write(Batch* batch, StreamWrite write) {
  // What arrives nowhere need not be kept.
  const int64_t number =
      CanWriteNoMore() ? kNever : sends_.Add(std::move(write));
  sending_.push_back({batch, number});
  CommitIfTooMuch();
}

bool StreamProgress::CanWriteNoMore() const {
  return answered_ || (committed_ && !can_write_);
}

void StreamProgress::Receive(Batch* batch, const BatchWants& wants) {
  receiving_.push_back({batch, wants});
}

const StreamWrite* StreamProgress::AttemptStarts(int64_t buffer_limit) {
  buffer_limit_ = buffer_limit;
  phase_ = Phase::kStarting;
  headers_ = Headers::kAwaited;
  message_ = Message::kUnknown;
  undecodable_ = false;
  has_status_ = false;
  can_write_ = true;
  CommitIfTooMuch();
  const StreamWrite* const first = sends_.Next();
  under_way_ = first != nullptr ? UnderWay::kWrite : UnderWay::kHeaders;
  return first;
}

void StreamProgress::HeadersCame(bool trailers_only) {
  headers_ = trailers_only ? Headers::kNone : Headers::kThere;
}

void StreamProgress::WriteDone(bool ok) {
  if (!ok) {
    can_write_ = false;
  } else if (under_way_ == UnderWay::kWrite) {
    sends_.MarkWritten();
  }
  under_way_ = UnderWay::kNothing;
}

void StreamProgress::ReadDone(bool ok, bool got_message) {
  reading_ = false;
  message_ = got_message ? Message::kThere : Message::kNone;
  undecodable_ = !ok;
}

void StreamProgress::Commit() {
  committed_ = true;
  sends_.Commit();
}

void StreamProgress::Retry() {
  phase_ = Phase::kNoAttempt;
  sends_.Restart();
}

// Only to an attempt: what is kept between two of them is sent by the next, and
// one that is over may be repeated.
void StreamProgress::CommitIfTooMuch() {
  if (phase_ != Phase::kStarting && phase_ != Phase::kRunning) return;
  if (sends_.bytes() > buffer_limit_) Commit();
}

StreamProgress::Step StreamProgress::Next() {
  Step step;
  if (TakeSent(&step) || TakeReceived(&step)) return step;
  if (phase_ != Phase::kRunning || TakeOver(&step) || dropped_) return step;
  if (!TakeWrite(&step)) TakeRead(&step);
  return step;
}

// A batch of the application's whose write is done, or will never be.
bool StreamProgress::TakeSent(Step* step) {
  if (sending_.empty()) return false;
  const bool written = sending_.front().number < sends_.written();
  if (!written && !CanWriteNoMore()) return false;
  step->kind = Kind::kSent;
  step->batch = sending_.front().batch;
  step->ok = written;
  sending_.pop_front();
  return true;
}

bool StreamProgress::TakeReceived(Step* step) {
  const auto ready = std::find_if(
      receiving_.begin(), receiving_.end(),
      [this](const Receiving& receiving) { return HasAll(receiving.wants); });
  if (ready == receiving_.end()) return false;
  step->kind = Kind::kReceived;
  step->batch = ready->batch;
  step->ok = ready->wants.message && message_ == Message::kThere;
  if (step->ok) message_ = Message::kUnknown;
  receiving_.erase(ready);
  return true;
}

// What a committed attempt lacks, the call lacks.
bool StreamProgress::HasAll(const BatchWants& wants) const {
  if (answered_) return true;
  if (wants.status) return false;
  const bool headers =
      headers_ == Headers::kThere || (headers_ == Headers::kNone && committed_);
  const bool message =
      message_ == Message::kThere || (message_ == Message::kNone && committed_);
  return (!wants.initial_metadata || headers) && (!wants.message || message);
}

bool StreamProgress::TakeOver(Step* step) {
  if (!AttemptIsOver()) return false;
  step->kind = dropped_ ? Kind::kDropped : Kind::kOver;
  phase_ = Phase::kOver;
  return true;
}

bool StreamProgress::OperationsAreDone() const {
  return has_status_ && headers_ != Headers::kAwaited && !reading_ &&
         under_way_ == UnderWay::kNothing;
}

// A server's status comes after its messages, but an interceptor after ours may
// answer with both at any time: the application reads to the end.
bool StreamProgress::AttemptIsOver() const {
  return OperationsAreDone() && (dropped_ || !committed_ ||
                                 message_ == Message::kNone || WantsStatus());
}

// The one reply of a client stream is wanted with the status, and read first.
bool StreamProgress::WantsStatus() const {
  const bool unread = message_ == Message::kUnknown;
  return std::any_of(receiving_.begin(), receiving_.end(),
                     [unread](const Receiving& receiving) {
                       const BatchWants& wants = receiving.wants;
                       return wants.status && !(wants.message && unread);
                     });
}

bool StreamProgress::TakeWrite(Step* step) {
  if (!can_write_ || under_way_ != UnderWay::kNothing) return false;
  step->write = sends_.Next();
  if (step->write == nullptr) return false;
  under_way_ = UnderWay::kWrite;
  step->kind = Kind::kWrite;
  return true;
}

// For a batch that waits for a message that nobody reads yet.
bool StreamProgress::TakeRead(Step* step) {
  if (reading_ || message_ != Message::kUnknown) return false;
  const auto waits = std::find_if(
      receiving_.begin(), receiving_.end(),
      [](const Receiving& receiving) { return receiving.wants.message; });
  if (waits == receiving_.end()) return false;
  reading_ = true;
  step->kind = Kind::kRead;
  step->batch = waits->batch;
  return true;
}

}  // namespace retry_guard::internal
