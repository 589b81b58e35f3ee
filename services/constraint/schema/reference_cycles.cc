#include "services/constraint/schema/reference_cycles.h"

#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "services/constraint/json/message.h"

namespace sluice {
namespace {

enum class Mark { kOpen, kDone };

// Depth first over what is about the same value, from all places that hold a $ref.
class CycleSearch {
 public:
  explicit CycleSearch(SchemaIndex& index) : index_(index) {}

  void FindReferences(const JsonValue& value) {
    if (value.is_object() && value.Find("$ref") != nullptr) Visit(value);
    for (const auto& [name, inner] : value.members) FindReferences(inner);
    for (const JsonValue& item : value.items) FindReferences(item);
  }

  const absl::Status& status() const { return status_; }

 private:
  void Visit(const JsonValue& schema) {
    if (!status_.ok() || !schema.is_object()) return;
    const auto [it, inserted] = marks_.try_emplace(&schema, Mark::kOpen);
    if (!inserted) {
      if (it->second == Mark::kOpen)
        status_ = absl::InvalidArgumentError(
            Message(index_.PathOf(schema), " refers to itself without a member or item between"));
      return;
    }
    for (const auto& [keyword, value] : schema.members) {
      if (keyword == "$ref" && value.is_string()) {
        const auto target = index_.Resolve(schema, keyword);
        if (target.ok()) Visit(**target);
      } else if (keyword == "not" || keyword == "if" || keyword == "then" || keyword == "else") {
        Visit(value);
      } else if (keyword == "allOf" || keyword == "anyOf" || keyword == "oneOf") {
        for (const JsonValue& item : value.items) Visit(item);
      } else if (keyword == "dependentSchemas" || keyword == "dependencies") {
        for (const auto& [name, inner] : value.members) Visit(inner);
      }
    }
    marks_[&schema] = Mark::kDone;
  }

  SchemaIndex& index_;
  absl::flat_hash_map<const JsonValue*, Mark> marks_;
  absl::Status status_;
};

}  // namespace

absl::Status CheckReferenceCycles(const JsonValue& document, SchemaIndex& index) {
  CycleSearch search(index);
  search.FindReferences(document);
  return search.status();
}

}  // namespace sluice
