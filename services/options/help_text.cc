#include "services/options/help_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace sluice {
namespace {

// Narrower texts beside a head have too many lines.
constexpr size_t kNarrowestBeside = 20;
constexpr size_t kNarrowColumn = 6;

}  // namespace

std::vector<std::string> Wrapped(const std::string& text, size_t width) {
  std::vector<std::string> lines;
  for (absl::string_view paragraph : absl::StrSplit(text, '\n')) {
    lines.emplace_back();
    for (absl::string_view word : absl::StrSplit(paragraph, ' ')) {
      const bool first = lines.back().empty();
      if (!first && lines.back().size() + 1 + word.size() > width) {
        lines.emplace_back(word);
      } else {
        absl::StrAppend(&lines.back(), first ? "" : " ", word);
      }
    }
  }
  return lines;
}

std::string Hanging(std::string head, const std::string& text, size_t column, size_t width) {
  if (width < column + kNarrowestBeside) column = kNarrowColumn;
  std::string result;
  for (const std::string& line : Wrapped(text, width - column)) {
    if (head.size() + 2 > column) {
      absl::StrAppend(&result, head, "\n");
      head.clear();
    }
    head.resize(column, ' ');
    absl::StrAppend(&result, head, line, "\n");
    head.clear();
  }
  return result;
}

}  // namespace sluice
