// Makes calls the way an application does, in each style.

#ifndef TESTS_BENCHMARK_DRIVERS_H_
#define TESTS_BENCHMARK_DRIVERS_H_

#include <grpcpp/channel.h>

#include <memory>
#include <vector>

#include "tests/benchmark/variants.h"

namespace retry_guard::benchmarks {

enum class Style { kSync, kQueue, kCallback };

struct Load {
  int outstanding = 1;
  int message_bytes = 100;
  int messages = 0;  // per server stream; 0: unary calls
};

// Keeps `load.outstanding` calls open until `calls` were made, and appends how
// long each took, in microseconds. Ends the program when one fails: nothing
// here is meant to.
class Driver {
 public:
  virtual ~Driver() = default;
  virtual void Run(int calls, std::vector<float>* micros) = 0;
};

std::unique_ptr<Driver> MakeDriver(
    Style style, Variant variant, const std::shared_ptr<grpc::Channel>& channel,
    const Load& load);

}  // namespace retry_guard::benchmarks

#endif  // TESTS_BENCHMARK_DRIVERS_H_
