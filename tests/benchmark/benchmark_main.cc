// Compares the cost of calls on channels of several kinds, and prints a table.
//
//   retry_guard_benchmark [--rounds=5] [--seconds=0.5] [--only=REGEX]
//                         [--json=FILE] [--instructions] [--memory]
//                         [--large-streams]
//
// Other options go to Google Benchmark.

#include <benchmark/benchmark.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tests/benchmark/call_benchmark.h"
#include "tests/benchmark/instructions.h"
#include "tests/benchmark/large_stream.h"
#include "tests/benchmark/memory.h"
#include "tests/benchmark/policy_benchmark.h"
#include "tests/benchmark/server_process.h"
#include "tests/benchmark/table.h"

namespace retry_guard::benchmarks {
namespace {

struct Options {
  int rounds = 5;
  double seconds = 0.5;
  std::string only = ".";
  std::string json;
  bool instructions = false;
  bool memory = false;
  bool large_streams = false;
  bool serve = false;
  // For one case under a profiler.
  std::string run;
  std::string address;
  int calls = 0;
};

bool Take(const char* argument, const char* flag, std::string* value) {
  absl::string_view rest = argument;
  if (!absl::ConsumePrefix(&rest, flag)) return false;
  *value = std::string(rest);
  return true;
}

// Takes ours out of the arguments.
Options ReadOptions(std::vector<char*>* arguments) {
  Options options;
  std::vector<char*> others;
  for (char* const argument : *arguments) {
    std::string number;
    if (Take(argument, "--rounds=", &number)) {
      if (!absl::SimpleAtoi(number, &options.rounds)) options.rounds = 0;
    } else if (Take(argument, "--seconds=", &number)) {
      if (!absl::SimpleAtod(number, &options.seconds)) options.seconds = 0;
    } else if (Take(argument, "--calls=", &number)) {
      if (!absl::SimpleAtoi(number, &options.calls)) options.calls = 0;
    } else if (std::string_view(argument) == "--instructions") {
      options.instructions = true;
    } else if (std::string_view(argument) == "--memory") {
      options.memory = true;
    } else if (std::string_view(argument) == "--large-streams") {
      options.large_streams = true;
    } else if (std::string_view(argument) == "--serve") {
      options.serve = true;
    } else if (!Take(argument, "--only=", &options.only) &&
               !Take(argument, "--json=", &options.json) &&
               !Take(argument, "--run=", &options.run) &&
               !Take(argument, "--address=", &options.address)) {
      others.push_back(argument);
    }
  }
  *arguments = std::move(others);
  return options;
}

// A group at a time, so that the variants that are compared take turns.
void RunCallGroups(const Options& options, Collector* collector) {
  const std::regex only(options.only);
  for (const CallCase& what : CallCases()) {
    std::string group;
    for (const Variant variant : kVariants) {
      const std::string name = what.Name(variant);
      if (!what.Has(variant) || !std::regex_search(name, only)) continue;
      absl::StrAppend(&group, group.empty() ? "^(" : "|", name);
    }
    if (group.empty()) continue;
    std::cerr << what.Name(Variant::kGuard) << std::endl;
    benchmark::RunSpecifiedBenchmarks(collector, absl::StrCat(group, ")/"));
  }
}

int Main(const Options& options) {
  const ServerProcess server;
  // First, while nothing else has filled the heap.
  if (options.memory) PrintMemoryTable(server.address(), std::cout);
  if (options.large_streams) {
    PrintLargeStreamTable(server.address(), options.only, 2 * options.rounds,
                          std::cout);
  }
  RegisterCallBenchmarks(server.address(), options.rounds, options.seconds);
  RegisterPolicyBenchmarks(server.address(), options.rounds, options.seconds);
  std::ofstream json;
  if (!options.json.empty()) json.open(options.json);
  Collector collector(options.json.empty() ? nullptr : &json);
  RunCallGroups(options, &collector);
  const std::regex only(options.only);
  for (const std::string& group : PolicyGroups()) {
    if (!std::regex_search(group, only)) continue;
    std::cerr << group << std::endl;
    benchmark::RunSpecifiedBenchmarks(&collector, absl::StrCat("^", group));
  }
  std::map<std::string, double> instructions;
  if (options.instructions) {
    instructions = CountInstructions(server.address(), options.only);
  }
  PrintCallTable(collector, instructions, std::cout);
  PrintPolicyTable(collector, std::cout);
  return 0;
}

}  // namespace
}  // namespace retry_guard::benchmarks

int main(int argc, char** argv) {
  // NOLINTNEXTLINE(google-build-using-namespace): main is all of it.
  using namespace retry_guard::benchmarks;
  std::vector<char*> arguments(argv, argv + argc);
  const Options options = ReadOptions(&arguments);
  if (options.serve) return ServeUntilParentIsGone();
  if (!options.run.empty()) {
    return RunOnly(options.run, options.address, options.calls) ? 0 : 1;
  }
  // Rounds of different variants take turns: a machine that is slow for a
  // while is so for all of them.
  std::string interleave = "--benchmark_enable_random_interleaving=true";
  arguments.push_back(interleave.data());
  int count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 2;
  return Main(options);
}
