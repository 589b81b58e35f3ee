// The keywords of JSON Schema that say something about values, and the names of types. Pure;
// thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "services/constraint/schema/shape.h"

namespace sluice {

struct KeywordInfo {
  std::string_view name;
  std::optional<JsonType> type;  // whose values it is about; nullopt for all
};

// nullptr for keywords that annotate, those that are read with another (then, minContains, ...) and
// unknown ones, which by the specification annotate too.
const KeywordInfo* FindKeyword(std::string_view name);

// Whether a member counts as if it were not there: `properties`, `required`, `anyOf` and `enum`
// that are null, as many serializers write an empty list.
bool IsAbsent(const JsonValue::Member& keyword);

// Whether a keyword of all types is about other schemas, rather than the value itself.
bool IsCombining(std::string_view name);

constexpr std::string_view kTypeNames =
    "null, boolean, integer, number, string, array, object or a list of these";
// "integer" is a number.
std::optional<JsonType> TypeNamed(std::string_view name);
JsonType TypeOf(const JsonValue& value);

constexpr uint32_t TypeBits(JsonType type) { return 1u << static_cast<int>(type); }
// Of all types that a schema's own `type`, `enum` or `const` leaves.
uint32_t TypesOf(const JsonValue& schema);

}  // namespace sluice
