#include "orchestrator/api/constraint_check.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "orchestrator/api/refusal.h"

namespace sluice {
namespace {

constexpr size_t kMaxDocumentBytes = 1 << 20;
constexpr size_t kMaxRegexBytes = 16'384;
constexpr int kMaxChoices = 1024;
constexpr size_t kMaxChoiceBytes = 4096;
constexpr int kMaxTags = 128;
constexpr size_t kMaxTagBytes = 1024;
constexpr int kMostTagsOfText = 64;
constexpr const char* kKinds =
    "one of json_schema, any_json, regex, grammar, choices, structural_tags";

absl::Status CheckBytes(const std::string& field, const std::string& text, size_t least,
                        size_t most) {
  if (text.size() >= least && text.size() <= most) return absl::OkStatus();
  return Refuse(absl::StrCat("the length of ", field), text.size(),
                absl::StrCat(least, " to ", most, " bytes"));
}

absl::Status CheckCount(const std::string& field, int count, int least, int most) {
  if (count >= least && count <= most) return absl::OkStatus();
  return Refuse(absl::StrCat("the number of ", field), count, absl::StrCat(least, " to ", most));
}

std::vector<std::string> SetFields(const v1::Constraint& constraint, const std::string& prefix) {
  std::vector<std::string> fields;
  const auto add = [&](bool set, const char* name) {
    if (set) fields.push_back(absl::StrCat(prefix, ".", name));
  };
  add(constraint.has_json_schema(), "json_schema");
  add(constraint.any_json(), "any_json");
  add(constraint.has_regex(), "regex");
  add(constraint.has_grammar(), "grammar");
  add(!constraint.choices().empty(), "choices");
  add(constraint.has_structural_tags(), "structural_tags");
  return fields;
}

absl::Status CheckKind(const v1::Constraint& constraint, const std::string& prefix) {
  const std::vector<std::string> fields = SetFields(constraint, prefix);
  if (fields.size() == 1) return absl::OkStatus();
  if (fields.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(prefix, " is empty; accepted: ", kKinds));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(absl::StrJoin(fields, " and "),
                   " contradict each other: a text keeps one constraint; set one of them"));
}

absl::Status CheckChoices(const v1::Constraint& constraint, const std::string& prefix) {
  const std::string field = absl::StrCat(prefix, ".choices");
  absl::Status status = CheckCount(field, constraint.choices_size(), 1, kMaxChoices);
  for (int i = 0; i < constraint.choices_size(); ++i) {
    status.Update(
        CheckBytes(absl::StrCat(field, "[", i, "]"), constraint.choices(i), 1, kMaxChoiceBytes));
  }
  return status;
}

bool BeginsWithOneOf(const std::string& text,
                     const google::protobuf::RepeatedPtrField<std::string>& beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](const std::string& begin) { return absl::StartsWith(text, begin); });
}

absl::Status CheckTag(const v1::StructuralTags& tags, int index, const std::string& prefix) {
  const v1::StructuralTag& tag = tags.tags(index);
  const std::string field = absl::StrCat(prefix, ".tags[", index, "]");
  absl::Status status = CheckBytes(absl::StrCat(field, ".begin"), tag.begin(), 1, kMaxTagBytes);
  status.Update(
      CheckBytes(absl::StrCat(field, ".end"), tag.end(), tag.has_content() ? 0 : 1, kMaxTagBytes));
  if (!status.ok()) return status;
  if (!tags.triggers().empty() && !BeginsWithOneOf(tag.begin(), tags.triggers())) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".begin starts with none of ", prefix, ".triggers"));
  }
  if (!tag.has_content()) return absl::OkStatus();
  if (tag.content().has_structural_tags()) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".content.structural_tags: tags don't hold tags"));
  }
  return CheckConstraint(tag.content(), absl::StrCat(field, ".content"));
}

absl::Status CheckTagNumbers(const v1::StructuralTags& tags, const std::string& prefix) {
  if (tags.min_tags() < 0 || tags.min_tags() > kMostTagsOfText) {
    return Refuse(absl::StrCat(prefix, ".min_tags"), tags.min_tags(),
                  absl::StrCat("0 to ", kMostTagsOfText));
  }
  if (!tags.has_max_tags()) return absl::OkStatus();
  const int least = std::max(1, tags.min_tags());
  if (tags.max_tags() >= least && tags.max_tags() <= kMostTagsOfText) return absl::OkStatus();
  return Refuse(absl::StrCat(prefix, ".max_tags"), tags.max_tags(),
                absl::StrCat(least, " to ", kMostTagsOfText));
}

absl::Status CheckTags(const v1::StructuralTags& tags, const std::string& prefix) {
  absl::Status status = CheckCount(absl::StrCat(prefix, ".tags"), tags.tags_size(), 1, kMaxTags);
  status.Update(CheckCount(absl::StrCat(prefix, ".triggers"), tags.triggers_size(), 0, kMaxTags));
  status.Update(CheckTagNumbers(tags, prefix));
  for (int i = 0; status.ok() && i < tags.triggers_size(); ++i) {
    status =
        CheckBytes(absl::StrCat(prefix, ".triggers[", i, "]"), tags.triggers(i), 1, kMaxTagBytes);
  }
  for (int i = 0; status.ok() && i < tags.tags_size(); ++i) status = CheckTag(tags, i, prefix);
  return status;
}

}  // namespace

absl::Status CheckConstraint(const v1::Constraint& constraint, const std::string& prefix) {
  absl::Status status = CheckKind(constraint, prefix);
  if (!status.ok()) return status;
  const auto field = [&](const char* name) { return absl::StrCat(prefix, ".", name); };
  if (constraint.has_json_schema()) {
    return CheckBytes(field("json_schema"), constraint.json_schema(), 1, kMaxDocumentBytes);
  }
  if (constraint.has_grammar()) {
    return CheckBytes(field("grammar"), constraint.grammar(), 1, kMaxDocumentBytes);
  }
  if (constraint.has_regex()) {
    return CheckBytes(field("regex"), constraint.regex(), 0, kMaxRegexBytes);
  }
  if (!constraint.choices().empty()) return CheckChoices(constraint, prefix);
  if (constraint.has_structural_tags()) {
    return CheckTags(constraint.structural_tags(), field("structural_tags"));
  }
  return absl::OkStatus();
}

}  // namespace sluice
