#include "charge_store.h"

#include <sqlite3.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace charge {
namespace {

using Kind = ChargeStore::Admission::Kind;

const Charge kCharge{"ada", 3000};

std::unique_ptr<ChargeStore> OpenOrDie(const std::string& path) {
  auto store = ChargeStore::Open(path);
  if (!store.ok()) std::abort();
  return *std::move(store);
}

// Admits a request with `key`, and carries it out if it is new.
int64_t ChargeOnce(ChargeStore& store, const std::string& key,
                   const std::string& fingerprint) {
  auto admission = store.Admit(key, fingerprint);
  if (!admission.ok()) std::abort();
  if (admission->kind == Kind::kDone) return admission->receipt;
  EXPECT_EQ(admission->kind, Kind::kNew);
  const auto receipt = store.Commit(*std::move(admission->claim), kCharge);
  EXPECT_TRUE(receipt.ok()) << receipt.status();
  return receipt.value_or(-1);
}

class ChargeStoreTest : public ::testing::Test {
 protected:
  Kind KindOf(const std::string& key, const std::string& fingerprint) {
    const auto admission = store_->Admit(key, fingerprint);
    EXPECT_TRUE(admission.ok()) << admission.status();
    return admission->kind;
  }

  const std::unique_ptr<ChargeStore> store_ = OpenOrDie(":memory:");
};

TEST_F(ChargeStoreTest, TheSameKeyTwiceIsOneCharge) {
  const int64_t receipt = ChargeOnce(*store_, "key", "request");
  EXPECT_EQ(ChargeOnce(*store_, "key", "request"), receipt);
  EXPECT_EQ(store_->CountCharges("ada").value(), 1);
}

TEST_F(ChargeStoreTest, AnotherKeyIsAnotherCharge) {
  const int64_t receipt = ChargeOnce(*store_, "key", "request");
  EXPECT_NE(ChargeOnce(*store_, "another", "request"), receipt);
  EXPECT_EQ(store_->CountCharges("ada").value(), 2);
}

TEST_F(ChargeStoreTest, AKeyBelongsToOneRequest) {
  ChargeOnce(*store_, "key", "request");
  EXPECT_EQ(KindOf("key", "another request"), Kind::kOtherRequest);
  EXPECT_EQ(KindOf("key", ""), Kind::kOtherRequest);
  EXPECT_EQ(KindOf("key", "request"), Kind::kDone);
}

TEST_F(ChargeStoreTest, AnEmptyFingerprintIsOneToo) {
  ChargeOnce(*store_, "key", "");
  EXPECT_EQ(KindOf("key", ""), Kind::kDone);
  EXPECT_EQ(KindOf("key", std::string(1, '\0')), Kind::kOtherRequest);
}

TEST_F(ChargeStoreTest, ATwinIsInFlightUntilTheChargeIsMade) {
  auto first = store_->Admit("key", "request");
  EXPECT_EQ(first->kind, Kind::kNew);
  EXPECT_EQ(KindOf("key", "request"), Kind::kInFlight);
  EXPECT_EQ(KindOf("key", "another request"), Kind::kOtherRequest);
  EXPECT_EQ(KindOf("another", "request"), Kind::kNew);
  EXPECT_TRUE(store_->Commit(*std::move(first->claim), kCharge).ok());
  EXPECT_EQ(KindOf("key", "request"), Kind::kDone);
}

TEST_F(ChargeStoreTest, AClaimThatCameToNothingFreesItsKey) {
  EXPECT_EQ(KindOf("key", "request"), Kind::kNew);  // and is dropped
  ChargeOnce(*store_, "key", "request");
  EXPECT_EQ(store_->CountCharges("ada").value(), 1);
}

TEST_F(ChargeStoreTest, WithoutAKeyEachRequestIsACharge) {
  EXPECT_TRUE(store_->CommitUnprotected(kCharge).ok());
  EXPECT_TRUE(store_->CommitUnprotected(kCharge).ok());
  EXPECT_EQ(store_->CountCharges("ada").value(), 2);
}

TEST(ChargeStoreOpenTest, TellsWhatIsWrong) {
  EXPECT_FALSE(ChargeStore::Open("/no/such/directory/charges.db").ok());
}

// A database in a file, which survives its store.
class ChargeStoreFileTest : public ::testing::Test {
 protected:
  ChargeStoreFileTest()
      : path_(::testing::TempDir() + "charge_store_test_" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name() +
              ".db") {
    std::remove(path_.c_str());
  }
  ~ChargeStoreFileTest() override { std::remove(path_.c_str()); }

  // By a connection of its own.
  void Execute(const char* sql) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, sql, nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(db);
  }

  const std::string path_;
};

TEST_F(ChargeStoreFileTest, OutcomesSurviveARestart) {
  const int64_t receipt = ChargeOnce(*OpenOrDie(path_), "key", "request");
  const auto store = OpenOrDie(path_);
  EXPECT_EQ(ChargeOnce(*store, "key", "request"), receipt);
  EXPECT_EQ(store->CountCharges("ada").value(), 1);
}

TEST_F(ChargeStoreFileTest, AnErrorBetweenChargeAndOutcomeUndoesTheCharge) {
  const auto store = OpenOrDie(path_);
  Execute(
      "CREATE TRIGGER fail BEFORE INSERT ON outcomes "
      "BEGIN SELECT RAISE(FAIL, 'disk on fire'); END");
  {
    auto admission = store->Admit("key", "request");
    const auto receipt = store->Commit(*std::move(admission->claim), kCharge);
    EXPECT_THAT(std::string(receipt.status().message()), "disk on fire");
  }
  EXPECT_EQ(store->CountCharges("ada").value(), 0);
  Execute("DROP TRIGGER fail");
  ChargeOnce(*store, "key", "request");
  EXPECT_EQ(store->CountCharges("ada").value(), 1);
}

constexpr int kDied = 7;

// For every connection that is opened from now on: the process dies when all is
// written and nothing is committed.
void DieAtCommit() {
  const auto install = +[](sqlite3* db, char** /*error*/,
                           const sqlite3_api_routines* /*api*/) -> int {
    sqlite3_commit_hook(
        db, [](void*) -> int { std::_Exit(kDied); }, nullptr);
    return SQLITE_OK;
  };
  sqlite3_auto_extension(reinterpret_cast<void (*)()>(install));
}

TEST_F(ChargeStoreFileTest, ACrashBetweenChargeAndOutcomeUndoesTheCharge) {
  OpenOrDie(path_);  // makes the tables
  EXPECT_EXIT(
      {
        DieAtCommit();
        ChargeOnce(*OpenOrDie(path_), "key", "request");
      },
      ::testing::ExitedWithCode(kDied), "");
  const auto store = OpenOrDie(path_);
  EXPECT_EQ(store->CountCharges("ada").value(), 0);
  ChargeOnce(*store, "key", "request");
  EXPECT_EQ(store->CountCharges("ada").value(), 1);
}

}  // namespace
}  // namespace charge
