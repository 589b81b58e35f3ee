// The flags of one program or command: one list serves parsing and --help, so that neither knows a flag
// the other does not. `--name value` and `--name=value` mean the same, switches are `--name`,
// `--noname` or `--name=true|false`, the last of several wins, `--` ends the flags. Not
// thread-safe; the variables that values go into are borrowed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "services/options/option_table.h"

namespace sluice {

// Each reads the whole of `text` or returns INVALID_ARGUMENT saying what it should have been.
// Numbers are decimal and without spaces; floating-point ones are finite; a duration is a positive
// number of seconds ("30", "0.5") or has units ("1m30s").
absl::Status ParseFlagValue(const std::string& text, std::string* into);
absl::Status ParseFlagValue(const std::string& text, int32_t* into);
absl::Status ParseFlagValue(const std::string& text, uint64_t* into);
absl::Status ParseFlagValue(const std::string& text, float* into);
absl::Status ParseFlagValue(const std::string& text, absl::Duration* into);

template <typename T>
absl::Status ParseFlagValue(const std::string& text, std::optional<T>* into) {
  T value{};
  const absl::Status status = ParseFlagValue(text, &value);
  if (status.ok()) *into = std::move(value);
  return status;
}

// What an option does, which texts it accepts and what its default is.
std::string HelpOf(const Option& option);

class FlagSet {
 public:
  // Its status names the option.
  using OptionSetter = std::function<absl::Status(absl::string_view name, const std::string& text)>;
  using Parser = std::function<absl::Status(const std::string& text)>;

  // Reads an integer and refuses what is outside [least, most].
  template <typename T>
  static Parser IntegerFrom(int32_t least, int32_t most, T* into) {
    return [least, most, into](const std::string& text) {
      int32_t value = 0;
      absl::Status status = ParseFlagValue(text, &value);
      if (status.ok()) status = CheckRange(value, least, most);
      if (status.ok()) *into = value;
      return status;
    };
  }

  // `command` is one of `sluice`, or the name of another program, which begins with "sluice-".
  // `arguments` is what follows it in the usage line, such as "[flags] [PROMPT]".
  FlagSet(std::string command, std::string arguments, std::string description);

  // Starts a group of flags in the help.
  void Section(std::string title);

  // A flag whose value goes into `*into` by ParseFlagValue. `value` names the value in the help.
  template <typename T>
  // NOLINTNEXTLINE(performance-unnecessary-value-param): all are moved, unseen in a template
  void Add(std::string name, std::string value, std::string help, T* into) {
    AddParsed(std::move(name), std::move(value), std::move(help),
              [into](const std::string& text) { return ParseFlagValue(text, into); });
  }
  // A flag whose every occurrence is handed to `parse`.
  void AddParsed(std::string name, std::string value, std::string help, Parser parse);
  void AddSwitch(std::string name, std::string help, bool* into);
  // The program's options of option_table.h, under their headings.
  void AddOptions(Programs program, const OptionSetter& set);

  // Accepts one more argument that is not a flag, after those of the calls before.
  void AddPositional(std::optional<std::string>* into) { positionals_.push_back(into); }

  // Paragraphs after the flags.
  void SetFooter(std::string footer) { footer_ = std::move(footer); }

  // INVALID_ARGUMENT names what is wrong and what exists. Stops at --help.
  absl::Status Parse(absl::Span<const std::string> arguments);

  bool help_requested() const { return help_requested_; }
  const std::string& command() const { return command_; }
  // In lines of at most `width` characters, where words allow it.
  std::string Help(size_t width) const;

 private:
  struct Flag {
    std::string section, name, value, help;
    Parser parse;
    bool is_switch = false;
    bool names_itself = false;  // in the statuses of `parse`
  };

  // "sluice up", "sluice-shard".
  std::string program() const;
  static absl::Status CheckRange(int32_t value, int32_t least, int32_t most);
  const Flag* Find(const std::string& name) const;
  absl::Status ParseFlag(absl::Span<const std::string> arguments, size_t* next);
  // The flag that an unknown one was probably meant to be; null where none is alike.
  const Flag* Nearest(absl::string_view argument) const;
  absl::Status Unknown(const std::string& argument) const;

  const std::string command_;
  const std::string arguments_;
  const std::string description_;
  std::string footer_;
  std::string section_ = "Flags";
  std::vector<Flag> flags_;
  std::vector<std::optional<std::string>*> positionals_;
  bool help_requested_ = false;
};

}  // namespace sluice
