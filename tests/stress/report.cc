#include "tests/stress/report.h"

#include <malloc.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <string>

#include "retry_guard/policy/status_codes.h"
#include "tests/end2end/call_styles.h"

namespace retry_guard::stress {

void Report::Count(const Plan& plan, const Result& result, int attempts) {
  ++calls_;
  attempts_ += attempts;
  if (attempts > 1) ++retried_;
  ++styles_[static_cast<int>(plan.shape)][static_cast<int>(plan.style)];
  ++routes_[static_cast<int>(plan.route)];
  const int code = static_cast<int>(result.status.error_code());
  ++outcomes_[result.has_status ? std::clamp(code, 0, kCodes - 2) : kCodes - 1];
}

void Report::Print() const {
  std::printf("calls %" PRId64 ", attempts %" PRId64 ", calls retried %" PRId64
              "\n",
              calls_.load(), attempts_.load(), retried_.load());
  for (int shape = 0; shape < kShapes; ++shape) {
    std::printf("  %s:", MethodOf(static_cast<Shape>(shape)).c_str());
    for (int style = 0; style < kStyles; ++style) {
      const int64_t count = styles_[shape][style];
      if (count == 0) continue;
      std::printf(" %s %" PRId64,
                  end2end::StyleName(static_cast<Style>(style)).c_str(), count);
    }
    std::printf("\n");
  }
  std::printf("  routes:");
  for (int route = 0; route < kRoutes; ++route) {
    std::printf(" %s %" PRId64, RouteName(static_cast<RouteId>(route)).c_str(),
                routes_[route].load());
  }
  std::printf("\n  outcomes:");
  for (int code = 0; code < kCodes; ++code) {
    const int64_t count = outcomes_[code];
    if (count == 0) continue;
    const std::string name =
        code == kCodes - 1
            ? "dropped"
            : std::string(StatusCodeName(static_cast<absl::StatusCode>(code)));
    std::printf(" %s %" PRId64, name.c_str(), count);
  }
  std::printf("\n");
}

int64_t HeapInUse() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 0;
#else
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
#endif
}

}  // namespace retry_guard::stress
