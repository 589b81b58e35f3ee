// Keywords of arrays and objects.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/constraint/schema/keywords.h"
#include "services/constraint/schema/normalizer.h"

namespace sluice {
namespace {

const JsonValue& TrueSchema() {
  static const auto* const kTrue = new JsonValue{.type = JsonValue::Type::kTrue};
  return *kTrue;
}

const JsonValue& FalseSchema() {
  static const auto* const kFalse = new JsonValue{.type = JsonValue::Type::kFalse};
  return *kFalse;
}

Claim Equals(const JsonValue& value, bool negated = false) {
  return {.node = &value, .kind = Claim::Kind::kEquals, .negated = negated};
}

// Only item `index` keeps the claim.
ItemRules OneItem(size_t index, const Claim& claim) {
  ItemRules rules;
  rules.prefix.assign(index, Claim{.node = &TrueSchema()});
  rules.prefix.push_back(claim);
  return rules;
}

}  // namespace

SchemaNormalizer::Outcome SchemaNormalizer::EqualsArray(const Claim& claim, Work& work) {
  const auto size = static_cast<uint32_t>(claim.node->items.size());
  Shape& shape = work.shape;
  if (!claim.negated) {
    ItemRules rules;
    for (const JsonValue& item : claim.node->items) rules.prefix.push_back(Equals(item));
    shape.items.push_back(std::move(rules));
    shape.min_items = std::max(shape.min_items, size);
    shape.max_items = std::min(shape.max_items, size);
    return shape.min_items <= shape.max_items ? Outcome::kGoOn : Outcome::kNone;
  }
  const auto edit = [](std::function<void(Shape&)> change) {
    return Tasks{{.kind = Task::Kind::kEdit, .edit = std::move(change)}};
  };
  std::vector<Tasks> choices;
  choices.push_back(edit([size](Shape& s) { s.min_items = std::max(s.min_items, size + 1); }));
  if (size > 0)
    choices.push_back(edit([size](Shape& s) { s.max_items = std::min(s.max_items, size - 1); }));
  for (uint32_t i = 0; i < size; ++i) {
    const ItemRules rules = OneItem(i, Equals(claim.node->items[i], true));
    choices.push_back(edit([rules, i](Shape& s) {
      s.items.push_back(rules);
      s.min_items = std::max(s.min_items, i + 1);
    }));
  }
  return Choose(std::move(choices), work);
}

SchemaNormalizer::Outcome SchemaNormalizer::EqualsObject(const Claim& claim, Work& work) {
  MemberRules rules;
  for (const auto& [name, value] : claim.node->members)
    rules.named.emplace_back(name, Equals(value));
  if (!claim.negated) {
    rules.additional = Claim{.node = &FalseSchema()};
    for (const auto& [name, value] : claim.node->members)
      work.todo.push_back({.kind = Task::Kind::kRequire, .name = name});
    work.shape.members.push_back(std::move(rules));
    return Outcome::kGoOn;
  }
  std::vector<Tasks> choices;
  std::vector<ExprId> names;
  for (const auto& [name, value] : claim.node->members) {
    names.push_back(space_.Literal(name));
    choices.push_back({{.kind = Task::Kind::kForbid, .name = name}});
    MemberRules other;
    other.named.emplace_back(name, Equals(value, true));
    choices.push_back(
        {{.kind = Task::Kind::kRequire, .name = name},
         {.kind = Task::Kind::kEdit, .edit = [other](Shape& s) { s.members.push_back(other); }}});
  }
  const SomeMember extra{space_.Not(space_.Or(std::move(names))), {.node = &TrueSchema()}};
  choices.push_back({{.kind = Task::Kind::kEdit,
                      .edit = [extra](Shape& s) { s.some_members.push_back(extra); }}});
  return Choose(std::move(choices), work);
}

SchemaNormalizer::Outcome SchemaNormalizer::ArrayKeyword(const JsonValue& schema,
                                                         const JsonValue::Member& keyword,
                                                         bool negated, Work& work) {
  const std::string& name = keyword.name;
  Shape& shape = work.shape;
  if (name == "minItems" || name == "maxItems")
    return Count(schema, keyword, name == "minItems", negated, shape.min_items, shape.max_items);
  if (name == "items" || name == "prefixItems") return Items(schema, keyword, negated, work);
  if (name == "contains") return Contains(schema, negated, work);
  if (name == "uniqueItems") {
    if (!keyword.value.is_bool()) return Malformed(schema, keyword, "true or false");
    if (keyword.value.type == JsonValue::Type::kFalse)
      return negated ? Outcome::kNone : Outcome::kGoOn;
    if (negated) return Refuse(schema, name, "where it is negated");
    shape.unique = &schema;
    return Outcome::kGoOn;
  }
  if (keyword.value.type == JsonValue::Type::kTrue)
    return negated ? Outcome::kNone : Outcome::kGoOn;
  return Refuse(schema, name);
}

SchemaNormalizer::Outcome SchemaNormalizer::Items(const JsonValue& schema,
                                                  const JsonValue::Member& keyword, bool negated,
                                                  Work& work) {
  const JsonValue* items = schema.Find("items");
  const JsonValue* prefix = schema.Find("prefixItems");
  // Up to 2019-09 a list of items is what prefixItems is since.
  if (items != nullptr && items->is_array() && prefix == nullptr) {
    prefix = items;
    items = schema.Find("additionalItems");
  }
  const size_t prefix_size = prefix == nullptr ? 0 : prefix->items.size();
  if (!negated) {
    if (keyword.name == "items" && schema.Find("prefixItems") != nullptr) return Outcome::kGoOn;
    ItemRules rules;
    for (size_t i = 0; i < prefix_size; ++i) rules.prefix.push_back({.node = &prefix->items[i]});
    if (items != nullptr) rules.rest = Claim{.node = items};
    work.shape.items.push_back(std::move(rules));
    return Outcome::kGoOn;
  }
  std::vector<Tasks> choices;
  if (prefix != nullptr && &keyword.value == prefix) {
    for (uint32_t i = 0; i < prefix_size; ++i) {
      const ItemRules rules = OneItem(i, {.node = &prefix->items[i], .negated = true});
      choices.push_back({{.kind = Task::Kind::kEdit, .edit = [rules, i](Shape& s) {
                            s.items.push_back(rules);
                            s.min_items = std::max(s.min_items, i + 1);
                          }}});
    }
  }
  if (items != nullptr && (&keyword.value == items || keyword.value.is_array()) &&
      keyword.name == "items") {
    const ContainsRule rule{.claim = {.node = items, .negated = true},
                            .from = static_cast<uint32_t>(prefix_size)};
    choices.push_back(
        {{.kind = Task::Kind::kEdit, .edit = [rule](Shape& s) { s.contains.push_back(rule); }}});
  }
  return Choose(std::move(choices), work);
}

SchemaNormalizer::Outcome SchemaNormalizer::Contains(const JsonValue& schema, bool negated,
                                                     Work& work) {
  ContainsRule rule{.claim = {.node = schema.Find("contains")}};
  for (const JsonValue::Member& keyword : schema.members) {
    if (keyword.name != "minContains" && keyword.name != "maxContains") continue;
    if (index_.ref_stands_alone()) continue;  // unknown to these dialects
    const std::optional<uint32_t> count = CountOf(schema, keyword);
    if (!count.has_value()) return Outcome::kNone;
    (keyword.name == "minContains" ? rule.min : rule.max) = *count;
  }
  if (!negated) {
    if (rule.min > rule.max) return Outcome::kNone;
    if (rule.min > 0 || rule.max != UINT32_MAX) work.shape.contains.push_back(rule);
    return Outcome::kGoOn;
  }
  std::vector<Tasks> choices;
  const auto add = [&](uint32_t min, uint32_t max) {
    ContainsRule other = rule;
    other.min = min;
    other.max = max;
    choices.push_back(
        {{.kind = Task::Kind::kEdit, .edit = [other](Shape& s) { s.contains.push_back(other); }}});
  };
  if (rule.min > 0) add(0, rule.min - 1);
  if (rule.max != UINT32_MAX) add(rule.max + 1, UINT32_MAX);
  return Choose(std::move(choices), work);
}

SchemaNormalizer::Outcome SchemaNormalizer::ObjectKeyword(const JsonValue& schema,
                                                          const JsonValue::Member& keyword,
                                                          bool negated, Work& work) {
  const auto& [name, value] = keyword;
  Shape& shape = work.shape;
  if (name == "minProperties" || name == "maxProperties")
    return Count(schema, keyword, name == "minProperties", negated, shape.min_members,
                 shape.max_members);
  if (name == "required") {
    // Of draft 3: a flag of the member's own schema.
    if (value.is_bool()) return negated ? Outcome::kNone : Outcome::kGoOn;
    if (!value.is_array()) return Malformed(schema, keyword, "a list of names");
    return Required(value, negated, work);
  }
  if (name == "dependencies" || name == "dependentRequired" || name == "dependentSchemas")
    return Dependencies(schema, keyword, negated, work);
  if (name == "propertyNames") {
    // Asked for strings while another type's shapes are being made.
    const auto names = StringsOf({.node = &value});
    if (!names.ok()) {
      Fail(names.status());
      return Outcome::kNone;
    }
    if (negated) {
      shape.some_members.push_back({space_.Not(*names), {.node = &TrueSchema()}});
    } else {
      shape.names.push_back(*names);
    }
    return Outcome::kGoOn;
  }
  if (name == "unevaluatedProperties") {
    if (value.type == JsonValue::Type::kTrue) return negated ? Outcome::kNone : Outcome::kGoOn;
    return Refuse(schema, name);
  }
  if (negated) return NotMembers(schema, keyword, work);
  // One set of rules for the three keywords, at the first of them.
  for (const JsonValue::Member& other : schema.members) {
    if (other.name != "properties" && other.name != "patternProperties" &&
        other.name != "additionalProperties")
      continue;
    if (IsAbsent(other)) continue;
    if (&other == &keyword) return Members(schema, work);
    break;
  }
  return Outcome::kGoOn;
}

MemberRules SchemaNormalizer::RulesOf(const JsonValue& schema) {
  if (const auto it = rules_.find(&schema); it != rules_.end()) return it->second;
  MemberRules rules{.ordered = true};
  if (const JsonValue* properties = schema.Find("properties"))
    for (const auto& [name, inner] : properties->members)
      rules.named.emplace_back(name, Claim{.node = &inner});
  if (const JsonValue* patterns = schema.Find("patternProperties"))
    for (const auto& [pattern, inner] : patterns->members)
      rules.patterns.emplace_back(PatternOf(schema, "patternProperties", pattern),
                                  Claim{.node = &inner});
  if (const JsonValue* additional = schema.Find("additionalProperties"))
    rules.additional = Claim{.node = additional};
  return rules_[&schema] = rules;
}

SchemaNormalizer::Outcome SchemaNormalizer::Members(const JsonValue& schema, Work& work) {
  work.shape.members.push_back(RulesOf(schema));
  return status_.ok() ? Outcome::kGoOn : Outcome::kNone;
}

SchemaNormalizer::Outcome SchemaNormalizer::NotMembers(const JsonValue& schema,
                                                       const JsonValue::Member& keyword,
                                                       Work& work) {
  const MemberRules rules = RulesOf(schema);
  if (!status_.ok()) return Outcome::kNone;
  std::vector<Tasks> choices;
  const auto some = [&](ExprId names, const Claim& claim) {
    SomeMember member{names, claim};
    member.claim.negated = true;
    choices.push_back({{.kind = Task::Kind::kEdit,
                        .edit = [member](Shape& s) { s.some_members.push_back(member); }}});
  };
  if (keyword.name == "properties") {
    for (const auto& [name, claim] : rules.named) {
      MemberRules other;
      other.named.emplace_back(name, Claim{.node = claim.node, .negated = true});
      choices.push_back(
          {{.kind = Task::Kind::kRequire, .name = name},
           {.kind = Task::Kind::kEdit, .edit = [other](Shape& s) { s.members.push_back(other); }}});
    }
  } else if (keyword.name == "patternProperties") {
    for (const auto& [pattern, claim] : rules.patterns) some(pattern, claim);
  } else {
    std::vector<ExprId> known;
    for (const auto& [name, claim] : rules.named) known.push_back(space_.Literal(name));
    for (const auto& [pattern, claim] : rules.patterns) known.push_back(pattern);
    some(space_.Not(space_.Or(std::move(known))), *rules.additional);
  }
  return Choose(std::move(choices), work);
}

SchemaNormalizer::Outcome SchemaNormalizer::Required(const JsonValue& list, bool negated,
                                                     Work& work) {
  std::vector<Tasks> choices;
  for (const JsonValue& name : list.items) {
    if (!name.is_string()) continue;
    if (negated) {
      choices.push_back({{.kind = Task::Kind::kForbid, .name = name.text}});
    } else if (Apply({.kind = Task::Kind::kRequire, .name = name.text}, work) == Outcome::kNone) {
      return Outcome::kNone;
    }
  }
  return negated ? Choose(std::move(choices), work) : Outcome::kGoOn;
}

SchemaNormalizer::Outcome SchemaNormalizer::Dependencies(const JsonValue& schema,
                                                         const JsonValue::Member& keyword,
                                                         bool negated, Work& work) {
  if (!keyword.value.is_object()) return Malformed(schema, keyword, "an object");
  std::vector<Tasks> broken;  // where negated, one of these
  for (const auto& [name, dependent] : keyword.value.members) {
    const Task present{.kind = Task::Kind::kRequire, .name = name};
    std::vector<std::string_view> names;
    if (dependent.is_string()) names.push_back(dependent.text);
    for (const JsonValue& item : dependent.items) names.push_back(item.text);
    Tasks kept = {present};
    if (dependent.is_array() || dependent.is_string()) {
      for (const std::string_view other : names) {
        kept.push_back({.kind = Task::Kind::kRequire, .name = other});
        broken.push_back({present, {.kind = Task::Kind::kForbid, .name = other}});
      }
    } else {
      kept.push_back({.claim = {.node = &dependent}});
      broken.push_back({present, {.claim = {.node = &dependent, .negated = true}}});
    }
    if (negated) continue;
    const Task absent{.kind = Task::Kind::kForbid, .name = name};
    if (Choose({{absent}, std::move(kept)}, work) == Outcome::kNone) return Outcome::kNone;
  }
  return negated ? Choose(std::move(broken), work) : Outcome::kGoOn;
}

}  // namespace sluice
