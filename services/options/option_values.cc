#include "services/options/option_values.h"

#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "kernels/check.h"

namespace sluice {
namespace {

bool ReadDuration(const std::string& text, absl::Duration* into) {
  double seconds = 0;
  if (!absl::SimpleAtod(text, &seconds) || std::isinf(seconds)) {
    return absl::ParseDuration(text, into);
  }
  *into = absl::Seconds(seconds);
  return !std::isnan(seconds);
}

bool IsIn(const OptionRange& range, double value) {
  return (range.above_min ? value > range.min : value >= range.min) && value <= range.max;
}

// A bound in the unit that it is of.
std::string BoundText(const Option& option, double bound) {
  if (option.kind == OptionKind::kDuration) return absl::FormatDuration(absl::Seconds(bound));
  if (std::abs(bound) > kMostInteger) return absl::StrCat(bound);
  return absl::StrCat(static_cast<int>(bound));
}

bool IsBounded(double max) { return max < kMostInteger; }

// Whether the option accepts the text, which is then as all spell it.
bool Accept(const Option& option, std::string& text) {
  switch (option.kind) {
    case OptionKind::kTexts:
      return true;
    case OptionKind::kText: {
      const std::vector<std::string> words = absl::StrSplit(option.words, ", ");
      // Empty is as if it were not given.
      if (*option.words == '\0' || text == option.initial) return true;
      for (const std::string& word : words) {
        if (word == text) return true;
      }
      return false;
    }
    case OptionKind::kSwitch: {
      bool value = false;
      if (!absl::SimpleAtob(text, &value)) return false;
      text = value ? "true" : "false";
      return true;
    }
    case OptionKind::kInteger: {
      int value = 0;
      if (!absl::SimpleAtoi(text, &value) || !IsIn(option.range, value)) return false;
      text = absl::StrCat(value);
      return true;
    }
    case OptionKind::kNumber: {
      double value = 0;
      return absl::SimpleAtod(text, &value) && std::isfinite(value) && IsIn(option.range, value);
    }
    case OptionKind::kDuration: {
      absl::Duration value;
      if (!ReadDuration(text, &value)) return false;
      if (!IsIn(option.range, absl::ToDoubleSeconds(value))) return false;
      text = absl::FormatDuration(value);
      return true;
    }
  }
  return false;
}

}  // namespace

const Option* FindOption(Programs program, absl::string_view name) {
  for (const Option& option : kOptions) {
    if ((option.programs & program) != 0 && name == option.name) return &option;
  }
  return nullptr;
}

std::string AcceptedText(const Option& option) {
  const auto& [min, max, above_min] = option.range;
  switch (option.kind) {
    case OptionKind::kText:
    case OptionKind::kTexts:
      return option.words;
    case OptionKind::kSwitch:
      return "true, false";
    default:
      break;
  }
  const std::string least = BoundText(option, min), most = BoundText(option, max);
  if (min <= -kMostInteger) return "an integer";
  if (IsBounded(max)) {
    return above_min ? absl::StrCat("above ", least, ", up to ", most)
                     : absl::StrCat(least, " to ", most);
  }
  if (above_min) return absl::StrCat("more than ", least);
  return absl::StrCat(least, " or more");
}

absl::Status OptionValues::Set(absl::string_view name, absl::string_view text) {
  const Option* option = FindOption(program_, name);
  SLUICE_CHECK(option != nullptr);
  std::string accepted(absl::StripAsciiWhitespace(text));
  if (option->kind == OptionKind::kText || option->kind == OptionKind::kTexts)
    accepted = std::string(text);
  if (!Accept(*option, accepted)) {
    const bool quoted = option->kind == OptionKind::kText || text.empty();
    const char* quote = quoted ? "\"" : "";
    return absl::InvalidArgumentError(absl::StrCat("--", name, " is ", quote, text, quote,
                                                   "; accepted: ", AcceptedText(*option)));
  }
  given_[std::string(name)] = std::move(accepted);
  return absl::OkStatus();
}

void OptionValues::Put(OptionName<void> name, absl::string_view text) {
  SLUICE_CHECK(Set(name.text(), text).ok());
}

OptionValues OptionValues::ForChild(Programs program) const {
  OptionValues child(program);
  for (const auto& [name, text] : given_) {
    const Option* own = FindOption(program_, name);
    // One entry of both, not two of one name.
    if ((own->programs & program) == 0 || own->set_by_planner) continue;
    child.given_.emplace(name, text);
  }
  return child;
}

std::vector<std::string> OptionValues::Arguments() const {
  std::vector<std::string> arguments;
  for (const Option& option : kOptions) {
    const auto given = given_.find(option.name);
    if ((option.programs & program_) == 0 || given == given_.end()) continue;
    if (option.kind == OptionKind::kSwitch) {
      arguments.push_back(absl::StrCat("--", option.name, "=", given->second));
    } else {
      arguments.insert(arguments.end(), {absl::StrCat("--", option.name), given->second});
    }
  }
  return arguments;
}

std::string OptionValues::Text(const char* name) const {
  if (const auto given = given_.find(name); given != given_.end()) return given->second;
  const Option* option = FindOption(program_, name);
  return (option != nullptr ? option : FindOption(kAllPrograms, name))->initial;
}

// Texts that Accept() has seen, and defaults: "" is of an option without one.
void OptionValues::Read(const std::string& text, std::string* into) { *into = text; }

void OptionValues::Read(const std::string& text, std::vector<std::string>* into) {
  if (!text.empty()) *into = absl::StrSplit(text, ',');
}

void OptionValues::Read(const std::string& text, bool* into) { *into = text == "true"; }

void OptionValues::Read(const std::string& text, int* into) {
  SLUICE_CHECK(text.empty() || absl::SimpleAtoi(text, into));
}

void OptionValues::Read(const std::string& text, double* into) {
  SLUICE_CHECK(text.empty() || absl::SimpleAtod(text, into));
}

void OptionValues::Read(const std::string& text, absl::Duration* into) {
  SLUICE_CHECK(text.empty() || ReadDuration(text, into));
}

}  // namespace sluice
