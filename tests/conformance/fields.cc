#include "tests/conformance/fields.h"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace retry_guard::conformance {
namespace {

std::string TextOf(const Json& json) {
  return std::string(json.GetString(), json.GetStringLength());
}

}  // namespace

std::string ToText(const Json& json) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
  json.Accept(writer);
  return std::string(buffer.GetString(), buffer.GetSize());
}

Fields::Fields(const Json& root, Report* report)
    : shared_(std::make_shared<Shared>()), object_(&root) {
  shared_->report = report;
}

Fields::Fields(std::shared_ptr<Shared> shared, const Json* object,
               std::string path)
    : shared_(std::move(shared)), object_(object), path_(std::move(path)) {}

std::string Fields::Path(absl::string_view key) const {
  return path_.empty() ? std::string(key) : absl::StrCat(path_, ".", key);
}

bool Fields::empty() const {
  return object_ == nullptr || object_->MemberCount() == 0;
}

const Json* Fields::Find(const char* key) const {
  if (object_ == nullptr || !object_->IsObject()) return nullptr;
  const auto found = object_->FindMember(key);
  return found == object_->MemberEnd() ? nullptr : &found->value;
}

const Json* Fields::Read(const char* key) const {
  const Json* const json = Find(key);
  if (json == nullptr) return nullptr;
  shared_->read.insert(json);
  return json->IsNull() ? nullptr : json;
}

void Fields::WrongType(absl::string_view key, absl::string_view type) const {
  report().NotApplicable(absl::StrCat(Path(key), " is no ", type));
}

bool Fields::IsObject(const char* key) const {
  const Json* const json = Find(key);
  return json != nullptr && json->IsObject();
}
bool Fields::IsArray(const char* key) const {
  const Json* const json = Find(key);
  return json != nullptr && json->IsArray();
}
bool Fields::IsString(const char* key) const {
  const Json* const json = Find(key);
  return json != nullptr && json->IsString();
}
bool Fields::IsNumber(const char* key) const {
  const Json* const json = Find(key);
  return json != nullptr && json->IsNumber();
}

bool Fields::IsNull(const char* key) const {
  const Json* const json = Find(key);
  if (json == nullptr || !json->IsNull()) return false;
  shared_->read.insert(json);
  return true;
}

std::optional<bool> Fields::Bool(const char* key) const {
  const Json* const json = Read(key);
  if (json == nullptr) return std::nullopt;
  if (json->IsBool()) return json->GetBool();
  WrongType(key, "boolean");
  return std::nullopt;
}

std::optional<int64_t> Fields::Int(const char* key) const {
  const std::optional<double> number = Number(key);
  if (!number.has_value()) return std::nullopt;
  if (std::floor(*number) == *number && std::abs(*number) < 1e18) {
    return static_cast<int64_t>(*number);
  }
  WrongType(key, "integer");
  return std::nullopt;
}

std::optional<double> Fields::Number(const char* key) const {
  const Json* const json = Read(key);
  if (json == nullptr) return std::nullopt;
  if (json->IsNumber()) return json->GetDouble();
  WrongType(key, "number");
  return std::nullopt;
}

std::optional<std::string> Fields::Text(const char* key) const {
  const Json* const json = Read(key);
  if (json == nullptr) return std::nullopt;
  if (json->IsString()) return TextOf(*json);
  WrongType(key, "text");
  return std::nullopt;
}

std::optional<absl::Duration> Fields::Time(const std::string& stem) const {
  if (const auto ms = Number((stem + "_ms").c_str())) {
    return absl::Milliseconds(*ms);
  }
  if (const auto seconds = Number((stem + "_s").c_str())) {
    return absl::Seconds(*seconds);
  }
  return std::nullopt;
}

Fields Fields::Object(const char* key) const {
  const Json* const json = Read(key);
  if (json != nullptr && !json->IsObject()) {
    WrongType(key, "object");
    return Fields(shared_, nullptr, Path(key));
  }
  return Fields(shared_, json, Path(key));
}

std::vector<Fields> Fields::Objects(const char* key) const {
  std::vector<Fields> objects;
  const Json* const json = Read(key);
  if (json == nullptr) return objects;
  if (!json->IsArray()) {
    WrongType(key, "list");
    return objects;
  }
  for (const Json& element : json->GetArray()) {
    shared_->read.insert(&element);
    const std::string path = absl::StrCat(Path(key), "[]");
    if (!element.IsObject()) {
      report().NotApplicable(absl::StrCat(path, " is no object"));
      return {};
    }
    objects.push_back(Fields(shared_, &element, path));
  }
  return objects;
}

std::vector<double> Fields::Numbers(const char* key) const {
  std::vector<double> numbers;
  const Json* const json = Whole(key);
  if (json == nullptr) return numbers;
  if (!json->IsArray()) {
    WrongType(key, "list");
    return numbers;
  }
  for (const Json& element : json->GetArray()) {
    if (!element.IsNumber()) {
      WrongType(key, "list of numbers");
      return {};
    }
    numbers.push_back(element.GetDouble());
  }
  return numbers;
}

std::vector<std::string> Fields::Texts(const char* key) const {
  std::vector<std::string> texts;
  const Json* const json = Whole(key);
  if (json == nullptr) return texts;
  if (!json->IsArray()) {
    WrongType(key, "list");
    return texts;
  }
  for (const Json& element : json->GetArray()) {
    if (!element.IsString()) {
      WrongType(key, "list of texts");
      return {};
    }
    texts.push_back(TextOf(element));
  }
  return texts;
}

const Json* Fields::Whole(const char* key) const {
  const Json* const json = Read(key);
  if (json != nullptr) shared_->whole.insert(json);
  return json;
}

void Fields::Note(std::initializer_list<const char*> keys) const {
  for (const char* const key : keys) Whole(key);
}

std::vector<std::string> Fields::Keys() const {
  std::vector<std::string> keys;
  if (object_ == nullptr || !object_->IsObject()) return keys;
  for (const auto& member : object_->GetObject()) {
    keys.push_back(TextOf(member.name));
  }
  return keys;
}

void Fields::CheckRead(const Json& json, const std::string& path) const {
  if (!report().applicable() || shared_->whole.count(&json) != 0) return;
  if (json.IsObject()) {
    for (const auto& member : json.GetObject()) {
      const std::string name = TextOf(member.name);
      const std::string inner = path.empty() ? name : path + "." + name;
      if (shared_->read.count(&member.value) == 0) {
        report().NotApplicable(absl::StrCat("no replay knows ", inner));
        return;
      }
      CheckRead(member.value, inner);
    }
  } else if (json.IsArray()) {
    for (const Json& element : json.GetArray()) CheckRead(element, path + "[]");
  }
}

bool Fields::AllRead() const {
  if (object_ != nullptr) CheckRead(*object_, path_);
  return report().applicable();
}

}  // namespace retry_guard::conformance
