// The channels that are compared.

#ifndef TESTS_BENCHMARK_VARIANTS_H_
#define TESTS_BENCHMARK_VARIANTS_H_

#include <grpcpp/channel.h>

#include <array>
#include <memory>
#include <string>

namespace retry_guard::benchmarks {

enum class Variant {
  kBare,          // no interceptors, core's retries off
  kInterceptor,   // one interceptor, which only proceeds
  kNative,        // gRPC's retryPolicy and retryThrottling
  kLoop,          // bare, with a loop round the stub, as a user would write it
  kGuard,         // ours, with everything on
  kGuardTimeout,  // and a perAttemptTimeout, which needs calls of our own
};

inline constexpr std::array<Variant, 6> kVariants = {
    Variant::kBare, Variant::kInterceptor, Variant::kNative,
    Variant::kLoop, Variant::kGuard,       Variant::kGuardTimeout};

const char* Name(Variant variant);

enum class Purpose {
  kIsFast,      // a policy as one would have it
  kHoldsCalls,  // retries any number of calls, after minutes
};

// A channel with a connection of its own.
std::shared_ptr<grpc::Channel> MakeChannel(Variant variant,
                                           const std::string& address,
                                           Purpose purpose = Purpose::kIsFast);

}  // namespace retry_guard::benchmarks

#endif  // TESTS_BENCHMARK_VARIANTS_H_
