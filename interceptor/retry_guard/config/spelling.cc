#include "retry_guard/config/spelling.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace retry_guard {
namespace {

std::string Fold(absl::string_view word) {
  std::string folded;
  for (char c : word) {
    if (c != '_' && c != '-') {
      folded += absl::ascii_tolower(static_cast<unsigned char>(c));
    }
  }
  return folded;
}

// Optimal string alignment: Levenshtein's distance plus swaps of neighbours.
size_t Slips(absl::string_view a, absl::string_view b) {
  std::vector<size_t> before(b.size() + 1);
  std::vector<size_t> above(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before.swap(above);
    above.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({changed, above[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

}  // namespace

absl::string_view ClosestSpelling(
    absl::string_view word, absl::Span<const absl::string_view> candidates) {
  // No key is that long, and the comparison is quadratic.
  constexpr size_t kLongest = 64;
  if (word.size() > kLongest) return {};
  const std::string folded = Fold(word);
  absl::string_view closest;
  size_t least = kLongest;
  for (absl::string_view candidate : candidates) {
    const size_t slips = Slips(folded, Fold(candidate));
    if (slips * 4 <= candidate.size() && slips < least) {
      least = slips;
      closest = candidate;
    }
  }
  return closest;
}

std::string DidYouMean(absl::string_view word,
                       absl::Span<const absl::string_view> candidates) {
  const absl::string_view closest = ClosestSpelling(word, candidates);
  if (closest.empty()) return "";
  return absl::StrCat("; did you mean \"", closest, "\"?");
}

}  // namespace retry_guard
