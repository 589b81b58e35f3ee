// The options of one program, as they were given. Not thread-safe.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/options/option.h"
#include "services/options/option_table.h"

namespace sluice {

// Whether values of the kind are read as T; void: as something.
template <typename T>
constexpr bool IsReadAs(OptionKind kind) {
  switch (kind) {
    case OptionKind::kText:
      return std::is_void_v<T> || std::is_same_v<T, std::string>;
    case OptionKind::kTexts:
      return std::is_void_v<T> || std::is_same_v<T, std::vector<std::string>>;
    case OptionKind::kSwitch:
      return std::is_void_v<T> || std::is_same_v<T, bool>;
    case OptionKind::kInteger:
      return std::is_void_v<T> || std::is_same_v<T, int>;
    case OptionKind::kNumber:
      return std::is_void_v<T> || std::is_same_v<T, double>;
    case OptionKind::kDuration:
      return std::is_void_v<T> || std::is_same_v<T, absl::Duration>;
  }
  return false;
}

// The name of an option that the table has, of type T: anything else does not compile.
template <typename T>
class OptionName {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): a literal is meant
  consteval OptionName(const char* name) : text_(name) {
    bool known = false;
    for (const Option& option : kOptions) {
      known = known || (std::string_view(name) == option.name && IsReadAs<T>(option.kind));
    }
    if (!known) throw "the table has no option of this name and type";
  }

  const char* text() const { return text_; }

 private:
  const char* text_;
};

// The program's option of that name; null: it has none.
const Option* FindOption(Programs program, absl::string_view name);

// "1 to 64", "0s or longer", "f32, bf16, fp8": what the option accepts, in words; empty: any text.
std::string AcceptedText(const Option& option);

class OptionValues {
 public:
  // Of one program, all with their defaults.
  explicit OptionValues(Programs program) : program_(program) {}

  Programs program() const { return program_; }

  // INVALID_ARGUMENT "--NAME is TEXT; accepted: ..." where the option does not accept the text; the value is
  // what it was then. REQUIRES: the program has the option.
  absl::Status Set(absl::string_view name, absl::string_view text);
  // REQUIRES: the program has the option, which accepts the text.
  void Put(OptionName<void> name, absl::string_view text);
  // Back to the default.
  void Reset(OptionName<void> name) { given_.erase(name.text()); }

  bool IsGiven(OptionName<void> name) const { return given_.count(name.text()) > 0; }
  bool IsAnyGiven() const { return !given_.empty(); }

  // The value given, else the default; of an option without one: "", no texts, 0. Of an option that the
  // program lacks, the default that others have.
  template <typename T>
  T Get(OptionName<T> name) const {
    T value{};
    Read(Text(name.text()), &value);
    return value;
  }

  // As Get(), as all spell it.
  std::string TextOf(OptionName<void> name) const { return Text(name.text()); }

  // What `program` is told: those given of its options but for those that `up` sets itself.
  OptionValues ForChild(Programs program) const;

  // "--NAME", "VALUE" of those given, in the order of the table; switches are "--NAME=true" or
  // "--NAME=false".
  std::vector<std::string> Arguments() const;

 private:
  std::string Text(const char* name) const;
  static void Read(const std::string& text, std::string* into);
  static void Read(const std::string& text, std::vector<std::string>* into);
  static void Read(const std::string& text, bool* into);
  static void Read(const std::string& text, int* into);
  static void Read(const std::string& text, double* into);
  static void Read(const std::string& text, absl::Duration* into);

  Programs program_;
  std::map<std::string, std::string, std::less<>> given_;  // texts that are accepted, by name
};

}  // namespace sluice
