// Claims to shapes (shape.h).
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/constraint/regex/expr.h"
#include "services/constraint/schema/schema_index.h"
#include "services/constraint/schema/shape.h"

namespace sluice {

// Not thread-safe.
class SchemaNormalizer {
 public:
  struct Limits {
    size_t max_shapes = 1'000;     // of one set of claims and type
    size_t max_steps = 1'000'000;  // in all
  };

  // Both are borrowed.
  SchemaNormalizer(SchemaIndex& index, ExprSpace& space, const Limits& limits);

  // The alternatives that values of `type` have under all of `claims`; none where there are no such
  // values. UNIMPLEMENTED naming the place and keyword of what can't be kept, INVALID_ARGUMENT of
  // what is malformed, RESOURCE_EXHAUSTED beyond the limits.
  absl::StatusOr<std::vector<Shape>> Shapes(const Claims& claims, JsonType type);

  // The language of strings under a claim.
  absl::StatusOr<ExprId> StringsOf(const Claim& claim);
  // Of one shape of strings.
  ExprId TextOf(const Shape& shape);

 private:
  // What is left to apply: a claim; one keyword of a schema; a member's presence; anything else.
  struct Task {
    enum class Kind : uint8_t { kClaim, kKeyword, kRequire, kForbid, kEdit };
    Kind kind = Kind::kClaim;
    Claim claim;  // kClaim; of kKeyword the schema and whether it is negated
    const JsonValue::Member* keyword = nullptr;
    std::string_view name;             // kRequire, kForbid
    std::function<void(Shape&)> edit;  // kEdit
  };
  using Tasks = std::vector<Task>;
  struct Work {
    Shape shape;
    Tasks todo;
    std::vector<std::vector<Tasks>> choices;  // of each one is taken
    Claims seen;
  };
  enum class Outcome { kGoOn, kNone };

  void Run(Work work, std::vector<Shape>& out);
  Outcome Apply(const Task& task, Work& work);
  Outcome ApplySchema(const Claim& claim, Work& work);
  Outcome ApplyEquals(const Claim& claim, Work& work);
  Outcome EqualsArray(const Claim& claim, Work& work);
  Outcome EqualsObject(const Claim& claim, Work& work);
  Outcome ApplyKeyword(const JsonValue& schema, const JsonValue::Member& keyword, bool negated,
                       Work& work);
  Outcome Combine(const JsonValue& schema, const JsonValue::Member& keyword, bool negated,
                  Work& work);
  Outcome OneOf(const JsonValue& list, bool negated, Work& work);
  Outcome Conditional(const JsonValue& schema, bool negated, Work& work);
  Outcome Enum(const JsonValue& list, bool negated, Work& work);
  Outcome Type(const JsonValue& value, bool negated, Work& work);
  Outcome NumberKeyword(const JsonValue& schema, const JsonValue::Member& keyword, bool negated,
                        Work& work);
  Outcome StringKeyword(const JsonValue& schema, const JsonValue::Member& keyword, bool negated,
                        Work& work);
  Outcome ArrayKeyword(const JsonValue& schema, const JsonValue::Member& keyword, bool negated,
                       Work& work);
  Outcome Items(const JsonValue& schema, const JsonValue::Member& keyword, bool negated,
                Work& work);
  Outcome Contains(const JsonValue& schema, bool negated, Work& work);
  Outcome ObjectKeyword(const JsonValue& schema, const JsonValue::Member& keyword, bool negated,
                        Work& work);
  Outcome Members(const JsonValue& schema, Work& work);
  Outcome NotMembers(const JsonValue& schema, const JsonValue::Member& keyword, Work& work);
  Outcome Required(const JsonValue& list, bool negated, Work& work);
  Outcome Dependencies(const JsonValue& schema, const JsonValue::Member& keyword, bool negated,
                       Work& work);
  MemberRules RulesOf(const JsonValue& schema);
  // The keyword's number; nullopt, having failed, where it is none of a count.
  std::optional<uint32_t> CountOf(const JsonValue& schema, const JsonValue::Member& keyword);
  // Narrows *min and *max by minItems and its like.
  Outcome Count(const JsonValue& schema, const JsonValue::Member& keyword, bool is_min,
                bool negated, uint32_t& min, uint32_t& max);
  Outcome Choose(std::vector<Tasks> choices, Work& work);
  Outcome Refuse(const JsonValue& schema, std::string_view keyword, std::string_view why = "");
  Outcome Malformed(const JsonValue& schema, const JsonValue::Member& keyword,
                    std::string_view accepted);
  ExprId PatternOf(const JsonValue& schema, std::string_view keyword, std::string_view pattern);
  bool Applies(const JsonValue& schema, const JsonValue::Member& keyword) const;
  bool Disjoint(const JsonValue& a, const JsonValue& b, const Shape& shape, int depth);
  const JsonValue* Deref(const JsonValue& schema);
  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  SchemaIndex& index_;
  ExprSpace& space_;
  const Limits limits_;
  absl::flat_hash_map<std::string_view, ExprId> patterns_;
  absl::flat_hash_map<const JsonValue*, MemberRules> rules_;
  JsonType type_ = JsonType::kNull;  // that Shapes is asked for
  size_t steps_ = 0;
  absl::Status status_;
};

}  // namespace sluice
