#include "tests/conformance/simulation.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <random>

#include "retry_guard/policy/backoff.h"

namespace retry_guard::conformance {
namespace {

enum class At { kServerRead, kClientRead, kServerWrite, kClientWrite };

struct Event {
  double time;
  int client;
  At at;
  bool operator>(const Event& other) const { return time > other.time; }
};

struct Client {
  int version = 0;
  bool written = false;
  BackoffLadder ladder;
};

BackoffPolicy PolicyOf(const std::string& algorithm, double base, double cap) {
  BackoffPolicy policy;
  policy.max = absl::Milliseconds(cap);
  policy.multiplier = 2;
  if (algorithm == "Decorr") {
    // s starts at base.
    policy.initial = absl::Milliseconds(base);
    policy.jitter = Jitter::kDecorrelated;
    return policy;
  }
  // e(1) = 2 * base.
  policy.initial = absl::Milliseconds(2 * base);
  policy.jitter = algorithm == "FullJitter"    ? Jitter::kFull
                  : algorithm == "EqualJitter" ? Jitter::kEqual
                                               : Jitter::kNone;
  return policy;
}

}  // namespace

bool IsAlgorithm(const std::string& name) {
  for (const char* const known :
       {"None", "Exponential", "FullJitter", "EqualJitter", "Decorr"}) {
    if (name == known) return true;
  }
  return false;
}

SimulationResult Simulate(const std::string& algorithm, int clients,
                          double base, double cap, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(10, 2);
  std::uniform_real_distribution<double> unit(0, 1);
  const auto hop = [&] { return std::abs(normal(random)); };
  const BackoffPolicy policy = PolicyOf(algorithm, base, cap);
  const bool no_backoff = algorithm == "None";

  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
  std::vector<Client> all(static_cast<size_t>(clients));
  for (int i = 0; i < clients; ++i) events.push({hop(), i, At::kServerRead});

  SimulationResult result;
  int version = 0;
  while (!events.empty()) {
    Event event = events.top();
    events.pop();
    result.in_order = result.in_order && event.time >= result.time;
    result.time = event.time;
    Client& client = all[static_cast<size_t>(event.client)];
    switch (event.at) {
      case At::kServerRead:
        client.version = version;
        event.at = At::kClientRead;
        break;
      case At::kClientRead:
        event.at = At::kServerWrite;
        break;
      case At::kServerWrite:
        ++result.calls;
        result.writes.push_back(event.time);
        client.written = client.version == version;
        if (client.written) ++version;
        if (!client.written) ++result.failures;
        event.at = At::kClientWrite;
        break;
      case At::kClientWrite:
        if (client.written) continue;
        event.at = At::kServerRead;
        if (!no_backoff) {
          event.time += absl::ToDoubleMilliseconds(
              client.ladder.Next(policy, unit(random)));
        }
        break;
    }
    event.time += hop();
    events.push(event);
  }
  return result;
}

}  // namespace retry_guard::conformance
