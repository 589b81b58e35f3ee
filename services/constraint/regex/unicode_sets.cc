#include "services/constraint/regex/unicode_sets.h"

#include <utf8proc.h>

#include <array>
#include <string>
#include <vector>

namespace sluice {
namespace {

struct CategoryName {
  std::string_view short_name;
  std::string_view long_name;
};

constexpr CategoryName kCategories[] = {
    {"L", "Letter"},
    {"Lu", "Uppercase_Letter"},
    {"Ll", "Lowercase_Letter"},
    {"Lt", "Titlecase_Letter"},
    {"Lm", "Modifier_Letter"},
    {"Lo", "Other_Letter"},
    {"M", "Mark"},
    {"Mn", "Nonspacing_Mark"},
    {"Mc", "Spacing_Mark"},
    {"Me", "Enclosing_Mark"},
    {"N", "Number"},
    {"Nd", "Decimal_Number"},
    {"Nl", "Letter_Number"},
    {"No", "Other_Number"},
    {"P", "Punctuation"},
    {"Pc", "Connector_Punctuation"},
    {"Pd", "Dash_Punctuation"},
    {"Ps", "Open_Punctuation"},
    {"Pe", "Close_Punctuation"},
    {"Pi", "Initial_Punctuation"},
    {"Pf", "Final_Punctuation"},
    {"Po", "Other_Punctuation"},
    {"S", "Symbol"},
    {"Sm", "Math_Symbol"},
    {"Sc", "Currency_Symbol"},
    {"Sk", "Modifier_Symbol"},
    {"So", "Other_Symbol"},
    {"Z", "Separator"},
    {"Zs", "Space_Separator"},
    {"Zl", "Line_Separator"},
    {"Zp", "Paragraph_Separator"},
    {"C", "Other"},
    {"Cc", "Control"},
    {"Cf", "Format"},
    {"Co", "Private_Use"},
    {"Cn", "Unassigned"},
};

// The runs of characters of one category, of all Unicode: some 3,000 of them.
struct CategoryRun {
  CodeRange range;
  std::array<char, 2> category;
};

const std::vector<CategoryRun>& CategoryRuns() {
  static const auto* const kRuns = [] {
    auto* runs = new std::vector<CategoryRun>();
    for (uint32_t code = 0; code <= kMaxCodePoint; ++code) {
      const char* name = utf8proc_category_string(static_cast<utf8proc_int32_t>(code));
      const std::array<char, 2> category = {name[0], name[1]};
      if (!runs->empty() && runs->back().category == category) {
        runs->back().range.last = code;
      } else {
        runs->push_back({{code, code}, category});
      }
    }
    return runs;
  }();
  return *kRuns;
}

}  // namespace

CodeSet DigitSet() { return MakeCodeSet({{'0', '9'}}); }

CodeSet WordSet() { return MakeCodeSet({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}); }

CodeSet SpaceSet() {
  return MakeCodeSet({{'\t', '\r'},
                      {' ', ' '},
                      {0xA0, 0xA0},
                      {0x1680, 0x1680},
                      {0x2000, 0x200A},
                      {0x2028, 0x2029},
                      {0x202F, 0x202F},
                      {0x205F, 0x205F},
                      {0x3000, 0x3000},
                      {0xFEFF, 0xFEFF}});
}

CodeSet DotSet() { return Complement(MakeCodeSet({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}})); }

std::optional<CodeSet> PropertySet(std::string_view name) {
  if (name == "Any") return AllCodePoints();
  if (name == "ASCII") return MakeCodeSet({{0, 0x7F}});
  for (const std::string_view prefix : {"General_Category=", "gc="})
    if (name.substr(0, prefix.size()) == prefix) name.remove_prefix(prefix.size());
  for (const CategoryName& category : kCategories) {
    if (name != category.short_name && name != category.long_name) continue;
    std::vector<CodeRange> ranges;
    for (const CategoryRun& run : CategoryRuns())
      if (run.category[0] == category.short_name[0] &&
          (category.short_name.size() == 1 || run.category[1] == category.short_name[1]))
        ranges.push_back(run.range);
    return MakeCodeSet(std::move(ranges));
  }
  return std::nullopt;
}

}  // namespace sluice
