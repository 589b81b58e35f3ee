// A table for people: as wide as what is in it or, on a terminal that is too narrow for that, with
// the columns that matter most.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

class TextTable {
 public:
  struct Column {
    std::string name;
    // What it has at least, so that figures that grow do not move their neighbours.
    size_t min_width = 0;
    // Of two columns that have no room together, the one with the smaller number stays. No two have
    // the same.
    int importance = 0;
    // Text, which begins at the left and is cut to so many characters where the width is limited;
    // 0: a figure, never cut.
    size_t cut_to = 0;
  };

  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // REQUIRES: a cell for each column, printable and without line breaks.
  void AddRow(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  // A line of names, one for each row and, where columns are left out, one that says so. `width` is
  // that of the terminal in characters; 0: unlimited.
  std::string Text(size_t width) const;

 private:
  std::vector<size_t> Widths(bool limited) const;
  static std::vector<bool> Chosen(const std::vector<Column>& columns,
                                  const std::vector<size_t>& widths, size_t width);
  void AppendLine(const std::vector<std::string>& cells, const std::vector<size_t>& widths,
                  const std::vector<bool>& chosen, std::string& text) const;

  const std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace sluice
