#include "config_mutator.h"

#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"

namespace retry_guard::testing {
namespace {

constexpr const char* kValues[] = {
    // Numbers, plain and odd.
    "0", "1", "2", "3", "5", "6", "20", "21", "100", "1000", "1001", "-1", "-0",
    "0.5", "1.0", "1.5", "4.0", "1e3", "1E-3", "0.0004", "0.0019", "0.1234567",
    "1e30", "0e5", "0E-5", "1e300", "1e-30", "1e-300", "2147483647",
    "2147483648", "99999999999999999999", "0.1e1", "67108864", "67108865",
    "1.00000000000000000000000000000001",
    // The same as strings.
    "\"3\"", "\"0.5\"", "\"1e1\"", "\"1e999\"", "\"1e-999\"", "\"NaN\"",
    "\"inf\"", "\"0x10\"", "\"1.\"",
    // Durations.
    "\"0.1s\"", "\"1s\"", "\"10s\"", "\"0.000000001s\"", "\"0.0009s\"",
    "\"0.0015s\"", "\".5s\"", "\"1.s\"", "\"0s\"", "\"-1s\"", "\"0010s\"",
    "\"315576000000s\"", "\"315576000000.5s\"", "\"315576000001s\"", "\"1ms\"",
    "\"1 s\"", "\"+1s\"", "\"3600s\"",
    // Status codes.
    "\"UNAVAILABLE\"", "\"unavailable\"", "\"Aborted\"", "\"OK\"", "\"NOPE\"",
    "14", "16", "17", "[14]", "[\"OK\"]", "[]", "[\"INTERNAL\", 4]",
    // Enum names.
    "\"FULL\"", "\"NONE\"", "\"full\"", "\"IDEMPOTENT\"", "\"HERE\"",
    "\"NEVER\"", "\"OWN\"",
    // Everything else.
    "null", "true", "false", "{}", "[{}]", "\"\"", "\"S\"", "\"pkg.S\"",
    "\"a/b\"", "\"\\u0000\"", "\"\\u00e9\"", "\"\\ud83d\\ude00\"",
    "\"\\udc00\"", "[[[[]]]]"};

constexpr const char* kKeys[] = {"\"methodConfig\"",
                                 "\"name\"",
                                 "\"service\"",
                                 "\"method\"",
                                 "\"timeout\"",
                                 "\"waitForReady\"",
                                 "\"retryPolicy\"",
                                 "\"hedgingPolicy\"",
                                 "\"maxAttempts\"",
                                 "\"initialBackoff\"",
                                 "\"maxBackoff\"",
                                 "\"backoffMultiplier\"",
                                 "\"retryableStatusCodes\"",
                                 "\"perAttemptRecvTimeout\"",
                                 "\"retryThrottling\"",
                                 "\"maxTokens\"",
                                 "\"tokenRatio\"",
                                 "\"retryGuard\"",
                                 "\"jitter\"",
                                 "\"perAttemptTimeout\"",
                                 "\"layer\"",
                                 "\"breaker\"",
                                 "\"budget\"",
                                 "\"ratio\"",
                                 "\"window\"",
                                 "\"openFor\"",
                                 "\"maxOpenFor\"",
                                 "\"probes\"",
                                 "\"failureStatusCodes\"",
                                 "\"layerName\"",
                                 "\"x\"",
                                 "\"maxAttemps\"",
                                 "\"\""};

// Strings, numbers and words whole, anything else byte by byte.
std::vector<std::string> Tokens(std::string_view text) {
  std::vector<std::string> tokens;
  size_t i = 0;
  while (i < text.size()) {
    size_t end = i + 1;
    const auto is_word = [&](size_t at) {
      const auto c = static_cast<unsigned char>(text[at]);
      return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '+';
    };
    if (text[i] == '"') {
      while (end < text.size() && text[end] != '"') {
        end += text[end] == '\\' ? 2 : 1;
      }
      end = std::min(end + 1, text.size());
    } else if (is_word(i)) {
      while (end < text.size() && is_word(end)) ++end;
    }
    tokens.emplace_back(text.substr(i, end - i));
    i = end;
  }
  return tokens;
}

bool IsSpace(const std::string& token) {
  return absl::ascii_isspace(static_cast<unsigned char>(token[0]));
}

// The first token from `index` on that is no space.
size_t SkipSpaces(const std::vector<std::string>& tokens, size_t index) {
  while (index < tokens.size() && IsSpace(tokens[index])) ++index;
  return index;
}

// One past the value that starts at `begin`.
size_t EndOfValue(const std::vector<std::string>& tokens, size_t begin) {
  int depth = 0;
  for (size_t i = begin; i < tokens.size(); ++i) {
    if (tokens[i] == "{" || tokens[i] == "[") ++depth;
    if (tokens[i] == "}" || tokens[i] == "]") --depth;
    if (depth <= 0) return i + 1;
  }
  return tokens.size();
}

}  // namespace

const std::vector<std::string>& SeedConfigs() {
  static const auto* const seeds = new std::vector<std::string>{
      R"({"methodConfig": [{"name": [{"service": "pkg.S"}],
          "timeout": "2s", "waitForReady": true,
          "retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.1s",
            "maxBackoff": "1s", "backoffMultiplier": 2,
            "retryableStatusCodes": ["UNAVAILABLE", "ABORTED"]}}]})",
      R"({"methodConfig": [
          {"name": [{}], "timeout": "1.5s"},
          {"name": [{"service": "S", "method": "M"}, {"service": "T"}],
           "retryPolicy": {"maxAttempts": 7, "initialBackoff": ".01s",
             "maxBackoff": "0.01s", "backoffMultiplier": "1.6",
             "retryableStatusCodes": [14, "deadline_exceeded"],
             "perAttemptRecvTimeout": "0.5s"},
           "retryGuard": {"maxAttempts": 20, "jitter": "EQUAL"}}],
          "retryThrottling": {"maxTokens": 10, "tokenRatio": 1}})",
      R"({"methodConfig": [{"name": [{"service": "S"}],
          "retryPolicy": {"maxAttempts": 2, "initialBackoff": "0.1s",
            "maxBackoff": "1s", "backoffMultiplier": 1,
            "perAttemptRecvTimeout": "1s"},
          "retryGuard": {"perAttemptTimeout": "1s", "minAttemptTime": "0.01s",
            "idempotency": "NON_IDEMPOTENT", "idempotencyKey": true,
            "layer": "HERE", "breaker": "OWN", "maxPushback": "5s",
            "pushbackJitter": 0.2, "bufferLimitBytes": 1024}}]})",
      R"({"retryThrottling": {"maxTokens": 100, "tokenRatio": 0.1},
          "retryGuard": {"layerName": "shop",
            "budget": {"ratio": 0.2, "minRetries": 5, "window": "10s",
              "maxRetries": 100, "maxRetriesWindow": "60s"},
            "breaker": {"failureRate": 0.5, "minRequests": 20, "window": "3s",
              "consecutiveFailures": 5, "openFor": "1s", "maxOpenFor": "5s",
              "probes": 1, "failureStatusCodes": ["UNAVAILABLE", 4]}}})",
      R"({"x": [1.50, -0, 1e5, "\u00e9", {"y": null}], "methodConfig": []})",
  };
  return *seeds;
}

void ConfigMutator::ChangeToken(std::vector<std::string>* tokens) {
  const size_t at = SkipSpaces(*tokens, Below(tokens->size()));
  if (at >= tokens->size()) return;
  const std::string token = (*tokens)[at];
  const size_t next = SkipSpaces(*tokens, at + 1);
  const bool is_key =
      token[0] == '"' && next < tokens->size() && (*tokens)[next] == ":";
  if (is_key) {
    const size_t value = SkipSpaces(*tokens, next + 1);
    const size_t end = EndOfValue(*tokens, value);
    const auto begin = tokens->begin();
    switch (Below(4)) {
      case 0:
        (*tokens)[at] = kKeys[Below(std::size(kKeys))];
        break;
      case 1: {  // the member gone, with the comma after it
        size_t rest = end;
        if (rest < tokens->size() && (*tokens)[rest] == ",") ++rest;
        tokens->erase(begin + static_cast<ptrdiff_t>(at),
                      begin + static_cast<ptrdiff_t>(rest));
        break;
      }
      case 2: {  // another member before it
        std::vector<std::string> member(begin + static_cast<ptrdiff_t>(at),
                                        begin + static_cast<ptrdiff_t>(end));
        member[0] = kKeys[Below(std::size(kKeys))];
        member.emplace_back(",");
        tokens->insert(begin + static_cast<ptrdiff_t>(at), member.begin(),
                       member.end());
        break;
      }
      default:  // another value
        if (value >= tokens->size()) break;
        tokens->erase(begin + static_cast<ptrdiff_t>(value),
                      begin + static_cast<ptrdiff_t>(end));
        tokens->insert(begin + static_cast<ptrdiff_t>(value),
                       kValues[Below(std::size(kValues))]);
        break;
    }
    return;
  }
  const bool is_value =
      token[0] == '"' ||
      absl::ascii_isalnum(static_cast<unsigned char>(token[0])) ||
      token[0] == '-';
  if (is_value) {
    (*tokens)[at] = kValues[Below(std::size(kValues))];
  } else if (Below(8) == 0) {  // structure: nearly always a syntax error
    (*tokens)[at] = Below(2) == 0 ? "" : (*tokens)[Below(tokens->size())];
    if ((*tokens)[at].empty()) (*tokens)[at] = " ";
  }
}

void ConfigMutator::ChangeByte(std::string* text) {
  const size_t at = Below(text->size());
  switch (Below(3)) {
    case 0:
      (*text)[at] = static_cast<char>(Below(256));
      break;
    case 1:
      text->erase(at, 1);
      break;
    default:
      text->insert(at, 1, static_cast<char>(Below(256)));
  }
}

std::string ConfigMutator::Next() {
  std::string text = SeedConfigs()[Below(SeedConfigs().size())];
  std::vector<std::string> tokens = Tokens(text);
  for (size_t left = 1 + Below(4); left > 0 && !tokens.empty(); --left) {
    ChangeToken(&tokens);
  }
  text = absl::StrJoin(tokens, "");
  if (Below(10) == 0 && !text.empty()) ChangeByte(&text);
  return text;
}

}  // namespace retry_guard::testing
