#include "tests/interop/load.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace retry_guard::interop {
namespace {

using end2end::Style;

// How long the backend works on a call: so that some are always under way, and
// two cores have time for everybody.
constexpr char kWork[] = "/20";
// A bound for a test that went astray.
constexpr int kMaxCallsPerUser = 20'000;

}  // namespace

Load::Load(std::shared_ptr<grpc::Channel> channel, std::string method,
           const std::vector<Style>& styles)
    : channel_(std::move(channel)), method_(std::move(method)) {
  for (const Style style : styles) {
    users_.emplace_back([this, style] { BeUser(style); });
  }
}

Load::~Load() { Stop(); }

void Load::BeUser(Style style) {
  for (int n = 0; n < kMaxCallsPerUser && !stopping_; ++n) {
    const std::string id =
        absl::StrCat(method_, "-", end2end::StyleName(style), "-", n);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::seconds(20));
    const end2end::CallResult result =
        end2end::Call(style, channel_, &context, id + kWork, method_);
    absl::MutexLock lock(&mu_);
    results_[id] = result.status;
  }
}

bool Load::AwaitCalls(int count) const {
  absl::MutexLock lock(&mu_);
  const size_t enough = results_.size() + count;
  const auto ended = [this, enough]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return results_.size() >= enough;
  };
  return mu_.AwaitWithTimeout(absl::Condition(&ended), absl::Seconds(30));
}

std::map<std::string, grpc::Status> Load::Stop() {
  stopping_ = true;
  for (std::thread& user : users_) {
    if (user.joinable()) user.join();
  }
  absl::MutexLock lock(&mu_);
  return results_;
}

}  // namespace retry_guard::interop
