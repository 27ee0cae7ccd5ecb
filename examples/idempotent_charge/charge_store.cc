#include "charge_store.h"

#include <utility>

namespace charge {
namespace {

constexpr char kSchema[] = R"sql(
  CREATE TABLE IF NOT EXISTS charges (
    receipt INTEGER PRIMARY KEY,
    account TEXT NOT NULL,
    cents INTEGER NOT NULL
  );
  CREATE TABLE IF NOT EXISTS outcomes (
    key TEXT PRIMARY KEY,
    fingerprint BLOB NOT NULL,
    receipt INTEGER NOT NULL REFERENCES charges
  ) WITHOUT ROWID;
)sql";

absl::Status ErrorOf(sqlite3* db) {
  return absl::InternalError(sqlite3_errmsg(db));
}

absl::Status Execute(sqlite3* db, const char* sql) {
  return sqlite3_exec(db, sql, nullptr, nullptr, nullptr) == SQLITE_OK
             ? absl::OkStatus()
             : ErrorOf(db);
}

// One statement with its values. What is bound must outlive it.
class Statement {
 public:
  Statement(sqlite3* db, const char* sql) : db_(db) {
    sqlite3_prepare_v2(db, sql, -1, &statement_, nullptr);
  }
  ~Statement() { sqlite3_finalize(statement_); }

  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& Text(int place, std::string_view value) {
    sqlite3_bind_text(statement_, place, value.data(),
                      static_cast<int>(value.size()), SQLITE_STATIC);
    return *this;
  }
  Statement& Blob(int place, std::string_view value) {
    // A null pointer would be NULL.
    sqlite3_bind_blob(statement_, place, value.empty() ? "" : value.data(),
                      static_cast<int>(value.size()), SQLITE_STATIC);
    return *this;
  }
  Statement& Integer(int place, int64_t value) {
    sqlite3_bind_int64(statement_, place, value);
    return *this;
  }

  // True if there is a row, false at the end.
  absl::StatusOr<bool> Step() {
    switch (sqlite3_step(statement_)) {
      case SQLITE_ROW:
        return true;
      case SQLITE_DONE:
        return false;
      default:
        return ErrorOf(db_);
    }
  }
  int64_t Integer(int column) const {
    return sqlite3_column_int64(statement_, column);
  }
  std::string_view Blob(int column) const {
    const void* const data = sqlite3_column_blob(statement_, column);
    const auto size =
        static_cast<size_t>(sqlite3_column_bytes(statement_, column));
    return {static_cast<const char*>(data), size};
  }

 private:
  sqlite3* const db_;
  sqlite3_stmt* statement_ = nullptr;
};

// Rolled back unless committed.
class Transaction {
 public:
  explicit Transaction(sqlite3* db) : db_(db) {}
  ~Transaction() {
    if (open_) Execute(db_, "ROLLBACK").IgnoreError();
  }

  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  absl::Status Begin() {
    absl::Status status = Execute(db_, "BEGIN IMMEDIATE");
    open_ = status.ok();
    return status;
  }
  absl::Status Commit() {
    absl::Status status = Execute(db_, "COMMIT");
    open_ = !status.ok();
    return status;
  }

 private:
  sqlite3* const db_;
  bool open_ = false;
};

}  // namespace

ChargeStore::Claim::Claim(ChargeStore* store, std::string key,
                          std::string fingerprint)
    : store_(store),
      key_(std::move(key)),
      fingerprint_(std::move(fingerprint)) {}

ChargeStore::Claim::Claim(Claim&& other) noexcept
    : store_(std::exchange(other.store_, nullptr)),
      key_(std::move(other.key_)),
      fingerprint_(std::move(other.fingerprint_)) {}

ChargeStore::Claim::~Claim() {
  if (store_ == nullptr) return;
  std::lock_guard lock(store_->mutex_);
  store_->claimed_.erase(key_);
}

absl::StatusOr<std::unique_ptr<ChargeStore>> ChargeStore::Open(
    const std::string& path) {
  sqlite3* raw = nullptr;
  const int result = sqlite3_open(path.c_str(), &raw);
  Database db(raw);  // to be closed even if it could not be opened
  if (result != SQLITE_OK) return ErrorOf(db.get());
  if (absl::Status status = Execute(db.get(), kSchema); !status.ok()) {
    return status;
  }
  return std::unique_ptr<ChargeStore>(new ChargeStore(std::move(db)));
}

absl::StatusOr<ChargeStore::Admission> ChargeStore::Admit(
    const std::string& key, const std::string& fingerprint) {
  using Kind = Admission::Kind;
  // Held from the look into the books to the claim: of two twins that come at
  // the same time one gets it.
  std::lock_guard lock(mutex_);
  if (const auto claimed = claimed_.find(key); claimed != claimed_.end()) {
    return Admission{
        claimed->second == fingerprint ? Kind::kInFlight : Kind::kOtherRequest,
        {},
        0};
  }
  Statement find(db_.get(),
                 "SELECT fingerprint, receipt FROM outcomes WHERE key = ?");
  const absl::StatusOr<bool> found = find.Text(1, key).Step();
  if (!found.ok()) return found.status();
  if (*found) {
    if (find.Blob(0) != fingerprint) {
      return Admission{Kind::kOtherRequest, {}, 0};
    }
    return Admission{Kind::kDone, {}, find.Integer(1)};
  }
  claimed_.emplace(key, fingerprint);
  return Admission{Kind::kNew, Claim(this, key, fingerprint), 0};
}

absl::StatusOr<int64_t> ChargeStore::Commit(Claim claim, const Charge& charge) {
  return Write(&claim, charge);
}

absl::StatusOr<int64_t> ChargeStore::CommitUnprotected(const Charge& charge) {
  return Write(nullptr, charge);
}

absl::StatusOr<int64_t> ChargeStore::Write(const Claim* claim,
                                           const Charge& charge) {
  std::lock_guard lock(mutex_);
  Transaction transaction(db_.get());
  if (absl::Status status = transaction.Begin(); !status.ok()) return status;

  Statement insert_charge(db_.get(),
                          "INSERT INTO charges (account, cents) VALUES (?, ?)");
  absl::StatusOr<bool> step =
      insert_charge.Text(1, charge.account).Integer(2, charge.cents).Step();
  if (!step.ok()) return step.status();
  const int64_t receipt = sqlite3_last_insert_rowid(db_.get());

  if (claim != nullptr) {
    Statement insert_outcome(db_.get(),
                             "INSERT INTO outcomes (key, fingerprint, receipt) "
                             "VALUES (?, ?, ?)");
    step = insert_outcome.Text(1, claim->key_)
               .Blob(2, claim->fingerprint_)
               .Integer(3, receipt)
               .Step();
    if (!step.ok()) return step.status();
  }
  if (absl::Status status = transaction.Commit(); !status.ok()) return status;
  return receipt;
}

absl::StatusOr<int> ChargeStore::CountCharges(std::string_view account) const {
  std::lock_guard lock(mutex_);
  Statement count(db_.get(), "SELECT COUNT(*) FROM charges WHERE account = ?");
  const absl::StatusOr<bool> found = count.Text(1, account).Step();
  if (!found.ok()) return found.status();
  return static_cast<int>(count.Integer(0));
}

}  // namespace charge
