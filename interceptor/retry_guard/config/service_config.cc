#include "retry_guard/config/service_config.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "retry_guard/config/channel_config_reader.h"
#include "retry_guard/config/error_list.h"
#include "retry_guard/config/field_reader.h"
#include "retry_guard/config/json.h"
#include "retry_guard/config/known_keys.h"
#include "retry_guard/config/method_config_reader.h"
#include "retry_guard/config/source_edits.h"
#include "retry_guard/config/spelling.h"
#include "retry_guard/policy/absl_view.h"

namespace retry_guard {
namespace {

// Everywhere, not only in our parts: core refuses the whole text for one.
void ReportDuplicateKeys(const JsonValue& value, ErrorList* errors) {
  for (size_t i = 0; i < value.elements.size(); ++i) {
    const auto scope = errors->Index(i);
    ReportDuplicateKeys(value.elements[i], errors);
  }
  absl::flat_hash_set<absl::string_view> seen;
  for (const JsonMember& member : value.members) {
    const auto scope = errors->Key(member.key);
    if (!seen.insert(member.key).second) {
      errors->Add("duplicate key; write it once");
    }
    ReportDuplicateKeys(member.value, errors);
  }
}

// Zero with an exponent is good JSON wherever it stands, but core's parser
// gives up at "0e".
void RespellZeros(const JsonValue& value, SourceEdits* for_core) {
  if (value.is(JsonValue::Kind::kNumber) &&
      (absl::StartsWith(value.text, "0e") ||
       absl::StartsWith(value.text, "0E"))) {
    for_core->Replace(value, absl::StrCat("0.0", value.text.substr(1)));
  }
  for (const JsonValue& element : value.elements) {
    RespellZeros(element, for_core);
  }
  for (const JsonMember& member : value.members) {
    RespellZeros(member.value, for_core);
  }
}

// Where unknown keys are gRPC's business, a slip in one of ours still deserves
// a word: the policy in it would silently not hold.
void WarnOfSlips(const JsonValue& object,
                 absl::Span<const absl::string_view> ours, ErrorList* errors) {
  const auto is_in = [](absl::Span<const absl::string_view> keys,
                        absl::string_view key) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  };
  for (const JsonMember& member : object.members) {
    if (is_in(ours, member.key) || is_in(known_keys::kGrpcsOwn, member.key)) {
      continue;
    }
    const std::string help = DidYouMean(member.key, ours);
    if (help.empty()) continue;
    const auto scope = errors->Key(member.key);
    errors->Warn(absl::StrCat("unknown key, ignored", help));
  }
}

}  // namespace

class ServiceConfigParser {
 public:
  absl::StatusOr<std::shared_ptr<const ServiceConfig>> Parse(
      absl::string_view source) {
    const absl::StatusOr<JsonValue> root = ParseJson(source);
    if (!root.ok()) return root.status();
    if (!root->is(JsonValue::Kind::kObject)) {
      errors_.Add(absl::StrCat(Found(*root), " is no object; write {...}"));
      return errors_.ToStatus();
    }
    ReportDuplicateKeys(*root, &errors_);
    RespellZeros(*root, &for_core_);  // First: fields have a better spelling.
    WarnOfSlips(*root, known_keys::kServiceConfig, &errors_);
    ReadMethodConfigs(*root);
    ChannelConfig channel = ReadChannelConfig(*root, &errors_, &for_core_);
    absl::Status status = errors_.ToStatus();
    if (!status.ok()) return status;

    config_->guard_ = channel.guard;
    config_->sets_guard_ = channel.sets_guard;
    config_->layer_name_ = std::move(channel.layer_name);
    config_->warnings_ = errors_.warnings();
    config_->core_json_ = for_core_.Apply(source);
    return std::move(config_);
  }

  static std::shared_ptr<const ServiceConfig> Empty() {
    auto config = std::make_shared<ServiceConfig>();
    config->core_json_ = "{}";
    return config;
  }

 private:
  void ReadMethodConfigs(const JsonValue& root) {
    constexpr absl::string_view kKey = "methodConfig";
    const JsonValue* list = root.Find(kKey);
    if (list == nullptr) return;
    const auto list_scope = errors_.Key(kKey);
    if (!list->is(JsonValue::Kind::kArray)) {
      errors_.Add(absl::StrCat(Found(*list), " is no list; write [{...}]"));
      return;
    }
    for (size_t i = 0; i < list->elements.size(); ++i) {
      const JsonValue& element = list->elements[i];
      const auto scope = errors_.Index(i);
      if (!element.is(JsonValue::Kind::kObject)) {
        errors_.Add(absl::StrCat(Found(element), " is no object; write {...}"));
        continue;
      }
      WarnOfSlips(element, known_keys::kMethodConfig, &errors_);
      ReadNames(element, static_cast<int>(config_->policies_.size()));
      config_->policies_.push_back(
          ReadMethodConfig(element, &errors_, &for_core_));
    }
  }

  void ReadNames(const JsonValue& method_config, int index) {
    const JsonValue* names = method_config.Find("name");
    if (names == nullptr ||
        (names->is(JsonValue::Kind::kArray) && names->elements.empty())) {
      errors_.Warn("has no name, so that it holds for no method");
      return;
    }
    const auto list_scope = errors_.Key("name");
    if (!names->is(JsonValue::Kind::kArray)) {
      errors_.Add(absl::StrCat(Found(*names),
                               R"( is no list; write [{"service": "..."}])"));
      return;
    }
    for (size_t i = 0; i < names->elements.size(); ++i) {
      const auto scope = errors_.Index(i);
      ReadName(names->elements[i], index);
    }
  }

  void ReadName(const JsonValue& name, int index) {
    if (!name.is(JsonValue::Kind::kObject)) {
      errors_.Add(absl::StrCat(Found(name),
                               R"( is no object; write {"service": "..."})"));
      return;
    }
    WarnOfSlips(name, known_keys::kName, &errors_);
    const FieldReader reader(name, &errors_);
    const std::string service = reader.String("service").value_or("");
    const std::string method = reader.String("method").value_or("");
    if (service.empty() && !method.empty()) {
      const auto scope = errors_.Key("method");
      errors_.Add(absl::StrCat(Quoted(method),
                               " has no service; write both or neither"));
      return;
    }
    if (absl::StrContains(service, '/')) {
      const auto scope = errors_.Key("service");
      errors_.Warn(absl::StrCat(Quoted(service),
                                " has a slash; write \"package.Service\", and "
                                "the method under a key of its own"));
    }
    Bind(service.empty() ? "" : absl::StrCat("/", service, "/", method),
         !method.empty(), index);
  }

  // Lets `path` ("/service/method", "/service/" or "") mean the policy `index`.
  void Bind(const std::string& path, bool has_method, int index) {
    const auto [first, is_new] = bound_.try_emplace(path, index);
    if (!is_new) {
      errors_.Add(absl::StrCat(path.empty() ? "the default" : Quoted(path),
                               " stands already in "
                               "methodConfig[",
                               first->second, "]; write each name once"));
      return;
    }
    if (path.empty()) {
      config_->default_ = index;
    } else if (has_method) {
      config_->by_method_.emplace(path, index);
    } else {
      config_->by_service_.emplace(path, index);
    }
  }

  ErrorList errors_;
  SourceEdits for_core_;
  absl::flat_hash_map<std::string, int> bound_;
  std::shared_ptr<ServiceConfig> config_ = std::make_shared<ServiceConfig>();
};

std::shared_ptr<const ServiceConfig> ServiceConfig::Default() {
  // Never destroyed: a call may still be running when statics die.
  static const auto* const config =
      new std::shared_ptr<const ServiceConfig>(ServiceConfigParser::Empty());
  return *config;
}

const MethodPolicy& ServiceConfig::ForMethod(std::string_view method) const {
  const absl::string_view name = AbslView(method);
  if (const auto it = by_method_.find(name); it != by_method_.end()) {
    return policies_[it->second];
  }
  // npos + 1 is 0: without a slash there is no service.
  const absl::string_view service = name.substr(0, name.rfind('/') + 1);
  if (const auto it = by_service_.find(service); it != by_service_.end()) {
    return policies_[it->second];
  }
  return default_ >= 0 ? policies_[default_] : built_in_;
}

bool ServiceConfig::Owns(const MethodPolicy& policy) const {
  const std::less<> before;
  const MethodPolicy* const first = policies_.data();
  return &policy == &built_in_ ||
         (!before(&policy, first) && before(&policy, first + policies_.size()));
}

std::vector<std::string> ServiceConfig::names() const {
  std::vector<std::string> names;
  for (const auto& [name, index] : by_method_) names.push_back(name);
  for (const auto& [name, index] : by_service_) names.push_back(name);
  std::sort(names.begin(), names.end());
  if (default_ >= 0) names.emplace_back();
  return names;
}

absl::StatusOr<std::shared_ptr<const ServiceConfig>> ParseServiceConfig(
    std::string_view json) {
  if (json.empty()) return ServiceConfig::Default();
  return ServiceConfigParser().Parse(AbslView(json));
}

}  // namespace retry_guard
