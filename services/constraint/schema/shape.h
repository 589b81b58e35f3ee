// Requirements of a set of schemas for the values of one JSON type, with everything that combines
// schemas ($ref, allOf, anyOf, oneOf, not, if, enum, const, dependencies) resolved: alternatives,
// each a plain list of what to keep.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "services/constraint/json/json_value.h"
#include "services/constraint/regex/expr.h"
#include "services/constraint/regex/number_machine.h"

namespace sluice {

enum class JsonType : uint8_t { kNull, kBoolean, kNumber, kString, kArray, kObject };
inline constexpr JsonType kJsonTypes[] = {JsonType::kNull,   JsonType::kBoolean, JsonType::kNumber,
                                          JsonType::kString, JsonType::kArray,   JsonType::kObject};

// A value must (or, where negated, must not) keep a schema, or equal a value. `node` is borrowed
// from the schema document.
struct Claim {
  enum class Kind : uint8_t { kSchema, kEquals };
  const JsonValue* node = nullptr;
  Kind kind = Kind::kSchema;
  bool negated = false;
  bool operator==(const Claim&) const = default;
};
using Claims = std::vector<Claim>;

// One schema's (or value's) say about the members of an object: a member's value keeps the claim of
// its name, and those of all patterns that its name matches; where there are none, `additional`.
struct MemberRules {
  std::vector<std::pair<std::string_view, Claim>> named;
  bool ordered = false;  // whether members come in the order of `named`
  std::vector<std::pair<ExprId, Claim>> patterns;
  std::optional<Claim> additional;
};

// At least one member's name is of `names`, and its value keeps `claim`.
struct SomeMember {
  ExprId names = 0;
  Claim claim;
};

struct ItemRules {
  std::vector<Claim> prefix;
  std::optional<Claim> rest;
};

// From `min` to `max` items, those before index `from` not counted, keep the claim.
struct ContainsRule {
  Claim claim;
  uint32_t from = 0;
  uint32_t min = 1;
  uint32_t max = UINT32_MAX;
};

struct Shape {
  bool allow_true = true, allow_false = true;  // booleans

  NumberRules number;
  std::optional<std::vector<const JsonValue*>> values;  // numbers and strings: one of these
  std::vector<ExprId> texts;                            // strings: all of these languages

  std::vector<MemberRules> members;
  std::vector<std::string_view> required;
  std::vector<std::string_view> forbidden;
  std::vector<ExprId> names;  // all names are of these languages
  std::vector<SomeMember> some_members;
  uint32_t min_members = 0, max_members = UINT32_MAX;

  std::vector<ItemRules> items;
  std::vector<ContainsRule> contains;
  uint32_t min_items = 0, max_items = UINT32_MAX;
  const JsonValue* unique = nullptr;  // the schema that says uniqueItems
};

}  // namespace sluice
