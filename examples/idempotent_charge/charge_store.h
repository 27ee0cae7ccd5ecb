// The books: charges, and for each idempotency key what came of its request.
// Both are written in one transaction, so there is never the one without the
// other, whatever happens in between.

#ifndef EXAMPLES_IDEMPOTENT_CHARGE_CHARGE_STORE_H_
#define EXAMPLES_IDEMPOTENT_CHARGE_CHARGE_STORE_H_

#include <sqlite3.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace charge {

struct Charge {
  std::string account;
  int64_t cents = 0;
};

// Thread-safe. For one server process: which keys are being worked on is kept
// in memory, so that a crash frees them. Several servers on one database would
// keep that in a table, with a time after which a claim is void. To outlive its
// claims.
class ChargeStore {
 public:
  // The right to carry out the request of one key, exclusively. Gives the key
  // back when it goes, so that one that came to nothing can be repeated.
  class Claim {
   public:
    ~Claim();
    Claim(Claim&& other) noexcept;
    Claim& operator=(Claim&&) = delete;

   private:
    friend class ChargeStore;

    Claim(ChargeStore* store, std::string key, std::string fingerprint);

    ChargeStore* store_;  // null: moved from
    std::string key_;
    std::string fingerprint_;
  };

  // What a request with a key meets.
  struct Admission {
    enum class Kind {
      kNew,           // carry it out: `claim`
      kDone,          // was carried out already: `receipt`
      kInFlight,      // is being carried out
      kOtherRequest,  // the key belongs to another request
    };
    Kind kind = Kind::kNew;
    std::optional<Claim> claim;
    int64_t receipt = 0;
  };

  // A file, or ":memory:".
  static absl::StatusOr<std::unique_ptr<ChargeStore>> Open(
      const std::string& path);

  // `fingerprint` tells requests apart: the same for the same request.
  absl::StatusOr<Admission> Admit(const std::string& key,
                                  const std::string& fingerprint);

  // Writes the charge and, for the claim's key, the outcome. Returns the number
  // of the receipt; on an error nothing was written. Either way the claim is
  // over.
  absl::StatusOr<int64_t> Commit(Claim claim, const Charge& charge);

  // Without a key, and so without protection.
  absl::StatusOr<int64_t> CommitUnprotected(const Charge& charge);

  absl::StatusOr<int> CountCharges(std::string_view account) const;

 private:
  struct Close {
    void operator()(sqlite3* db) const { sqlite3_close(db); }
  };
  using Database = std::unique_ptr<sqlite3, Close>;

  explicit ChargeStore(Database db) : db_(std::move(db)) {}

  absl::StatusOr<int64_t> Write(const Claim* claim, const Charge& charge);

  mutable std::mutex mutex_;                    // of all that follows
  std::map<std::string, std::string> claimed_;  // key to fingerprint
  const Database db_;
};

}  // namespace charge

#endif  // EXAMPLES_IDEMPOTENT_CHARGE_CHARGE_STORE_H_
