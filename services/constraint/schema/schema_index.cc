#include "services/constraint/schema/schema_index.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/strings/str_replace.h"
#include "services/constraint/json/message.h"
#include "services/constraint/schema/keywords.h"

namespace sluice {
namespace {

// Keywords whose value is a schema, a list of schemas or schemas by name.
constexpr std::string_view kSchemaKeywords[] = {"additionalItems",
                                                "additionalProperties",
                                                "contains",
                                                "else",
                                                "if",
                                                "items",
                                                "not",
                                                "propertyNames",
                                                "then",
                                                "unevaluatedProperties",
                                                "unevaluatedItems",
                                                "contentSchema"};
constexpr std::string_view kListKeywords[] = {"allOf", "anyOf", "oneOf", "prefixItems", "items"};
constexpr std::string_view kMapKeywords[] = {"$defs",      "definitions",       "dependencies",
                                             "properties", "patternProperties", "dependentSchemas"};

std::string EscapePointer(const std::string& name) {
  return absl::StrReplaceAll(name, {{"~", "~0"}, {"/", "~1"}});
}

bool TakePrefix(std::string_view& text, std::string_view prefix) {
  if (text.substr(0, prefix.size()) != prefix) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// %XX to the byte.
std::string PercentDecoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t at) {
      const char c = at < text.size() ? text[at] : '\0';
      return c >= '0' && c <= '9'   ? c - '0'
             : c >= 'a' && c <= 'f' ? c - 'a' + 10
             : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                    : -1;
    };
    if (text[i] == '%' && digit(i + 1) >= 0 && digit(i + 2) >= 0) {
      out += static_cast<char>(digit(i + 1) * 16 + digit(i + 2));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

struct Uri {
  std::string scheme, authority, path, query, fragment;
  bool has_scheme = false, has_authority = false, has_query = false, has_fragment = false;
};

Uri SplitUri(std::string_view text) {
  Uri uri;
  const auto cut = [&](char mark, std::string& part, bool& has) {
    const size_t at = text.find(mark);
    if (at == std::string_view::npos) return;
    part = std::string(text.substr(at + 1));
    has = true;
    text = text.substr(0, at);
  };
  cut('#', uri.fragment, uri.has_fragment);
  cut('?', uri.query, uri.has_query);
  const size_t colon = text.find(':');
  if (colon != std::string_view::npos && colon > 0 && text.find('/') > colon) {
    uri.scheme = std::string(text.substr(0, colon));
    uri.has_scheme = true;
    text.remove_prefix(colon + 1);
  }
  if (TakePrefix(text, "//")) {
    const size_t slash = std::min(text.find('/'), text.size());
    uri.authority = std::string(text.substr(0, slash));
    uri.has_authority = true;
    text.remove_prefix(slash);
  }
  uri.path = std::string(text);
  return uri;
}

std::string JoinUri(const Uri& uri) {
  std::string out;
  if (uri.has_scheme) out += uri.scheme + ":";
  if (uri.has_authority) out += "//" + uri.authority;
  out += uri.path;
  if (uri.has_query) out += "?" + uri.query;
  if (uri.has_fragment) out += "#" + uri.fragment;
  return out;
}

std::string WithoutDots(std::string_view path) {
  std::string out;
  while (!path.empty()) {
    if (TakePrefix(path, "../") || TakePrefix(path, "./")) continue;
    if (path.substr(0, 3) == "/./") {
      path.remove_prefix(2);
    } else if (path == "/.") {
      path = "/";
    } else if (path.substr(0, 4) == "/../" || path == "/..") {
      path = path == "/.." ? "/" : path.substr(3);
      out.erase(std::min(out.rfind('/'), out.size()));
    } else if (path == "." || path == "..") {
      path = "";
    } else {
      const size_t next = std::min(path.find('/', 1), path.size());
      out.append(path.substr(0, next));
      path.remove_prefix(next);
    }
  }
  return out;
}

// The keywords that a schema's other parts are sorted out by, so that a mistake in them would go
// unnoticed: an unknown type has no values.
absl::Status CheckValue(const JsonValue::Member& member, const std::string& path) {
  const auto& [keyword, value] = member;
  std::string_view accepted;
  if (keyword == "type") {
    const auto is_known = [](const JsonValue& name) {
      return name.is_string() && TypeNamed(name.text).has_value();
    };
    const bool is_list = value.is_array() && !value.items.empty() &&
                         std::all_of(value.items.begin(), value.items.end(), is_known);
    if (!is_list && !is_known(value)) accepted = kTypeNames;
  } else if (keyword == "enum" && !value.is_array()) {
    accepted = "a list of values";
  } else if (keyword == "required" && !value.is_bool()) {  // of draft 3: a flag of the member
    const bool is_list =
        value.is_array() && std::all_of(value.items.begin(), value.items.end(),
                                        [](const JsonValue& name) { return name.is_string(); });
    if (!is_list) accepted = "a list of names";
  }
  if (accepted.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Message(path, " is ", JsonText(value).substr(0, 60), "; accepted: ", accepted));
}

std::optional<SchemaDialect> DialectOf(std::string_view uri) {
  for (const std::string_view prefix : {"http://", "https://"}) TakePrefix(uri, prefix);
  if (!uri.empty() && uri.back() == '#') uri.remove_suffix(1);
  constexpr std::pair<std::string_view, SchemaDialect> kDialects[] = {
      {"json-schema.org/draft-03/schema", SchemaDialect::kDraft4},
      {"json-schema.org/draft-04/schema", SchemaDialect::kDraft4},
      {"json-schema.org/draft-06/schema", SchemaDialect::kDraft6},
      {"json-schema.org/draft-07/schema", SchemaDialect::kDraft7},
      {"json-schema.org/draft/2019-09/schema", SchemaDialect::k2019},
      {"json-schema.org/draft/2020-12/schema", SchemaDialect::k2020}};
  for (const auto& [name, dialect] : kDialects)
    if (uri == name) return dialect;
  return std::nullopt;
}

}  // namespace

std::string ResolveUri(std::string_view base_text, std::string_view reference) {
  Uri uri = SplitUri(reference);
  if (uri.has_scheme) {
    uri.path = uri.scheme == "urn" ? uri.path : WithoutDots(uri.path);
    return JoinUri(uri);
  }
  const Uri base = SplitUri(base_text);
  uri.scheme = base.scheme;
  uri.has_scheme = base.has_scheme;
  if (!uri.has_authority) {
    uri.authority = base.authority;
    uri.has_authority = base.has_authority;
    if (uri.path.empty()) {
      uri.path = base.path;
      if (!uri.has_query) {
        uri.query = base.query;
        uri.has_query = base.has_query;
      }
    } else if (uri.path[0] != '/') {
      const size_t slash = base.path.rfind('/');
      uri.path = (slash == std::string::npos ? (base.has_authority ? "/" : "")
                                             : base.path.substr(0, slash + 1)) +
                 uri.path;
      uri.path = WithoutDots(uri.path);
    } else {
      uri.path = WithoutDots(uri.path);
    }
  }
  return JoinUri(uri);
}

absl::StatusOr<SchemaIndex> SchemaIndex::Create(const JsonValue& document) {
  SchemaIndex index;
  index.document_ = &document;
  if (const JsonValue* name = document.Find("$schema"); name != nullptr && name->is_string()) {
    if (const auto dialect = DialectOf(name->text); dialect.has_value()) {
      index.dialect_ = *dialect;
      index.asserts_format_ = *dialect < SchemaDialect::k2019;
    } else if (name->text.find("json-schema.org") == std::string::npos) {
      return absl::UnimplementedError(
          Message("#/$schema ", JsonQuoted(name->text.substr(0, 80)),
                  " is a dialect that is not known here; accepted: those of json-schema.org"));
    }
  }
  if (const JsonValue* integers = document.Find("x-integers"); integers != nullptr) {
    if (!integers->is_string() || (integers->text != "plain" && integers->text != "any"))
      return absl::InvalidArgumentError(Message(
          "#/x-integers is ", JsonText(*integers).substr(0, 60), "; accepted: \"plain\", \"any\""));
    index.plain_integers_ = integers->text == "plain";
  }
  index.by_uri_[""] = &document;
  if (absl::Status status = index.Walk(document, "", "#"); !status.ok()) return status;
  return index;
}

absl::Status SchemaIndex::Walk(const JsonValue& schema, const std::string& base,
                               const std::string& path) {
  if (schema.is_bool()) {
    places_.try_emplace(&schema, Place{base, path});
    return absl::OkStatus();
  }
  if (!schema.is_object())
    return absl::InvalidArgumentError(
        Message(path, " is ", JsonText(schema).substr(0, 60), "; accepted: a schema"));
  std::string inner_base = base;
  const JsonValue* id = schema.Find(dialect_ == SchemaDialect::kDraft4 ? "id" : "$id");
  if (id != nullptr && id->is_string() && !(ref_stands_alone() && schema.Find("$ref"))) {
    const std::string uri = ResolveUri(base, id->text);
    const size_t hash = uri.find('#');
    if (hash == std::string::npos || hash + 1 == uri.size()) inner_base = uri.substr(0, hash);
    by_uri_.try_emplace(hash + 1 == uri.size() ? inner_base : uri, &schema);
  }
  if (!places_.try_emplace(&schema, Place{inner_base, path}).second) return absl::OkStatus();
  for (const std::string_view keyword : {"$anchor", "$dynamicAnchor"}) {
    const JsonValue* anchor = schema.Find(keyword);
    if (anchor == nullptr || !anchor->is_string()) continue;
    by_uri_.try_emplace(Message(inner_base, "#", anchor->text), &schema);
    if (keyword == "$dynamicAnchor") ++dynamic_anchors_[anchor->text];
  }
  return WalkInner(schema, inner_base, path);
}

absl::Status SchemaIndex::WalkInner(const JsonValue& schema, const std::string& base,
                                    const std::string& path) {
  const bool is_reference = ref_stands_alone() && schema.Find("$ref") != nullptr;
  for (const JsonValue::Member& member : schema.members) {
    const auto& [keyword, value] = member;
    if (IsAbsent(member)) continue;
    const std::string at = Message(path, "/", EscapePointer(keyword));
    absl::Status status;
    if (!is_reference) status.Update(CheckValue(member, at));
    for (const std::string_view name : kSchemaKeywords)
      if (keyword == name && !value.is_array()) status.Update(Walk(value, base, at));
    for (const std::string_view name : kListKeywords) {
      if (keyword != name || (!value.is_array() && name == "items")) continue;
      if (!value.is_array())
        return absl::InvalidArgumentError(Message(at, " is no list of schemas"));
      for (size_t i = 0; i < value.items.size(); ++i)
        status.Update(Walk(value.items[i], base, Message(at, "/", i)));
    }
    for (const std::string_view name : kMapKeywords) {
      if (keyword != name) continue;
      if (!value.is_object())
        return absl::InvalidArgumentError(Message(at, " is no object of schemas"));
      for (const auto& [inner_name, inner] : value.members)
        if (name != "dependencies" || !inner.is_array())
          status.Update(Walk(inner, base, Message(at, "/", EscapePointer(inner_name))));
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<const JsonValue*> SchemaIndex::Follow(const JsonValue& from,
                                                     std::string_view pointer,
                                                     const std::string& path) {
  const JsonValue* at = &from;
  std::string base;
  while (!pointer.empty()) {
    if (const auto it = places_.find(at); it != places_.end()) base = it->second.base;
    pointer.remove_prefix(1);
    const size_t slash = std::min(pointer.find('/'), pointer.size());
    const std::string name =
        absl::StrReplaceAll(std::string(pointer.substr(0, slash)), {{"~1", "/"}, {"~0", "~"}});
    pointer.remove_prefix(slash);
    const JsonValue* next = at->Find(name);
    if (at->is_array() && !name.empty() && name.size() < 9 &&
        name.find_first_not_of("0123456789") == std::string::npos) {
      const size_t index = std::stoul(name);
      next = index < at->items.size() ? &at->items[index] : nullptr;
    }
    if (next == nullptr) return absl::NotFoundError("");
    at = next;
  }
  if (!places_.contains(at))
    if (absl::Status status = Walk(*at, base, path); !status.ok()) return status;
  return at;
}

absl::StatusOr<const JsonValue*> SchemaIndex::Resolve(const JsonValue& schema,
                                                      std::string_view keyword) {
  const std::string& reference = schema.Find(keyword)->text;
  const auto place = places_.find(&schema);
  const std::string uri = ResolveUri(place == places_.end() ? "" : place->second.base, reference);
  const auto fail = [&](absl::StatusCode code, std::string_view why) {
    return absl::Status(
        code, Message(PathOf(schema), ": ", keyword, " ", JsonQuoted(reference), " ", why));
  };
  const size_t hash = std::min(uri.find('#'), uri.size());
  const std::string fragment = PercentDecoded(std::string_view(uri).substr(hash));
  if (const auto it = by_uri_.find(uri); it != by_uri_.end()) {
    const JsonValue* target = it->second;
    if (keyword == "$dynamicRef") {
      const JsonValue* anchor = target->Find("$dynamicAnchor");
      if (anchor != nullptr && fragment == "#" + anchor->text && dynamic_anchors_[anchor->text] > 1)
        return fail(absl::StatusCode::kUnimplemented,
                    "can't be kept: what it means depends on how it is reached");
    }
    return target;
  }
  const auto resource = by_uri_.find(uri.substr(0, hash));
  if (resource == by_uri_.end())
    return fail(absl::StatusCode::kNotFound, "is outside of the schema, and nothing is fetched");
  if (fragment.size() <= 1) return resource->second;
  if (fragment[1] != '/') return fail(absl::StatusCode::kNotFound, "is no anchor of the schema");
  const auto target =
      Follow(*resource->second, std::string_view(fragment).substr(1), "#" + fragment.substr(1));
  if (absl::IsNotFound(target.status()))
    return fail(absl::StatusCode::kNotFound, "is not in the schema");
  return target;
}

std::string SchemaIndex::PathOf(const JsonValue& schema) const {
  const auto it = places_.find(&schema);
  return it == places_.end() ? "#" : it->second.path;
}

}  // namespace sluice
