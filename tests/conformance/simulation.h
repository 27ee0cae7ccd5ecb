// The contention model that the backoff tables were made with: N clients want
// to commit one update each; who writes with an old version starts again after
// a backoff. The model is the table's (its notes describe it), the backoff is
// the library's.

#ifndef RETRY_GUARD_TESTS_CONFORMANCE_SIMULATION_H_
#define RETRY_GUARD_TESTS_CONFORMANCE_SIMULATION_H_

#include <map>
#include <string>
#include <vector>

namespace retry_guard::conformance {

struct SimulationResult {
  double time = 0;             // of the last event
  int calls = 0;               // writes that the server received
  int failures = 0;            // of these
  bool in_order = true;        // time never ran backwards
  std::vector<double> writes;  // when each arrived
};

// "None", "Exponential", "FullJitter", "EqualJitter", "Decorr".
bool IsAlgorithm(const std::string& name);

// In units of time that are read as milliseconds.
SimulationResult Simulate(const std::string& algorithm, int clients,
                          double base, double cap, unsigned seed);

}  // namespace retry_guard::conformance

#endif  // RETRY_GUARD_TESTS_CONFORMANCE_SIMULATION_H_
