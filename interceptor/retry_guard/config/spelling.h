// "Did you mean ...?"

#ifndef RETRY_GUARD_CONFIG_SPELLING_H_
#define RETRY_GUARD_CONFIG_SPELLING_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace retry_guard {

// The candidate that `word` was probably meant to be; empty if none is near.
// Case, "_" and "-" do not count; one slip (a letter wrong, missing, too many,
// or two swapped) is allowed per four letters.
absl::string_view ClosestSpelling(
    absl::string_view word, absl::Span<const absl::string_view> candidates);

// `; did you mean "x"?`, or nothing.
std::string DidYouMean(absl::string_view word,
                       absl::Span<const absl::string_view> candidates);

}  // namespace retry_guard

#endif  // RETRY_GUARD_CONFIG_SPELLING_H_
