#include "clients/cli/terminal_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "services/options/help_text.h"

namespace sluice {
namespace {

constexpr size_t kNarrowest = 20;
constexpr size_t kWidest = 96;

bool IsControl(unsigned char byte) {
  return (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F;
}

// Not a byte that goes on with a character of UTF-8.
bool BeginsCharacter(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

}  // namespace

std::string Printable(absl::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (IsControl(byte)) {
      absl::StrAppendFormat(&result, "\\x%02x", byte);
    } else if (byte == 0xC2 && next >= 0x80 && next < 0xA0) {
      absl::StrAppendFormat(&result, "\\x%02x", next);
      ++i;
    } else {
      result += text[i];
    }
  }
  return result;
}

size_t NumCharacters(absl::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) { return BeginsCharacter(byte); }));
}

absl::string_view FirstCharacters(absl::string_view text, size_t most) {
  size_t num_characters = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (BeginsCharacter(text[i]) && ++num_characters > most) return text.substr(0, i);
  }
  return text;
}

std::string Shortened(absl::string_view text, size_t most) {
  constexpr absl::string_view kCut = "..";
  if (NumCharacters(text) <= most) return std::string(text);
  if (most < kCut.size()) return std::string(FirstCharacters(text, most));
  return absl::StrCat(FirstCharacters(text, most - kCut.size()), kCut);
}

size_t HelpWidth(int columns) {
  return std::clamp(static_cast<size_t>(std::max(columns, 1)), kNarrowest, kWidest);
}

std::string Beside(const std::string& name, const std::string& text, size_t width) {
  constexpr size_t kColumn = 12, kNarrowest = 20;
  const size_t room =
      width > 0 ? std::max(width, kColumn + kNarrowest) - kColumn : std::string::npos;
  std::string result, head = name;
  for (const std::string& line : Wrapped(text, room)) {
    head.resize(std::max(head.size() + 1, kColumn), ' ');
    absl::StrAppend(&result, head, line, "\n");
    head.clear();
  }
  return result;
}

std::string OnOneLine(const std::string& text) {
  std::string line = Printable(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::replace(line.begin(), line.end(), '\t', ' ');
  return line;
}

}  // namespace sluice
