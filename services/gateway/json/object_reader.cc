#include "services/gateway/json/object_reader.h"

#include <limits>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "services/gateway/json/json_text.h"

namespace sluice::gateway {
namespace {

using nlohmann::json;

constexpr auto kMaxSigned = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());

// Written as an integer, but larger than any of the protos' that has a sign.
bool IsBeyondSigned(const json& value) {
  return value.is_number_unsigned() && value.get<uint64_t>() > kMaxSigned;
}

// An integer as clients write it: 5, and also 5.0. Nothing beyond 2^53 unless written as integer.
std::optional<int64_t> IntegerFrom(const json& value) {
  if (IsBeyondSigned(value)) return std::nullopt;
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const auto number = value.get<double>();
  if (!(number >= -9007199254740992.0 && number <= 9007199254740992.0)) return std::nullopt;
  const auto whole = static_cast<int64_t>(number);
  if (static_cast<double>(whole) != number) return std::nullopt;
  return whole;
}

// The value where it is short, else what it is.
std::string Shown(const json& value) {
  constexpr size_t kMostBytes = 64;
  if (value.is_array()) return "an array";
  if (value.is_object()) return "an object";
  if (value.is_string() && value.get_ref<const std::string&>().size() > kMostBytes) {
    return "a string";
  }
  return ToJson(value);
}

}  // namespace

absl::Status ParameterError(absl::string_view parameter, absl::string_view code,
                            absl::string_view message) {
  ParameterLog* const log = ParameterLog::Current();
  if (log != nullptr && code == "missing_required_parameter") log->NoteRequired(parameter);
  absl::Status status = absl::InvalidArgumentError(message);
  if (!parameter.empty()) status.SetPayload(kParameterPayload, absl::Cord(parameter));
  if (!code.empty()) status.SetPayload(kCodePayload, absl::Cord(code));
  return status;
}

ObjectReader::ObjectReader(const json& object, std::string path)
    : object_(object), path_(std::move(path)) {
  if (object.is_object()) return;
  status_ = ParameterError(path_, "invalid_type",
                           absl::StrCat(path_.empty() ? "The body" : path_,
                                        " must be an object, but is ", Shown(object), "."));
}

std::string ObjectReader::PathOf(absl::string_view name) const {
  return path_.empty() ? std::string(name) : absl::StrCat(path_, ".", name);
}

const json* ObjectReader::Find(const char* name) {
  asked_.insert(name);
  if (!object_.is_object()) return nullptr;
  const auto member = object_.find(name);
  return member == object_.end() || member->is_null() ? nullptr : &*member;
}

const json* ObjectReader::FindNoted(const char* name, const ParameterNote& note) {
  if (ParameterLog* log = ParameterLog::Current()) log->Note(PathOf(name), note);
  return Find(name);
}

void ObjectReader::Fail(absl::string_view name, absl::string_view code, absl::string_view message) {
  Fail(ParameterError(PathOf(name), code, message));
}

void ObjectReader::Fail(absl::Status status) { status_.Update(std::move(status)); }

void ObjectReader::FailType(const char* name, const char* expected, const json& value) {
  Fail(name, "invalid_type",
       absl::StrCat("Invalid type for '", PathOf(name), "': expected ", expected, ", but got ",
                    Shown(value), " instead."));
}

std::optional<bool> ObjectReader::Bool(const char* name) {
  const json* value = FindNoted(name, {.type = "boolean"});
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  FailType(name, "a boolean", *value);
  return std::nullopt;
}

std::optional<int64_t> ObjectReader::Integer(const char* name, int64_t min, int64_t max) {
  const json* value = FindNoted(name, {.type = "integer", .min = min, .max = max});
  if (value == nullptr) return std::nullopt;
  const std::optional<int64_t> number = IntegerFrom(*value);
  if (IsBeyondSigned(*value)) {
    Fail(name, "integer_above_max_value",
         absl::StrCat("Invalid '", PathOf(name), "': ", value->get<uint64_t>(), " is not from ",
                      min, " to ", max, "."));
  } else if (!number.has_value()) {
    FailType(name, "an integer", *value);
  } else if (*number < min || *number > max) {
    Fail(name, *number < min ? "integer_below_min_value" : "integer_above_max_value",
         absl::StrCat("Invalid '", PathOf(name), "': ", *number, " is not from ", min, " to ", max,
                      "."));
  } else {
    return number;
  }
  return std::nullopt;
}

std::optional<uint64_t> ObjectReader::Bits(const char* name) {
  const json* value = FindNoted(name, {.type = "integer"});
  if (value == nullptr) return std::nullopt;
  if (value->is_number_unsigned()) return value->get<uint64_t>();
  if (const std::optional<int64_t> number = IntegerFrom(*value)) {
    return static_cast<uint64_t>(*number);
  }
  FailType(name, "an integer from -2^63 to 2^64 - 1", *value);
  return std::nullopt;
}

std::optional<double> ObjectReader::Number(const char* name) {
  const json* value = FindNoted(name, {.type = "number"});
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) return value->get<double>();
  FailType(name, "a number", *value);
  return std::nullopt;
}

std::optional<std::string> ObjectReader::String(const char* name) {
  const json* value = FindNoted(name, {.type = "string"});
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  FailType(name, "a string", *value);
  return std::nullopt;
}

std::optional<std::vector<int32_t>> ObjectReader::Integers(const char* name) {
  const json* values = Array(name);
  if (values == nullptr) return std::nullopt;
  std::vector<int32_t> numbers;
  numbers.reserve(values->size());
  for (const json& value : *values) {
    const std::optional<int64_t> number = IntegerFrom(value);
    if (!number.has_value() || *number != static_cast<int32_t>(*number)) {
      FailType(absl::StrCat(name, "[", numbers.size(), "]").c_str(), "an integer", value);
      return std::nullopt;
    }
    numbers.push_back(static_cast<int32_t>(*number));
  }
  return numbers;
}

const json* ObjectReader::Array(const char* name) {
  const json* value = FindNoted(name, {.type = "array"});
  if (value == nullptr || value->is_array()) return value;
  FailType(name, "an array", *value);
  return nullptr;
}

const json* ObjectReader::Object(const char* name) {
  const json* value = FindNoted(name, {.type = "object"});
  if (value == nullptr || value->is_object()) return value;
  FailType(name, "an object", *value);
  return nullptr;
}

const json* ObjectReader::Any(const char* name) { return FindNoted(name, {}); }

void ObjectReader::PassOver(absl::Span<const char* const> names) {
  for (const char* name : names) FindNoted(name, {.use = ParameterUse::kIgnored});
}

void ObjectReader::Refuse(std::initializer_list<const char*> names, absl::string_view why) {
  for (const char* name : names) {
    if (FindNoted(name, {.use = ParameterUse::kRefused, .why = std::string(why)}) == nullptr) {
      continue;
    }
    Fail(name, "unsupported_parameter",
         absl::StrCat("Unsupported parameter: '", PathOf(name), "': ", why, "."));
  }
}

absl::Status ObjectReader::Finish() const {
  if (!status_.ok() || !object_.is_object()) return status_;
  for (const auto& member : object_.items()) {
    if (asked_.count(member.key()) > 0) continue;
    return ParameterError(PathOf(member.key()), "unknown_parameter",
                          absl::StrCat("Unknown parameter: '", PathOf(member.key()), "'."));
  }
  return absl::OkStatus();
}

}  // namespace sluice::gateway
