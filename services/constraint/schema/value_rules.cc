#include "services/constraint/schema/value_rules.h"

#include <algorithm>

#include "services/constraint/schema/array_rules.h"
#include "services/constraint/schema/keywords.h"
#include "services/constraint/schema/object_rules.h"

namespace sluice {

ValueRules::ValueRules(SchemaIndex& index, SchemaNormalizer& normalizer, GrammarBuilder& builder,
                       JsonSpacing spacing)
    : index_(index), normalizer_(normalizer), builder_(builder), spacing_(spacing) {
  // Bounded: a text must come to its end.
  constexpr uint32_t kMaxSpace = 64;
  any_space_ = builder_.space().Repeat(
      builder_.space().Set(MakeCodeSet({{' ', ' '}, {'\t', '\t'}, {'\n', '\n'}, {'\r', '\r'}})), 0,
      kMaxSpace);
}

RuleId ValueRules::RuleOf(Claims claims) {
  std::vector<uint64_t> key;
  for (const Claim& claim : claims) {
    // A schema that says nothing makes no difference.
    if (claim.kind == Claim::Kind::kSchema && !claim.negated &&
        (claim.node->type == JsonValue::Type::kTrue ||
         (claim.node->is_object() && claim.node->members.empty())))
      continue;
    const uint32_t id =
        node_ids_.try_emplace(claim.node, static_cast<uint32_t>(node_ids_.size())).first->second;
    key.push_back(uint64_t{id} << 2 | (claim.kind == Claim::Kind::kEquals ? 2 : 0) | claim.negated);
  }
  std::sort(key.begin(), key.end());
  key.erase(std::unique(key.begin(), key.end()), key.end());
  const auto [it, inserted] = rules_.try_emplace(std::move(key), 0);
  if (inserted) {
    it->second = builder_.AddRule("");
    todo_.emplace_back(it->second, std::move(claims));
  }
  return it->second;
}

absl::Status ValueRules::Finish() {
  while (!todo_.empty() && status_.ok()) {
    const auto [rule, claims] = std::move(todo_.front());
    todo_.pop_front();
    Emit(rule, claims);
    if (builder_.exhausted())
      return absl::ResourceExhaustedError("the schema needs too many states");
  }
  return status_;
}

bool ValueRules::IsNever(const Claims& claims) {
  return std::any_of(claims.begin(), claims.end(), [](const Claim& claim) {
    return claim.kind == Claim::Kind::kSchema && claim.node->is_bool() &&
           (claim.node->type == JsonValue::Type::kFalse) != claim.negated;
  });
}

void ValueRules::Emit(RuleId rule, const Claims& claims) {
  const NodeId end = builder_.AddNode();
  builder_.Accept(end);
  // Types that the claims' own `type` rules out are not asked for.
  uint32_t types = ~0u;
  for (const Claim& claim : claims)
    if (claim.kind == Claim::Kind::kSchema && !claim.negated && claim.node->is_object() &&
        !(index_.ref_stands_alone() && claim.node->Find("$ref") != nullptr))
      types &= TypesOf(*claim.node);
  for (const JsonType type : kJsonTypes) {
    if ((types & TypeBits(type)) == 0) continue;
    const auto shapes = normalizer_.Shapes(claims, type);
    if (!shapes.ok()) {
      status_ = shapes.status();
      return;
    }
    for (const Shape& shape : *shapes) EmitShape(type, shape, builder_.StartOf(rule), end);
    if (!status_.ok()) return;
  }
}

void ValueRules::EmitShape(JsonType type, const Shape& shape, NodeId from, NodeId to) {
  switch (type) {
    case JsonType::kNull:
      return builder_.AddBytes(from, "null", to);
    case JsonType::kBoolean:
      if (shape.allow_true) builder_.AddBytes(from, "true", to);
      if (shape.allow_false) builder_.AddBytes(from, "false", to);
      return;
    case JsonType::kNumber:
      return EmitNumber(shape, from, to);
    case JsonType::kString:
      return EmitString(shape, from, to);
    case JsonType::kArray:
      return EmitArray(shape, from, to);
    case JsonType::kObject:
      return EmitObject(shape, from, to);
  }
}

void ValueRules::EmitNumber(const Shape& shape, NodeId from, NodeId to) {
  ExprSpace& space = builder_.space();
  if (!shape.values.has_value())
    return builder_.AddText(from, space.Number(shape.number), Spelling::kPlain, to);
  for (const JsonValue* value : *shape.values) {
    NumberRules rules = shape.number;
    rules.bounds.push_back({.bound = Decimal::Parse(value->text), .equal = true});
    // A value that the schema spells as an integer is one to whoever reads it.
    if (index_.plain_integers() && value->text.find_first_of(".eE") == std::string::npos)
      rules.integer = rules.plain_integers = true;
    builder_.AddText(from, space.Number(rules), Spelling::kPlain, to);
  }
}

void ValueRules::EmitString(const Shape& shape, NodeId from, NodeId to) {
  // A few values are cheaper as bytes.
  constexpr size_t kFewValues = 200;
  if (shape.values.has_value() && shape.values->size() <= kFewValues) {
    ExprSpace& space = builder_.space();
    for (const JsonValue* value : *shape.values) {
      const bool kept = std::all_of(shape.texts.begin(), shape.texts.end(),
                                    [&](ExprId text) { return space.Matches(text, value->text); });
      if (kept) builder_.AddBytes(from, JsonQuoted(value->text), to);
    }
    return;
  }
  const ExprId text = normalizer_.TextOf(shape);
  if (!builder_.space().IsLive(text)) return;
  const NodeId inside = builder_.AddNode();
  builder_.AddBytes(from, "\"", inside);
  builder_.AddText(inside, text, Spelling::kJsonString, to);
}

void ValueRules::EmitArray(const Shape& shape, NodeId from, NodeId to) {
  if (absl::Status status = ArrayRules(*this, shape).Emit(from, to); !status.ok())
    status_ = std::move(status);
}

void ValueRules::EmitObject(const Shape& shape, NodeId from, NodeId to) {
  if (absl::Status status = ObjectRules(*this, shape).Emit(from, to); !status.ok())
    status_ = std::move(status);
}

void ValueRules::AddSpace(NodeId from, NodeId to) {
  builder_.AddText(from, any_space_, Spelling::kPlain, to);
}

void ValueRules::AddMark(NodeId from, std::string_view bytes, NodeId to, bool space_before,
                         bool space_behind) {
  if (spacing_ == JsonSpacing::kAny && space_before) {
    const NodeId behind = builder_.AddNode();
    AddSpace(from, behind);
    from = behind;
  }
  const bool one_space = spacing_ == JsonSpacing::kOneSpace && (bytes == "," || bytes == ":");
  if (!one_space && !(spacing_ == JsonSpacing::kAny && space_behind))
    return builder_.AddBytes(from, bytes, to);
  const NodeId behind = builder_.AddNode();
  builder_.AddBytes(from, bytes, behind);
  if (one_space) {
    builder_.AddBytes(behind, " ", to);
    builder_.AddEpsilon(behind, to);
  } else {
    AddSpace(behind, to);
  }
}

}  // namespace sluice
