#include "retry_guard/guard.h"

#include "retry_guard/call/guard_state.h"

namespace retry_guard {

Guard::Guard() : state_(std::make_unique<internal::GuardState>()) {}

Guard::~Guard() = default;

std::shared_ptr<Guard> Guard::Create() {
  return std::shared_ptr<Guard>(new Guard());
}

GuardSnapshot Guard::Snapshot() const {
  return state_->Snapshot(state_->Now());
}

void Guard::SetRetriesEnabled(bool enabled) {
  state_->SetRetriesEnabled(enabled);
}

}  // namespace retry_guard
