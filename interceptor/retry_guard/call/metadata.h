// Metadata keys that mean something to retry_guard, and metadata that outlives
// the attempt that brought it.

#ifndef RETRY_GUARD_CALL_METADATA_H_
#define RETRY_GUARD_CALL_METADATA_H_

#include <grpcpp/support/string_ref.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace retry_guard::internal {

// The marker: who retries this call, which attempt this is (from 1), and how
// many milliseconds the whole call has left. One value each.
inline constexpr char kRetryOwner[] = "retry-owner";
inline constexpr char kRetryAttempt[] = "retry-attempt";
inline constexpr char kRetryRemainingMs[] = "retry-remaining-ms";
// gRFC A6.
inline constexpr char kPreviousAttempts[] = "grpc-previous-rpc-attempts";
inline constexpr char kPushbackMs[] = "grpc-retry-pushback-ms";
// RFC 9110 10.2.3.
inline constexpr char kRetryAfter[] = "retry-after";
inline constexpr char kIdempotencyKey[] = "idempotency-key";

using SendMetadata = std::multimap<std::string, std::string>;
using ReceivedMetadata = std::multimap<grpc::string_ref, grpc::string_ref>;

inline std::string_view View(const grpc::string_ref& text) {
  return {text.data(), text.size()};
}

// The value of a key that should stand once; of several the first.
inline std::string_view FindOne(const ReceivedMetadata& metadata,
                                std::string_view key) {
  const auto found = metadata.find(grpc::string_ref(key.data(), key.size()));
  return found == metadata.end() ? std::string_view() : View(found->second);
}

// Erases every value of `key`, then inserts one.
inline void SetOne(SendMetadata& metadata, const char* key, std::string value) {
  metadata.erase(key);
  metadata.emplace(key, std::move(value));
}

// The value of retry-remaining-ms: whole milliseconds, never less than one.
inline std::string RemainingMs(absl::Duration remaining) {
  return std::to_string(
      std::max<int64_t>(1, absl::ToInt64Milliseconds(
                               absl::Floor(remaining, absl::Milliseconds(1)))));
}

// A copy of received metadata, which itself only points into its call.
class KeptMetadata {
 public:
  KeptMetadata() = default;
  explicit KeptMetadata(const ReceivedMetadata& metadata) {
    entries_.reserve(metadata.size());
    for (const auto& [key, value] : metadata) {
      entries_.emplace_back(View(key), View(value));
    }
  }

  // The references stay valid as long as this object.
  void InsertInto(ReceivedMetadata* metadata) const {
    for (const auto& [key, value] : entries_) metadata->emplace(key, value);
  }

 private:
  std::vector<std::pair<std::string, std::string>> entries_;
};

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_METADATA_H_
