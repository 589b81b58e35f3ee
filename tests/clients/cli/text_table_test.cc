#include "clients/cli/text_table.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TextTable Fruit() {
  TextTable table({{.name = "NAME", .importance = 0, .cut_to = 8},
                   {.name = "KIND", .importance = 2, .cut_to = 6},
                   {.name = "N", .min_width = 3, .importance = 1}});
  table.AddRow({"apple", "pome", "7"});
  table.AddRow({"pomegranate", "berry", "1234"});
  return table;
}

TEST(TextTableTest, CutsNothingWhereTheWidthIsUnlimited) {
  EXPECT_EQ(Fruit().Text(0),
            "NAME         KIND      N\n"
            "apple        pome      7\n"
            "pomegranate  berry  1234\n");
}

TEST(TextTableTest, CutsTextOnATerminal) {
  EXPECT_EQ(Fruit().Text(40),
            "NAME      KIND      N\n"
            "apple     pome      7\n"
            "pomegr..  berry  1234\n");
}

TEST(TextTableTest, LeavesOutWhatMattersLeast) {
  EXPECT_EQ(Fruit().Text(20),
            "NAME         N\n"
            "apple        7\n"
            "pomegr..  1234\n"
            "1 more columns need 21 characters\n");
  EXPECT_EQ(Fruit().Text(1),
            "NAME    \n"
            "apple   \n"
            "pomegr..\n"
            "2 more columns need 21 characters\n");
}

TEST(TextTableTest, CountsCharactersInsteadOfBytes) {
  TextTable table({{.name = "NAME", .importance = 0, .cut_to = 4}, {.name = "N", .importance = 1}});
  table.AddRow({"\xC3\xA9t\xC3\xA9", "1"});
  table.AddRow({"\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9", "2"});
  EXPECT_EQ(table.Text(80),
            "NAME  N\n"
            "\xC3\xA9t\xC3\xA9   1\n"
            "\xC3\xA9\xC3\xA9..  2\n");
}

}  // namespace
}  // namespace sluice
