#include "services/constraint/schema/normalizer.h"

#include <algorithm>
#include <utility>

#include "services/constraint/json/message.h"
#include "services/constraint/schema/keywords.h"

namespace sluice {

SchemaNormalizer::SchemaNormalizer(SchemaIndex& index, ExprSpace& space, const Limits& limits)
    : index_(index), space_(space), limits_(limits) {}

absl::StatusOr<std::vector<Shape>> SchemaNormalizer::Shapes(const Claims& claims, JsonType type) {
  const JsonType outer = std::exchange(type_, type);
  Work work;
  for (const Claim& claim : claims) work.todo.push_back({.claim = claim});
  std::vector<Shape> shapes;
  Run(std::move(work), shapes);
  type_ = outer;
  if (!status_.ok()) return status_;
  return shapes;
}

ExprId SchemaNormalizer::TextOf(const Shape& shape) {
  std::vector<ExprId> all = shape.texts;
  if (shape.values.has_value()) {
    std::vector<ExprId> values;
    for (const JsonValue* value : *shape.values) values.push_back(space_.Literal(value->text));
    all.push_back(space_.Or(std::move(values)));
  }
  return space_.And(std::move(all));
}

absl::StatusOr<ExprId> SchemaNormalizer::StringsOf(const Claim& claim) {
  const auto shapes = Shapes({claim}, JsonType::kString);
  if (!shapes.ok()) return shapes.status();
  std::vector<ExprId> any;
  for (const Shape& shape : *shapes) any.push_back(TextOf(shape));
  return space_.Or(std::move(any));
}

void SchemaNormalizer::Run(Work work, std::vector<Shape>& out) {
  while (!work.todo.empty()) {
    const Task task = std::move(work.todo.back());
    work.todo.pop_back();
    space_.Checkpoint(10);
    if (++steps_ > limits_.max_steps || space_.exhausted())
      Fail(absl::ResourceExhaustedError("the schema takes too many steps to compile"));
    if (!status_.ok() || Apply(task, work) == Outcome::kNone) return;
  }
  if (work.choices.empty()) {
    if (out.size() >= limits_.max_shapes)
      return Fail(absl::ResourceExhaustedError(
          Message("more than ", limits_.max_shapes,
                  " combinations of anyOf, oneOf, if and their like for one value")));
    out.push_back(std::move(work.shape));
    return;
  }
  const std::vector<Tasks> choices = std::move(work.choices.back());
  work.choices.pop_back();
  for (const Tasks& choice : choices) {
    if (!status_.ok()) return;
    Work branch = work;
    branch.todo.insert(branch.todo.end(), choice.rbegin(), choice.rend());
    Run(std::move(branch), out);
  }
}

SchemaNormalizer::Outcome SchemaNormalizer::Choose(std::vector<Tasks> choices, Work& work) {
  if (choices.empty()) return Outcome::kNone;
  if (choices.size() == 1) {
    work.todo.insert(work.todo.end(), choices[0].rbegin(), choices[0].rend());
  } else {
    work.choices.push_back(std::move(choices));
  }
  return Outcome::kGoOn;
}

SchemaNormalizer::Outcome SchemaNormalizer::Refuse(const JsonValue& schema,
                                                   std::string_view keyword, std::string_view why) {
  Fail(absl::UnimplementedError(Message(index_.PathOf(schema), "/", keyword, " can't be kept",
                                        why.empty() ? "" : ": ", why)));
  return Outcome::kNone;
}

SchemaNormalizer::Outcome SchemaNormalizer::Malformed(const JsonValue& schema,
                                                      const JsonValue::Member& keyword,
                                                      std::string_view accepted) {
  Fail(absl::InvalidArgumentError(Message(index_.PathOf(schema), "/", keyword.name, " is ",
                                          JsonText(keyword.value).substr(0, 60),
                                          "; accepted: ", accepted)));
  return Outcome::kNone;
}

SchemaNormalizer::Outcome SchemaNormalizer::Apply(const Task& task, Work& work) {
  switch (task.kind) {
    case Task::Kind::kKeyword:
      return ApplyKeyword(*task.claim.node, *task.keyword, task.claim.negated, work);
    case Task::Kind::kRequire:
      work.shape.required.push_back(task.name);
      break;
    case Task::Kind::kForbid:
      work.shape.forbidden.push_back(task.name);
      break;
    case Task::Kind::kEdit:
      task.edit(work.shape);
      return Outcome::kGoOn;
    case Task::Kind::kClaim: {
      Claim opposite = task.claim;
      opposite.negated = !opposite.negated;
      if (std::find(work.seen.begin(), work.seen.end(), opposite) != work.seen.end())
        return Outcome::kNone;
      if (std::find(work.seen.begin(), work.seen.end(), task.claim) != work.seen.end())
        return Outcome::kGoOn;
      work.seen.push_back(task.claim);
      return task.claim.kind == Claim::Kind::kSchema ? ApplySchema(task.claim, work)
                                                     : ApplyEquals(task.claim, work);
    }
  }
  const auto& required = work.shape.required;
  for (const std::string_view name : work.shape.forbidden)
    if (std::find(required.begin(), required.end(), name) != required.end()) return Outcome::kNone;
  return Outcome::kGoOn;
}

SchemaNormalizer::Outcome SchemaNormalizer::ApplySchema(const Claim& claim, Work& work) {
  const JsonValue& schema = *claim.node;
  if (schema.is_bool())
    return (schema.type == JsonValue::Type::kTrue) != claim.negated ? Outcome::kGoOn
                                                                    : Outcome::kNone;
  if (!claim.negated) {
    // What combines schemas comes last: what is known by then rules most of it out.
    for (const bool combining : {false, true}) {
      for (const JsonValue::Member& keyword : schema.members) {
        if (!Applies(schema, keyword) || IsCombining(keyword.name) != combining) continue;
        if (ApplyKeyword(schema, keyword, false, work) == Outcome::kNone) return Outcome::kNone;
      }
    }
    return Outcome::kGoOn;
  }
  std::vector<Tasks> choices;
  for (const JsonValue::Member& keyword : schema.members)
    if (Applies(schema, keyword))
      choices.push_back({{.kind = Task::Kind::kKeyword, .claim = claim, .keyword = &keyword}});
  return Choose(std::move(choices), work);
}

bool SchemaNormalizer::Applies(const JsonValue& schema, const JsonValue::Member& keyword) const {
  if (index_.ref_stands_alone() && keyword.name != "$ref" && schema.Find("$ref") != nullptr)
    return false;
  if (IsAbsent(keyword)) return false;
  const KeywordInfo* info = FindKeyword(keyword.name);
  return info != nullptr && (!info->type.has_value() || *info->type == type_);
}

SchemaNormalizer::Outcome SchemaNormalizer::ApplyKeyword(const JsonValue& schema,
                                                         const JsonValue::Member& keyword,
                                                         bool negated, Work& work) {
  const KeywordInfo* info = FindKeyword(keyword.name);
  if (!info->type.has_value()) return Combine(schema, keyword, negated, work);
  switch (*info->type) {
    case JsonType::kNumber:
      return NumberKeyword(schema, keyword, negated, work);
    case JsonType::kString:
      return StringKeyword(schema, keyword, negated, work);
    case JsonType::kArray:
      return ArrayKeyword(schema, keyword, negated, work);
    default:
      return ObjectKeyword(schema, keyword, negated, work);
  }
}

SchemaNormalizer::Outcome SchemaNormalizer::Combine(const JsonValue& schema,
                                                    const JsonValue::Member& keyword, bool negated,
                                                    Work& work) {
  const auto& [name, value] = keyword;
  if (name == "type") return Type(value, negated, work);
  if (name == "enum") return Enum(value, negated, work);
  if (name == "const") {
    work.todo.push_back(
        {.claim = {.node = &value, .kind = Claim::Kind::kEquals, .negated = negated}});
    return Outcome::kGoOn;
  }
  if (name == "$ref" || name == "$dynamicRef") {
    if (!value.is_string()) return Malformed(schema, keyword, "a text");
    const auto target = index_.Resolve(schema, name);
    if (!target.ok()) {
      Fail(target.status());
      return Outcome::kNone;
    }
    work.todo.push_back({.claim = {.node = *target, .negated = negated}});
    return Outcome::kGoOn;
  }
  if (name == "not") {
    work.todo.push_back({.claim = {.node = &value, .negated = !negated}});
    return Outcome::kGoOn;
  }
  if (name == "if") return Conditional(schema, negated, work);
  if (name == "$recursiveRef") return Refuse(schema, name);
  if (!value.is_array() || value.items.empty())
    return Malformed(schema, keyword, "a list of schemas");
  if (name == "oneOf") return OneOf(value, negated, work);
  const bool all = (name == "allOf") != negated;
  std::vector<Tasks> choices;
  for (const JsonValue& item : value.items) {
    const Task task{.claim = {.node = &item, .negated = negated}};
    if (all) {
      work.todo.push_back(task);
    } else {
      choices.push_back({task});
    }
  }
  return all ? Outcome::kGoOn : Choose(std::move(choices), work);
}

SchemaNormalizer::Outcome SchemaNormalizer::OneOf(const JsonValue& list, bool negated, Work& work) {
  std::vector<Tasks> choices;
  const auto claim = [](const JsonValue& schema, bool no) {
    return Task{.claim = {.node = &schema, .negated = no}};
  };
  for (size_t i = 0; i < list.items.size(); ++i) {
    Tasks only = {claim(list.items[i], false)};
    for (size_t j = 0; j < list.items.size(); ++j) {
      if (j == i || Disjoint(list.items[i], list.items[j], work.shape, 0)) continue;
      only.push_back(claim(list.items[j], true));
      if (negated && j > i)
        choices.push_back({claim(list.items[i], false), claim(list.items[j], false)});
    }
    if (!negated) choices.push_back(std::move(only));
  }
  if (negated) {
    Tasks none;
    for (const JsonValue& item : list.items) none.push_back(claim(item, true));
    choices.push_back(std::move(none));
  }
  return Choose(std::move(choices), work);
}

SchemaNormalizer::Outcome SchemaNormalizer::Conditional(const JsonValue& schema, bool negated,
                                                        Work& work) {
  const JsonValue* condition = schema.Find("if");
  std::vector<Tasks> choices;
  for (const bool holds : {true, false}) {
    const JsonValue* branch = schema.Find(holds ? "then" : "else");
    Tasks tasks = {{.claim = {.node = condition, .negated = !holds}}};
    if (branch != nullptr) tasks.push_back({.claim = {.node = branch, .negated = negated}});
    if (branch != nullptr || !negated) choices.push_back(std::move(tasks));
  }
  return Choose(std::move(choices), work);
}

SchemaNormalizer::Outcome SchemaNormalizer::Type(const JsonValue& value, bool negated, Work& work) {
  std::vector<const JsonValue*> names;
  if (value.is_string()) names.push_back(&value);
  for (const JsonValue& item : value.items) names.push_back(&item);
  bool has_type = false, has_integer = false;
  for (const JsonValue* name : names) {
    if (name->text == "integer") {
      has_integer |= type_ == JsonType::kNumber;
    } else {
      has_type |= TypeNamed(name->text) == type_;
    }
  }
  if (has_type) return negated ? Outcome::kNone : Outcome::kGoOn;
  if (!has_integer) return negated ? Outcome::kGoOn : Outcome::kNone;
  (negated ? work.shape.number.not_integer : work.shape.number.integer) = true;
  // Under draft 4 the number 5.0 is no integer.
  work.shape.number.plain_integers =
      index_.plain_integers() || index_.dialect() == SchemaDialect::kDraft4;
  return work.shape.number.integer && work.shape.number.not_integer ? Outcome::kNone
                                                                    : Outcome::kGoOn;
}

SchemaNormalizer::Outcome SchemaNormalizer::Enum(const JsonValue& list, bool negated, Work& work) {
  std::vector<Tasks> choices;
  std::vector<const JsonValue*> same_type;
  for (const JsonValue& item : list.items) {
    if (TypeOf(item) != type_) continue;
    same_type.push_back(&item);
    const Task task{.claim = {.node = &item, .kind = Claim::Kind::kEquals, .negated = negated}};
    if (negated) {
      work.todo.push_back(task);
    } else {
      choices.push_back({task});
    }
  }
  if (negated) return Outcome::kGoOn;
  if (type_ != JsonType::kString && type_ != JsonType::kNumber)
    return Choose(std::move(choices), work);
  if (work.shape.values.has_value()) {
    auto& values = *work.shape.values;
    values.erase(std::remove_if(values.begin(), values.end(),
                                [&](const JsonValue* value) {
                                  return std::none_of(same_type.begin(), same_type.end(),
                                                      [&](const JsonValue* other) {
                                                        return JsonEqual(*value, *other);
                                                      });
                                }),
                 values.end());
  } else {
    work.shape.values = std::move(same_type);
  }
  return work.shape.values->empty() ? Outcome::kNone : Outcome::kGoOn;
}

SchemaNormalizer::Outcome SchemaNormalizer::ApplyEquals(const Claim& claim, Work& work) {
  const JsonValue& value = *claim.node;
  if (TypeOf(value) != type_) return claim.negated ? Outcome::kGoOn : Outcome::kNone;
  switch (type_) {
    case JsonType::kNull:
      return claim.negated ? Outcome::kNone : Outcome::kGoOn;
    case JsonType::kBoolean: {
      const bool is_true = value.type == JsonValue::Type::kTrue;
      (is_true != claim.negated ? work.shape.allow_false : work.shape.allow_true) = false;
      return work.shape.allow_false || work.shape.allow_true ? Outcome::kGoOn : Outcome::kNone;
    }
    case JsonType::kNumber:
    case JsonType::kString: {
      if (!claim.negated) {
        // As an enum of one value.
        auto& values = work.shape.values;
        if (values.has_value() &&
            std::none_of(values->begin(), values->end(),
                         [&](const JsonValue* other) { return JsonEqual(value, *other); }))
          return Outcome::kNone;
        values = {&value};
      } else if (type_ == JsonType::kNumber) {
        work.shape.number.bounds.push_back(
            {.bound = Decimal::Parse(value.text), .less = true, .greater = true});
      } else {
        work.shape.texts.push_back(space_.Not(space_.Literal(value.text)));
      }
      return Outcome::kGoOn;
    }
    case JsonType::kArray:
      return EqualsArray(claim, work);
    case JsonType::kObject:
      return EqualsObject(claim, work);
  }
  return Outcome::kNone;
}

const JsonValue* SchemaNormalizer::Deref(const JsonValue& schema) {
  const JsonValue* at = &schema;
  for (int i = 0; i < 8 && at->is_object(); ++i) {
    const JsonValue* ref = at->Find("$ref");
    if (ref == nullptr || !ref->is_string() ||
        (!index_.ref_stands_alone() && at->members.size() > 1))
      break;
    const auto target = index_.Resolve(*at, "$ref");
    if (!target.ok()) break;
    at = *target;
  }
  return at;
}

bool SchemaNormalizer::Disjoint(const JsonValue& a_given, const JsonValue& b_given,
                                const Shape& shape, int depth) {
  // What can be seen at a glance: what it does not see is left to the negations of oneOf.
  const JsonValue& a = *Deref(a_given);
  const JsonValue& b = *Deref(b_given);
  if (depth > 4 || !a.is_object() || !b.is_object()) return false;
  const auto values = [](const JsonValue& schema) {
    std::vector<const JsonValue*> list;
    if (const JsonValue* one = schema.Find("const")) list.push_back(one);
    if (const JsonValue* many = schema.Find("enum"); list.empty() && many != nullptr)
      for (const JsonValue& item : many->items) list.push_back(&item);
    return list;
  };
  const auto a_values = values(a), b_values = values(b);
  if (!a_values.empty() && !b_values.empty()) {
    bool common = false;
    for (const JsonValue* x : a_values)
      for (const JsonValue* y : b_values) common |= JsonEqual(*x, *y);
    if (!common) return true;
  }
  const uint32_t a_types = TypesOf(a), b_types = TypesOf(b);
  if ((a_types & b_types) == 0) return true;
  if (depth == 0) {
    const uint32_t here = TypeBits(type_);
    if ((a_types & here) == 0 || (b_types & here) == 0) return true;
  }
  const uint32_t objects = TypeBits(JsonType::kObject);
  if ((a_types & b_types & ~objects) != 0 && !(depth == 0 && type_ == JsonType::kObject))
    return false;
  const JsonValue* a_properties = a.Find("properties");
  const JsonValue* b_properties = b.Find("properties");
  const auto requires_name = [&](const JsonValue& schema, std::string_view name) {
    if (depth == 0 &&
        std::find(shape.required.begin(), shape.required.end(), name) != shape.required.end())
      return true;
    const JsonValue* required = schema.Find("required");
    return required != nullptr &&
           std::any_of(required->items.begin(), required->items.end(),
                       [&](const JsonValue& item) { return item.text == name; });
  };
  const auto closed = [](const JsonValue& schema) {
    const JsonValue* additional = schema.Find("additionalProperties");
    return additional != nullptr && additional->type == JsonValue::Type::kFalse &&
           schema.Find("patternProperties") == nullptr;
  };
  if (a_properties != nullptr && b_properties != nullptr) {
    for (const auto& [name, inner] : a_properties->members) {
      const JsonValue* other = b_properties->Find(name);
      if (other == nullptr || !(requires_name(a, name) || requires_name(b, name))) continue;
      if (Disjoint(inner, *other, shape, depth + 1)) return true;
    }
  }
  const auto requires_unknown = [&](const JsonValue& schema, const JsonValue& other,
                                    const JsonValue* known) {
    const JsonValue* required = schema.Find("required");
    if (required == nullptr || !closed(other)) return false;
    return std::any_of(required->items.begin(), required->items.end(), [&](const JsonValue& item) {
      return known == nullptr || known->Find(item.text) == nullptr;
    });
  };
  return requires_unknown(a, b, b_properties) || requires_unknown(b, a, a_properties);
}

}  // namespace sluice
