#include "trouble.h"

namespace charge {

void Trouble::BeforeCharge() {
  if (kind_ != Kind::kSlow) return;
  absl::MutexLock lock(&mu_);
  if (!first_) return;
  first_ = false;
  mu_.Await(absl::Condition(this, &Trouble::TwinCameOrOver));
}

void Trouble::AfterCharge() {
  absl::MutexLock lock(&mu_);
  charged_ = true;
}

grpc::Status Trouble::Answer() {
  if (kind_ != Kind::kSilentAfterCharge && kind_ != Kind::kFailsAfterCharge) {
    return grpc::Status::OK;
  }
  absl::MutexLock lock(&mu_);
  if (!first_) return grpc::Status::OK;
  first_ = false;
  if (kind_ == Kind::kSilentAfterCharge) mu_.Await(absl::Condition(&over_));
  return {grpc::StatusCode::UNAVAILABLE, "lost after the charge"};
}

void Trouble::TwinCame() {
  if (kind_ != Kind::kSlow) return;
  absl::MutexLock lock(&mu_);
  twin_came_ = true;
  mu_.Await(absl::Condition(this, &Trouble::ChargedOrOver));
}

void Trouble::End() {
  absl::MutexLock lock(&mu_);
  over_ = true;
}

}  // namespace charge
