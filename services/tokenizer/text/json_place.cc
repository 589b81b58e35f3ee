#include "services/tokenizer/text/json_place.h"

#include "services/tokenizer/text/strings.h"

namespace sluice {
namespace {

const nlohmann::json& Null() {
  static const nlohmann::json& null = *new nlohmann::json;
  return null;
}

}  // namespace

std::string JsonPlace::Type() const {
  const JsonPlace type = Member("type");
  return type.value->is_string() ? type.value->get<std::string>() : "";
}

JsonPlace JsonPlace::Member(std::string_view name) const {
  JsonPlace member{&Null(), source, path.empty() ? std::string(name) : StrCat(path, ".", name)};
  if (value->is_object()) {
    if (const auto found = value->find(name); found != value->end()) member.value = &*found;
  }
  return member;
}

absl::StatusOr<JsonPlace> JsonPlace::Array(std::string_view name) const {
  JsonPlace member = Member(name);
  if (!member.value->is_array()) return member.Reject("an array");
  return member;
}

JsonPlace JsonPlace::Element(size_t index) const {
  return {&(*value)[index], source, StrCat(path, "[", index, "]")};
}

absl::Status JsonPlace::Reject(std::string_view accepted) const {
  const std::string what = path.empty() ? "holds " : StrCat(path, " is ");
  return absl::InvalidArgumentError(
      StrCat(source, ": ", what, ValueText(*value), "; accepted: ", accepted));
}

absl::Status JsonPlace::RejectType(std::string_view accepted) const {
  if (!value->is_object()) return Reject("an object with a type");
  const JsonPlace type = Member("type");
  return absl::UnimplementedError(
      StrCat(source, ": ", type.path, " is ", ValueText(*type.value), "; accepted: ", accepted));
}

absl::Status JsonPlace::Annotate(const absl::Status& status) const {
  return absl::Status(status.code(), StrCat(source, ": ", path, ": ", status.message()));
}

}  // namespace sluice
