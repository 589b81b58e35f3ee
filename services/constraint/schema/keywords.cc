#include "services/constraint/schema/keywords.h"

#include <algorithm>
#include <iterator>

namespace sluice {
namespace {

// Sorted by name.
constexpr KeywordInfo kKeywords[] = {
    {"$dynamicRef", std::nullopt},
    {"$recursiveRef", std::nullopt},
    {"$ref", std::nullopt},
    {"additionalProperties", JsonType::kObject},
    {"allOf", std::nullopt},
    {"anyOf", std::nullopt},
    {"const", std::nullopt},
    {"contains", JsonType::kArray},
    {"dependencies", JsonType::kObject},
    {"dependentRequired", JsonType::kObject},
    {"dependentSchemas", JsonType::kObject},
    {"enum", std::nullopt},
    {"exclusiveMaximum", JsonType::kNumber},
    {"exclusiveMinimum", JsonType::kNumber},
    {"format", JsonType::kString},
    {"if", std::nullopt},
    {"items", JsonType::kArray},
    {"maxItems", JsonType::kArray},
    {"maxLength", JsonType::kString},
    {"maxProperties", JsonType::kObject},
    {"maximum", JsonType::kNumber},
    {"minItems", JsonType::kArray},
    {"minLength", JsonType::kString},
    {"minProperties", JsonType::kObject},
    {"minimum", JsonType::kNumber},
    {"multipleOf", JsonType::kNumber},
    {"not", std::nullopt},
    {"oneOf", std::nullopt},
    {"pattern", JsonType::kString},
    {"patternProperties", JsonType::kObject},
    {"prefixItems", JsonType::kArray},
    {"properties", JsonType::kObject},
    {"propertyNames", JsonType::kObject},
    {"required", JsonType::kObject},
    {"type", std::nullopt},
    {"unevaluatedItems", JsonType::kArray},
    {"unevaluatedProperties", JsonType::kObject},
    {"uniqueItems", JsonType::kArray},
};

}  // namespace

const KeywordInfo* FindKeyword(std::string_view name) {
  const auto* it = std::lower_bound(
      std::begin(kKeywords), std::end(kKeywords), name,
      [](const KeywordInfo& info, std::string_view text) { return info.name < text; });
  return it != std::end(kKeywords) && it->name == name ? it : nullptr;
}

bool IsAbsent(const JsonValue::Member& keyword) {
  if (keyword.value.type != JsonValue::Type::kNull) return false;
  constexpr std::string_view kAbsentWhereNull[] = {"properties", "required", "anyOf", "enum"};
  return std::find(std::begin(kAbsentWhereNull), std::end(kAbsentWhereNull), keyword.name) !=
         std::end(kAbsentWhereNull);
}

bool IsCombining(std::string_view name) {
  const KeywordInfo* info = FindKeyword(name);
  return info != nullptr && !info->type.has_value() && name != "type" && name != "enum" &&
         name != "const";
}

std::optional<JsonType> TypeNamed(std::string_view name) {
  if (name == "null") return JsonType::kNull;
  if (name == "boolean") return JsonType::kBoolean;
  if (name == "integer" || name == "number") return JsonType::kNumber;
  if (name == "string") return JsonType::kString;
  if (name == "array") return JsonType::kArray;
  if (name == "object") return JsonType::kObject;
  return std::nullopt;
}

JsonType TypeOf(const JsonValue& value) {
  switch (value.type) {
    case JsonValue::Type::kNull:
      return JsonType::kNull;
    case JsonValue::Type::kNumber:
      return JsonType::kNumber;
    case JsonValue::Type::kString:
      return JsonType::kString;
    case JsonValue::Type::kArray:
      return JsonType::kArray;
    case JsonValue::Type::kObject:
      return JsonType::kObject;
    default:
      return JsonType::kBoolean;
  }
}

uint32_t TypesOf(const JsonValue& schema) {
  uint32_t types = 0;
  for (const JsonType type : kJsonTypes) types |= TypeBits(type);
  const auto keep = [&](const JsonValue* list, auto&& type_of) {
    if (list == nullptr) return;
    uint32_t some = 0;
    const auto add = [&](const JsonValue& item) {
      if (const std::optional<JsonType> type = type_of(item); type.has_value())
        some |= TypeBits(*type);
    };
    if (list->is_array()) {
      for (const JsonValue& item : list->items) add(item);
    } else {
      add(*list);
    }
    types &= some;
  };
  keep(schema.Find("type"), [](const JsonValue& item) { return TypeNamed(item.text); });
  const auto of_value = [](const JsonValue& item) -> std::optional<JsonType> {
    return TypeOf(item);
  };
  const JsonValue* list = schema.Find("enum");
  if (list != nullptr && list->is_array()) keep(list, of_value);
  if (const JsonValue* value = schema.Find("const")) types &= TypeBits(TypeOf(*value));
  return types;
}

}  // namespace sluice
