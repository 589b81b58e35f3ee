#include "services/options/flags.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "services/options/help_text.h"

namespace sluice {
namespace {

constexpr size_t kHelpColumn = 26;

// Letters to add, leave out or replace to make one of the other (Levenshtein 1966).
size_t NumSlips(absl::string_view one, absl::string_view other) {
  std::vector<size_t> row(other.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < one.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < other.size(); ++j) {
      const size_t replaced = diagonal + (one[i] == other[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

absl::Status Refused(const std::string& text, absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is not ", expected));
}

// True where the whole of `text` is one number of type T.
template <typename T>
bool ParseNumber(const std::string& text, T* into) {
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, *into);
  return error == std::errc() && rest == end;
}

template <typename T>
absl::Status ParseInteger(const std::string& text, T* into) {
  if (ParseNumber(text, into)) return absl::OkStatus();
  return Refused(text, absl::StrCat("an integer from ", std::numeric_limits<T>::min(), " to ",
                                    std::numeric_limits<T>::max()));
}

}  // namespace

absl::Status ParseFlagValue(const std::string& text, std::string* into) {
  *into = text;
  return absl::OkStatus();
}

absl::Status ParseFlagValue(const std::string& text, int32_t* into) {
  return ParseInteger(text, into);
}

absl::Status ParseFlagValue(const std::string& text, uint64_t* into) {
  return ParseInteger(text, into);
}

absl::Status ParseFlagValue(const std::string& text, float* into) {
  if (ParseNumber(text, into) && std::isfinite(*into)) return absl::OkStatus();
  return Refused(text, "a finite number");
}

absl::Status ParseFlagValue(const std::string& text, absl::Duration* into) {
  if (double seconds = 0; ParseNumber(text, &seconds)) {
    *into = absl::Seconds(seconds);
  } else if (!absl::ParseDuration(text, into)) {
    *into = absl::ZeroDuration();
  }
  if (*into > absl::ZeroDuration() && *into < absl::InfiniteDuration()) return absl::OkStatus();
  return Refused(text, "a positive duration such as 30, 0.5 or 1m30s");
}

std::string HelpOf(const Option& option) {
  const bool is_text = option.kind == OptionKind::kText || option.kind == OptionKind::kTexts;
  std::string help = option.help;
  if (is_text && *option.words != '\0') absl::StrAppend(&help, " Accepted: ", option.words, ".");
  if (*option.initial != '\0') absl::StrAppend(&help, " Default ", option.initial, ".");
  return help;
}

FlagSet::FlagSet(std::string command, std::string arguments, std::string description)
    : command_(std::move(command)),
      arguments_(std::move(arguments)),
      description_(std::move(description)) {}

void FlagSet::Section(std::string title) { section_ = std::move(title); }

void FlagSet::AddParsed(std::string name, std::string value, std::string help, Parser parse) {
  flags_.push_back(
      {section_, std::move(name), std::move(value), std::move(help), std::move(parse)});
}

void FlagSet::AddSwitch(std::string name, std::string help, bool* into) {
  const auto parse = [into](const std::string& text) {
    *into = text == "true";
    return text == "true" || text == "false" ? absl::OkStatus() : Refused(text, "true or false");
  };
  flags_.push_back({section_, std::move(name), "", std::move(help), parse, /*is_switch=*/true});
}

void FlagSet::AddOptions(Programs program, const OptionSetter& set) {
  const char* section = "";
  for (const Option& option : kOptions) {
    if (*option.section != '\0') section = option.section;
    if ((option.programs & program) == 0) continue;
    const auto parse = [name = option.name, set](const std::string& text) {
      return set(name, text);
    };
    flags_.push_back({section, option.name, option.value, HelpOf(option), parse,
                      option.kind == OptionKind::kSwitch, /*names_itself=*/true});
  }
}

absl::Status FlagSet::CheckRange(int32_t value, int32_t least, int32_t most) {
  if (value < least)
    return absl::InvalidArgumentError(absl::StrCat(value, " is less than ", least));
  if (value > most) return absl::InvalidArgumentError(absl::StrCat(value, " is more than ", most));
  return absl::OkStatus();
}

std::string FlagSet::program() const {
  return absl::StartsWith(command_, "sluice-") ? command_ : absl::StrCat("sluice ", command_);
}

const FlagSet::Flag* FlagSet::Find(const std::string& name) const {
  for (const Flag& flag : flags_) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

const FlagSet::Flag* FlagSet::Nearest(absl::string_view argument) const {
  const absl::string_view name = absl::StripPrefix(absl::StripPrefix(argument, "-"), "-");
  // A slip in a short name makes another word of it.
  size_t most = name.size() < 6 ? 1 : 2;
  const Flag* nearest = nullptr;
  for (const Flag& flag : flags_) {
    const size_t slips = NumSlips(name, flag.name);
    if (slips > most || (nearest != nullptr && slips == most)) continue;
    most = slips;
    nearest = &flag;
  }
  return nearest;
}

absl::Status FlagSet::Unknown(const std::string& argument) const {
  if (const Flag* meant = Nearest(argument.substr(0, argument.find('='))); meant != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown flag ", argument, "; did you mean --", meant->name, "?"));
  }
  std::string known;
  for (const Flag& flag : flags_) absl::StrAppend(&known, " --", flag.name);
  return absl::InvalidArgumentError(
      absl::StrCat("unknown flag ", argument, "; ", command_, " has", known, " --help"));
}

absl::Status FlagSet::ParseFlag(absl::Span<const std::string> arguments, size_t* next) {
  const std::string& argument = arguments[(*next)++];
  const size_t equals = argument.find('=');
  const bool has_value = equals != std::string::npos;
  const std::string name = argument.substr(2, has_value ? equals - 2 : equals);
  std::string value = has_value ? argument.substr(equals + 1) : "";

  const Flag* flag = Find(name);
  if (flag == nullptr && !has_value && absl::StartsWith(name, "no")) {
    flag = Find(name.substr(2));
    if (flag != nullptr && !flag->is_switch) flag = nullptr;
    value = "false";
  } else if (flag != nullptr && flag->is_switch && !has_value) {
    value = "true";
  } else if (flag != nullptr && !has_value) {
    if (*next == arguments.size()) {
      return absl::InvalidArgumentError(absl::StrCat("--", name, " needs a value: ", flag->value));
    }
    value = arguments[(*next)++];
  }
  if (flag == nullptr) return Unknown(absl::StrCat("--", name));
  const absl::Status status = flag->parse(value);
  if (status.ok() || flag->names_itself) return status;
  return absl::InvalidArgumentError(absl::StrCat("--", flag->name, ": ", status.message()));
}

absl::Status FlagSet::Parse(absl::Span<const std::string> arguments) {
  bool flags_ended = false;
  auto positional = positionals_.begin();
  for (size_t next = 0; next < arguments.size();) {
    const std::string& argument = arguments[next];
    if (!flags_ended && (argument == "--help" || argument == "-h")) {
      help_requested_ = true;
      return absl::OkStatus();
    }
    if (!flags_ended && argument == "--") {
      flags_ended = true;
      ++next;
    } else if (!flags_ended && absl::StartsWith(argument, "--")) {
      if (absl::Status status = ParseFlag(arguments, &next); !status.ok()) return status;
    } else if (!flags_ended && argument.size() > 1 && argument[0] == '-') {
      return Unknown(argument);
    } else if (positional == positionals_.end()) {
      return absl::InvalidArgumentError(absl::StrCat("unexpected argument \"", argument,
                                                     "\"; usage: ", program(),
                                                     arguments_.empty() ? "" : " ", arguments_));
    } else {
      **positional++ = argument;
      ++next;
    }
  }
  return absl::OkStatus();
}

std::string FlagSet::Help(size_t width) const {
  const auto paragraph = [width](const std::string& text) {
    return absl::StrCat(absl::StrJoin(Wrapped(text, width), "\n"), "\n");
  };
  std::string help = absl::StrCat(
      paragraph(absl::StrCat("Usage: ", program(), arguments_.empty() ? "" : " ", arguments_)),
      "\n", paragraph(description_));
  std::string section;
  for (const Flag& flag : flags_) {
    if (flag.section != section) absl::StrAppend(&help, "\n", paragraph(flag.section + ":"));
    section = flag.section;
    absl::StrAppend(&help,
                    Hanging(absl::StrCat("  --", flag.name, flag.is_switch ? "" : " ", flag.value),
                            flag.help, kHelpColumn, width));
  }
  if (!footer_.empty()) absl::StrAppend(&help, "\n", paragraph(footer_));
  return help;
}

}  // namespace sluice
