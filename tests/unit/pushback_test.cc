#include "retry_guard/policy/pushback.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "retry_guard/rpc_status.pb.h"

namespace retry_guard {
namespace {

using absl::Milliseconds;
using absl::Seconds;

// Sun, 06 Nov 1994 08:49:37 GMT, the example of RFC 9110.
const absl::Time kRfcExample = absl::FromUnixSeconds(784111777);

ServerHint Pushback(std::vector<std::string_view> values) {
  HintSources sources;
  sources.pushback_ms = values;
  return ReadServerHint(sources, kRfcExample);
}

ServerHint RetryAfter(std::string_view value,
                      absl::Time wall_now = kRfcExample) {
  HintSources sources;
  sources.retry_after = value;
  return ReadServerHint(sources, wall_now);
}

ServerHint Details(std::string_view bytes) {
  HintSources sources;
  sources.status_details = bytes;
  return ReadServerHint(sources, kRfcExample);
}

void AddRetryInfo(wire::RpcStatus& status, int64_t seconds, int32_t nanos,
                  const std::string& prefix = "type.googleapis.com") {
  wire::RetryInfo info;
  info.mutable_retry_delay()->set_seconds(seconds);
  info.mutable_retry_delay()->set_nanos(nanos);
  auto* detail = status.add_details();
  detail->set_type_url(prefix + "/google.rpc.RetryInfo");
  detail->set_value(info.SerializeAsString());
}

std::string RetryInfoBytes(int64_t seconds, int32_t nanos) {
  wire::RpcStatus status;
  AddRetryInfo(status, seconds, nanos);
  return status.SerializeAsString();
}

TEST(PushbackTest, CanonicalNumbersAreDelays) {
  for (auto [text, millis] : {std::pair<std::string_view, int64_t>{"0", 0},
                              {"1", 1},
                              {"5000", 5000},
                              {"2147483647", 2147483647}}) {
    const ServerHint hint = Pushback({text});
    EXPECT_EQ(hint.source, ServerHint::Source::kPushback) << text;
    EXPECT_FALSE(hint.stop) << text;
    EXPECT_EQ(hint.delay, Milliseconds(millis)) << text;
    EXPECT_TRUE(hint.consent());
  }
}

TEST(PushbackTest, AnythingElseMeansStop) {
  using namespace std::string_view_literals;
  for (std::string_view text :
       {"-1"sv, ""sv, " 5"sv, "5 "sv, "+5"sv, "05"sv, "00"sv, "-0"sv, "5.0"sv,
        "0x5"sv, "1e3"sv, "soon"sv, "2147483648"sv, "9223372036854775808"sv,
        "99999999999999999999999999"sv, "5\0"sv, "\xd9\xa5"sv}) {
    const ServerHint hint = Pushback({text});
    EXPECT_TRUE(hint.stop) << "'" << text << "'";
    EXPECT_TRUE(hint.present());
    EXPECT_FALSE(hint.consent());
    EXPECT_EQ(hint.delay, absl::ZeroDuration());
  }
}

TEST(PushbackTest, TwoValuesMeanStop) {
  EXPECT_TRUE(Pushback({"5", "5"}).stop);
}

TEST(RetryInfoTest, IsReadFromTheStatusDetails) {
  const ServerHint hint = Details(RetryInfoBytes(1, 500000000));
  EXPECT_EQ(hint.source, ServerHint::Source::kRetryInfo);
  EXPECT_EQ(hint.delay, Milliseconds(1500));
  EXPECT_TRUE(hint.consent());
}

TEST(RetryInfoTest, IsFoundBehindOtherDetailsAndOtherPrefixes) {
  wire::RpcStatus status;
  status.set_code(14);
  status.add_details()->set_type_url("type.googleapis.com/google.rpc.Help");
  status.add_details()->set_type_url("google.rpc.RetryInfo");  // no slash
  AddRetryInfo(status, 7, 0, "example.com/any");
  EXPECT_EQ(Details(status.SerializeAsString()).delay, Seconds(7));
}

TEST(RetryInfoTest, InvalidDelaysAreIgnored) {
  for (auto [seconds, nanos] : {std::pair<int64_t, int32_t>{-1, 0},
                                {0, -1},
                                {1, -1},
                                {0, 1000000000},
                                {315576000001, 0},
                                {INT64_MAX, 999999999},
                                {INT64_MIN, 0}}) {
    EXPECT_FALSE(Details(RetryInfoBytes(seconds, nanos)).present())
        << seconds << " " << nanos;
  }
  wire::RpcStatus without_delay;
  without_delay.add_details()->set_type_url("x/google.rpc.RetryInfo");
  EXPECT_FALSE(Details(without_delay.SerializeAsString()).present());
}

// The generated parser would drop the whole status for it.
TEST(RetryInfoTest, IsFoundBesideAMessageThatIsNoUtf8) {
  wire::RpcStatus status;
  status.set_message("caf");
  AddRetryInfo(status, 1, 0);
  std::string bytes = status.SerializeAsString();
  bytes[bytes.find("caf") + 2] = '\xe9';
  EXPECT_EQ(Details(bytes).delay, Seconds(1));
}

TEST(RetryInfoTest, DamagedBytesAreIgnored) {
  const std::string good = RetryInfoBytes(1, 1);
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(Details(std::string_view(good).substr(0, size)).present())
        << size;
  }
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = '\xff';
    Details(bad);  // no crash
  }
}

TEST(RetryAfterTest, WholeSeconds) {
  EXPECT_EQ(RetryAfter("120").delay, Seconds(120));
  EXPECT_EQ(RetryAfter("0").delay, absl::ZeroDuration());
  EXPECT_EQ(RetryAfter("007").delay, Seconds(7));  // 1*DIGIT
  EXPECT_EQ(RetryAfter("5").source, ServerHint::Source::kRetryAfter);
  EXPECT_FALSE(RetryAfter("5").consent());
}

TEST(RetryAfterTest, HugeNumbersSaturate) {
  for (std::string_view text :
       {"315576000001", "9223372036854775807", "9223372036854775808",
        "99999999999999999999999999999999"}) {
    EXPECT_EQ(RetryAfter(text).delay, Seconds(315576000000)) << text;
  }
}

TEST(RetryAfterTest, AllThreeDateForms) {
  const absl::Time before = kRfcExample - Seconds(90);
  for (std::string_view text :
       {"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994"}) {
    EXPECT_EQ(RetryAfter(text, before).delay, Seconds(90)) << text;
    // The past is "now".
    const ServerHint late = RetryAfter(text, kRfcExample + absl::Hours(1));
    EXPECT_TRUE(late.present()) << text;
    EXPECT_EQ(late.delay, absl::ZeroDuration()) << text;
  }
}

TEST(RetryAfterTest, TwoDigitYearsAreAtMostFiftyYearsAhead) {
  const absl::Time in_2026 =
      absl::FromCivil(absl::CivilDay(2026, 3, 1), absl::UTCTimeZone());
  // 2094 would be 68 years ahead: it is 1994.
  EXPECT_EQ(RetryAfter("Sunday, 06-Nov-94 08:49:37 GMT", in_2026).delay,
            absl::ZeroDuration());
  // 2075 is 49 years ahead.
  EXPECT_GT(RetryAfter("Friday, 01-Mar-75 00:00:00 GMT", in_2026).delay,
            absl::Hours(24 * 365 * 48));
  // Next century's first year, seen from the last of this one.
  const absl::Time in_2099 =
      absl::FromCivil(absl::CivilDay(2099, 12, 31), absl::UTCTimeZone());
  EXPECT_EQ(RetryAfter("Friday, 01-Jan-00 00:00:00 GMT", in_2099).delay,
            absl::Hours(24));
}

TEST(RetryAfterTest, AnythingElseIsIgnored) {
  for (std::string_view text :
       {"", " 5", "5 ", "-1", "+5", "1.5", "5s", "soon", "infinite-future",
        "Sun, 06 Nov 1994 08:49:37 UTC", "Sun, 06 Nov 1994 08:49:37",
        "Sun, 6 Nov 1994 08:49:37 GMT", "Sun, 99 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov -994 08:49:37 GMX", "06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-1994 08:49:37 GMT", "1994-11-06T08:49:37Z"}) {
    EXPECT_FALSE(RetryAfter(text).present()) << "'" << text << "'";
  }
}

TEST(ServerHintTest, FirstSourcePresentWins) {
  const std::vector<std::string_view> pushback = {"7"};
  const std::string details = RetryInfoBytes(8, 0);
  HintSources sources;
  sources.pushback_ms = pushback;
  sources.status_details = details;
  sources.retry_after = "9";
  EXPECT_EQ(ReadServerHint(sources, kRfcExample).delay, Milliseconds(7));
  sources.pushback_ms = {};
  EXPECT_EQ(ReadServerHint(sources, kRfcExample).delay, Seconds(8));
  sources.status_details = "garbage";
  EXPECT_EQ(ReadServerHint(sources, kRfcExample).delay, Seconds(9));
  sources.retry_after = std::nullopt;
  EXPECT_FALSE(ReadServerHint(sources, kRfcExample).present());
}

ServerHint Hint(ServerHint::Source source, absl::Duration delay) {
  ServerHint hint;
  hint.source = source;
  hint.delay = delay;
  return hint;
}

TEST(ServerForbidsRetryTest, StopAndTooLongAHintForbid) {
  PushbackPolicy policy;  // 60 s
  EXPECT_FALSE(ServerForbidsRetry(ServerHint(), policy));
  ServerHint hint = Hint(ServerHint::Source::kRetryAfter, Seconds(60));
  EXPECT_FALSE(ServerForbidsRetry(hint, policy));
  hint.delay += absl::Nanoseconds(1);
  EXPECT_TRUE(ServerForbidsRetry(hint, policy));
  hint.delay = {};
  hint.stop = true;
  EXPECT_TRUE(ServerForbidsRetry(hint, policy));
}

TEST(HintedWaitTest, IsStretchedNeverShortened) {
  const ServerHint hint = Hint(ServerHint::Source::kPushback, Seconds(1));
  const PushbackPolicy policy;  // jitter 0.2
  EXPECT_EQ(HintedWait(hint, policy, Milliseconds(100), Seconds(9), 0),
            Seconds(1));
  EXPECT_EQ(HintedWait(hint, policy, Milliseconds(100), Seconds(9), 0.5),
            Milliseconds(1100));
}

TEST(HintedWaitTest, RetryInfoAndRetryAfterWaitAtLeastOurOwnBackoff) {
  const PushbackPolicy policy;
  for (auto source :
       {ServerHint::Source::kRetryInfo, ServerHint::Source::kRetryAfter}) {
    EXPECT_EQ(HintedWait(Hint(source, Seconds(1)), policy, Milliseconds(100),
                         Seconds(3), 0.5),
              Seconds(3));
    EXPECT_EQ(HintedWait(Hint(source, Seconds(1)), policy, Milliseconds(100),
                         Milliseconds(300), 0.5),
              Milliseconds(1100));
  }
}

TEST(HintedWaitTest, ZeroIsSpreadOverTheInitialBackoff) {
  const PushbackPolicy policy;
  const ServerHint now =
      Hint(ServerHint::Source::kPushback, absl::ZeroDuration());
  EXPECT_EQ(HintedWait(now, policy, Milliseconds(100), Seconds(9), 0),
            absl::ZeroDuration());
  EXPECT_EQ(HintedWait(now, policy, Milliseconds(100), Seconds(9), 0.75),
            Milliseconds(75));
}

TEST(HintedWaitTest, Saturates) {
  PushbackPolicy policy;
  policy.max_wait = absl::InfiniteDuration();
  policy.jitter = 1;
  EXPECT_EQ(HintedWait(
                Hint(ServerHint::Source::kRetryAfter, absl::InfiniteDuration()),
                policy, Milliseconds(100), Seconds(1), 0.5),
            absl::InfiniteDuration());
  EXPECT_EQ(
      HintedWait(Hint(ServerHint::Source::kRetryAfter, Seconds(315576000000)),
                 policy, Milliseconds(100), Seconds(1), 0.5),
      Seconds(315576000000) * 1.5);
}

}  // namespace
}  // namespace retry_guard
