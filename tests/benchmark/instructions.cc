#include "tests/benchmark/instructions.h"

#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <optional>
#include <regex>

#include "absl/strings/str_format.h"
#include "tests/benchmark/call_benchmark.h"

namespace retry_guard::benchmarks {
namespace {

std::string ThisProgram() {
  std::array<char, 4096> path{};
  const ssize_t length =
      readlink("/proc/self/exe", path.data(), path.size() - 1);
  return {path.data(), static_cast<size_t>(length > 0 ? length : 0)};
}

// Of a whole run of the program; nothing if it could not be counted.
std::optional<int64_t> Count(const std::string& name,
                             const std::string& address, int calls) {
  const std::string command = absl::StrFormat(
      "valgrind --tool=callgrind --callgrind-out-file=/dev/null '%s' "
      "--run=%s --address=%s --calls=%d 2>&1",
      ThisProgram(), name, address, calls);
  FILE* const output = popen(command.c_str(), "r");
  if (output == nullptr) return std::nullopt;
  std::optional<int64_t> count;
  std::array<char, 512> line{};
  while (std::fgets(line.data(), line.size(), output) != nullptr) {
    long long value = 0;  // NOLINT(google-runtime-int): as sscanf has it
    if (std::sscanf(line.data(), "==%*d== Collected : %lld", &value) == 1) {
      count = value;
    }
  }
  return pclose(output) == 0 ? count : std::nullopt;
}

}  // namespace

std::map<std::string, double> CountInstructions(const std::string& address,
                                                const std::string& only) {
  std::map<std::string, double> counts;
  const std::regex wanted(only);
  for (const CallCase& what : CallCases()) {
    if (what.load.outstanding != 1) continue;
    const bool stream = what.load.messages > 0;
    // The difference of two runs is without start and end.
    const int few = stream ? 1 : 100;
    const int many = stream ? 3 : 400;
    for (const Variant variant : kVariants) {
      const std::string name = what.Name(variant);
      if (!what.Has(variant) || !std::regex_search(name, wanted)) continue;
      std::cerr << "counting " << name << std::endl;
      const auto least = Count(name, address, few);
      const auto most = Count(name, address, many);
      if (!least.has_value() || !most.has_value()) continue;
      counts[name] = static_cast<double>(*most - *least) / (many - few) /
                     (stream ? what.load.messages : 1);
    }
  }
  return counts;
}

}  // namespace retry_guard::benchmarks
