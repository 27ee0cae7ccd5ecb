#include "retry_guard/policy/striped.h"

#include <set>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace retry_guard {
namespace {

TEST(StripedTest, CountIsAPowerOfTwoOfAtMostEight) {
  const size_t count = StripeCount();
  EXPECT_GE(count, 1u);
  EXPECT_LE(count, 8u);
  EXPECT_EQ(count & (count - 1), 0u);
}

TEST(StripedTest, AThreadKeepsItsNumberAndSharesItWithNone) {
  std::vector<size_t> numbers(8);
  std::vector<std::thread> threads;
  for (size_t& number : numbers) {
    threads.emplace_back([&number] {
      number = ThreadStripe();
      EXPECT_EQ(ThreadStripe(), number);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::set<size_t>(numbers.begin(), numbers.end()).size(), 8u);
}

}  // namespace
}  // namespace retry_guard
