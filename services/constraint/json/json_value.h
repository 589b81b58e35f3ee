// A JSON document as it was written: members in their order, numbers as text. Immutable once
// parsed, then thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice {

struct JsonLimits {
  size_t max_bytes = size_t{4} << 20;
  int max_depth = 200;
};

struct JsonValue {
  enum class Type : uint8_t { kNull, kFalse, kTrue, kNumber, kString, kArray, kObject };
  struct Member;

  Type type = Type::kNull;
  std::string text;  // of a string its characters as UTF-8, of a number its digits as written
  std::vector<JsonValue> items;
  std::vector<Member> members;

  bool is_object() const { return type == Type::kObject; }
  bool is_array() const { return type == Type::kArray; }
  bool is_string() const { return type == Type::kString; }
  bool is_number() const { return type == Type::kNumber; }
  bool is_bool() const { return type == Type::kTrue || type == Type::kFalse; }

  // nullptr where this is no object or has no such member.
  const JsonValue* Find(std::string_view name) const;
};

struct JsonValue::Member {
  std::string name;
  JsonValue value;
};

// INVALID_ARGUMENT with the byte where it is not JSON by RFC 8259, a key comes twice in one object
// or a string holds half a surrogate pair; RESOURCE_EXHAUSTED beyond `limits`.
absl::StatusOr<JsonValue> ParseJsonValue(std::string_view text, const JsonLimits& limits = {});

// Whether JSON Schema takes the two for equal: numbers by value, objects whatever their order.
bool JsonEqual(const JsonValue& a, const JsonValue& b);

// `text` between quotes, escaping what JSON requires and nothing else.
std::string JsonQuoted(std::string_view text);

// Canonical text without whitespace, for messages and keys.
std::string JsonText(const JsonValue& value);

}  // namespace sluice
