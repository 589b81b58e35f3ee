// The schemas inside of a JSON schema document: where they are, what dialect they are written in,
// and what their references mean. Immutable once built, but for the names of schemas outside of
// the usual places, which are found when they are referred to. Not thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/constraint/json/json_value.h"

namespace sluice {

// What `$schema` declares; where it declares nothing (or something unknown), 2020-12.
enum class SchemaDialect { kDraft4, kDraft6, kDraft7, k2019, k2020 };

class SchemaIndex {
 public:
  // `document` is borrowed. INVALID_ARGUMENT naming the place where a keyword's value is not what
  // it must be, wherever in the document that is; UNIMPLEMENTED where $schema names a dialect that
  // is not one of json-schema.org.
  static absl::StatusOr<SchemaIndex> Create(const JsonValue& document);

  SchemaDialect dialect() const { return dialect_; }
  // Up to draft 7, what stands beside a $ref has no meaning.
  bool ref_stands_alone() const { return dialect_ < SchemaDialect::k2019; }
  // Whether `format` is asserted whatever stands beside it. Where $schema declares 2019-09 or
  // 2020-12, by which it annotates, it is asserted beside `"type": "string"` alone: who writes both
  // wants texts of that form.
  bool asserts_format() const { return asserts_format_; }
  // Whether whole values are spelled as integers where the schema asks for integers: what readers
  // with integer types take. By the document's "x-integers"; "any" leaves 5.0, 5e0 and -0 in.
  bool plain_integers() const { return plain_integers_; }

  // The schema that `schema`'s member "$ref" or "$dynamicRef" means. NOT_FOUND where there is none
  // in the document, UNIMPLEMENTED where a dynamic one depends on how it is reached.
  absl::StatusOr<const JsonValue*> Resolve(const JsonValue& schema, std::string_view keyword);

  // A JSON pointer to `schema` as a URI fragment, for messages.
  std::string PathOf(const JsonValue& schema) const;

 private:
  SchemaIndex() = default;
  struct Place {
    std::string base;  // absolute or empty, without fragment
    std::string path;
  };
  absl::Status Walk(const JsonValue& schema, const std::string& base, const std::string& path);
  absl::Status WalkInner(const JsonValue& schema, const std::string& base, const std::string& path);
  absl::StatusOr<const JsonValue*> Follow(const JsonValue& from, std::string_view pointer,
                                          const std::string& path);

  const JsonValue* document_ = nullptr;
  SchemaDialect dialect_ = SchemaDialect::k2020;
  bool asserts_format_ = true;
  bool plain_integers_ = true;
  absl::flat_hash_map<const JsonValue*, Place> places_;
  absl::flat_hash_map<std::string, const JsonValue*> by_uri_;  // with #anchor where it has one
  absl::flat_hash_map<std::string, int> dynamic_anchors_;      // how many schemas have each
};

// The URI that `reference` means where `base` is (RFC 3986, section 5.2).
std::string ResolveUri(std::string_view base, std::string_view reference);

}  // namespace sluice
