#include "clients/cli/text_table.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "clients/cli/terminal_text.h"

namespace sluice {
namespace {

constexpr size_t kBetween = 2;  // columns

}  // namespace

std::vector<size_t> TextTable::Widths(bool limited) const {
  std::vector<size_t> widths;
  for (size_t i = 0; i < columns_.size(); ++i) {
    size_t width = std::max(columns_[i].name.size(), columns_[i].min_width);
    for (const std::vector<std::string>& row : rows_) {
      width = std::max(width, NumCharacters(row[i]));
    }
    if (limited && columns_[i].cut_to > 0) width = std::min(width, columns_[i].cut_to);
    widths.push_back(width);
  }
  return widths;
}

// By importance, each that still has room; the first in any case.
std::vector<bool> TextTable::Chosen(const std::vector<Column>& columns,
                                    const std::vector<size_t>& widths, size_t width) {
  std::vector<size_t> order(columns.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return columns[a].importance < columns[b].importance; });
  std::vector<bool> chosen(columns.size(), false);
  size_t taken = 0;
  for (const size_t i : order) {
    const size_t with = taken + (taken > 0 ? kBetween : 0) + widths[i];
    if (width > 0 && taken > 0 && with > width) continue;
    chosen[i] = true;
    taken = with;
  }
  return chosen;
}

void TextTable::AppendLine(const std::vector<std::string>& cells, const std::vector<size_t>& widths,
                           const std::vector<bool>& chosen, std::string& text) const {
  std::string line;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (!chosen[i]) continue;
    if (!line.empty()) line.append(kBetween, ' ');
    const std::string cell = Shortened(cells[i], widths[i]);
    const std::string padding(widths[i] - NumCharacters(cell), ' ');
    absl::StrAppend(&line, columns_[i].cut_to > 0 ? cell + padding : padding + cell);
  }
  absl::StrAppend(&text, line, "\n");
}

std::string TextTable::Text(size_t width) const {
  const std::vector<size_t> widths = Widths(width > 0);
  const std::vector<bool> chosen = Chosen(columns_, widths, width);
  std::vector<std::string> names;
  for (const Column& column : columns_) names.push_back(column.name);
  std::string text;
  AppendLine(names, widths, chosen, text);
  for (const std::vector<std::string>& row : rows_) AppendLine(row, widths, chosen, text);
  const auto left_out = std::count(chosen.begin(), chosen.end(), false);
  if (left_out > 0) {
    const size_t needed =
        std::accumulate(widths.begin(), widths.end(), size_t{0}) + kBetween * (widths.size() - 1);
    absl::StrAppend(&text, left_out, " more columns need ", needed, " characters\n");
  }
  return text;
}

}  // namespace sluice
