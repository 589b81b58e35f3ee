#include "services/options/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Values {
  std::optional<std::string> text;
  std::optional<int32_t> count;
  std::optional<float> share;
  std::optional<uint64_t> seed;
  absl::Duration time = absl::ZeroDuration();
  bool loud = false;
  std::vector<std::string> items;
  std::optional<std::string> rest;
};

FlagSet MakeFlags(Values* values) {
  FlagSet flags("test", "[flags] [REST]", "Tests.");
  flags.Add("text", "TEXT", "Some text.", &values->text);
  flags.Add("count", "N", "A count.", &values->count);
  flags.Add("share", "P", "A share.", &values->share);
  flags.Add("seed", "S", "A seed.", &values->seed);
  flags.Add("time", "T", "A time.", &values->time);
  flags.AddSwitch("loud", "Loud.", &values->loud);
  flags.AddParsed("item", "X", "An item.", [values](const std::string& text) {
    values->items.push_back(text);
    return absl::OkStatus();
  });
  flags.AddPositional(&values->rest);
  return flags;
}

// The message that the arguments are refused with; empty where they are accepted.
std::string Refusal(const std::vector<std::string>& arguments) {
  Values values;
  return std::string(MakeFlags(&values).Parse(arguments).message());
}

TEST(FlagsTest, ReadsBothSpellingsAndKeepsTheLast) {
  Values values;
  FlagSet flags = MakeFlags(&values);
  ASSERT_TRUE(flags
                  .Parse({"--text", "a=b", "--count=-3", "--count", "4", "--share", "0.5", "--seed",
                          "18446744073709551615", "--time=1m30s", "words"})
                  .ok());
  EXPECT_EQ(values.text, "a=b");
  EXPECT_EQ(values.count, 4);
  EXPECT_EQ(values.share, 0.5f);
  EXPECT_EQ(values.seed, 18446744073709551615u);
  EXPECT_EQ(values.time, absl::Seconds(90));
  EXPECT_EQ(values.rest, "words");
  EXPECT_FALSE(values.loud);
}

TEST(FlagsTest, ReadsSwitches) {
  for (const auto& [argument, expected] :
       {std::pair("--loud", true), std::pair("--loud=true", true), std::pair("--noloud", false),
        std::pair("--loud=false", false)}) {
    Values values;
    values.loud = !expected;
    ASSERT_TRUE(MakeFlags(&values).Parse({argument}).ok()) << argument;
    EXPECT_EQ(values.loud, expected) << argument;
  }
}

TEST(FlagsTest, HandsOnEveryOccurrence) {
  Values values;
  ASSERT_TRUE(MakeFlags(&values).Parse({"--item", "a,b", "--item=", "--item", "--loud"}).ok());
  EXPECT_THAT(values.items, ElementsAre("a,b", "", "--loud"));
  EXPECT_FALSE(values.loud);
}

TEST(FlagsTest, TakesAnythingAfterTwoDashes) {
  Values values;
  ASSERT_TRUE(MakeFlags(&values).Parse({"--loud", "--", "--text"}).ok());
  EXPECT_EQ(values.rest, "--text");
}

TEST(FlagsTest, NamesTheUnknownAndWhatExists) {
  for (const std::string argument : {"--number", "--number=3", "--nonumber", "-c"}) {
    const std::string message = Refusal({argument, "3"});
    EXPECT_THAT(message, HasSubstr(argument.substr(0, argument.find('='))));
    EXPECT_THAT(message, HasSubstr("--text --count --share --seed --time --loud --item"));
  }
}

TEST(FlagsTest, NamesTheFlagThatWasMeant) {
  FlagSet flags("test", "", "Tests.");
  int32_t tokens = 0;
  bool loud = false;
  flags.Add("max_tokens", "N", "Counts.", &tokens);
  flags.AddSwitch("loud", "Shouts.", &loud);
  for (const std::string argument :
       {"--max-tokens", "--max_token", "--max_tokens_", "--mxa_tokens=3", "-max_tokens", "--lod"}) {
    const std::string message(flags.Parse(std::vector<std::string>{argument}).message());
    EXPECT_EQ(message,
              absl::StrCat("unknown flag ", argument.substr(0, argument.find('=')),
                           "; did you mean ", argument == "--lod" ? "--loud?" : "--max_tokens?"));
  }
  EXPECT_THAT(std::string(flags.Parse(std::vector<std::string>{"--maximum"}).message()),
              HasSubstr("test has --max_tokens --loud --help"));
}

TEST(FlagsTest, NamesTheOffendingValue) {
  EXPECT_THAT(Refusal({"--count", "4x"}), HasSubstr("--count: \"4x\" is not an integer from"));
  EXPECT_THAT(Refusal({"--count", "2147483648"}), HasSubstr("2147483647"));
  EXPECT_THAT(Refusal({"--count="}), HasSubstr("\"\" is not an integer"));
  EXPECT_THAT(Refusal({"--seed", "-1"}), HasSubstr("\"-1\" is not an integer from 0"));
  EXPECT_THAT(Refusal({"--share", "nan"}), HasSubstr("\"nan\" is not a finite number"));
  EXPECT_THAT(Refusal({"--share", "1e99"}), HasSubstr("\"1e99\" is not a finite number"));
  EXPECT_THAT(Refusal({"--time", "0"}), HasSubstr("\"0\" is not a positive duration"));
  EXPECT_THAT(Refusal({"--time", "inf"}), HasSubstr("\"inf\" is not a positive duration"));
  EXPECT_THAT(Refusal({"--loud=yes"}), HasSubstr("--loud: \"yes\" is not true or false"));
}

TEST(FlagsTest, RefusesAMissingValueAndASecondArgument) {
  EXPECT_THAT(Refusal({"--text"}), HasSubstr("--text needs a value: TEXT"));
  EXPECT_THAT(Refusal({"one", "two"}), HasSubstr("unexpected argument \"two\""));
}

TEST(FlagsTest, HelpShowsEveryFlagWithItsValueAndText) {
  Values values;
  FlagSet flags = MakeFlags(&values);
  ASSERT_TRUE(flags.Parse({"--help", "--nonsense"}).ok());
  EXPECT_TRUE(flags.help_requested());
  const std::string help = flags.Help(96);
  EXPECT_THAT(help, HasSubstr("Usage: sluice test [flags] [REST]\n\nTests.\n"));
  EXPECT_THAT(help, HasSubstr("  --count N               A count.\n"));
  EXPECT_THAT(help, HasSubstr("  --loud                  Loud.\n"));
}

TEST(FlagsTest, HelpBreaksLongLines) {
  Values values;
  FlagSet flags("test", "", std::string(40, 'a') + " " + std::string(60, 'b'));
  flags.Add("a_flag_with_a_long_name", "VALUE", std::string(60, 'c') + " " + std::string(20, 'd'),
            &values.text);
  EXPECT_THAT(flags.Help(96), HasSubstr(std::string(40, 'a') + "\n" + std::string(60, 'b') + "\n"));
  EXPECT_THAT(flags.Help(96), HasSubstr("VALUE\n" + std::string(26, ' ') + std::string(60, 'c') +
                                        "\n" + std::string(26, ' ') + std::string(20, 'd') + "\n"));
}

TEST(FlagsTest, HelpFitsANarrowTerminal) {
  Values values;
  FlagSet flags("test", "[flags] [REST]", "Tests what there is in a terminal of forty columns.");
  flags.Add("count", "N", "How many there are, of all that could be there.", &values.count);
  EXPECT_EQ(flags.Help(40),
            "Usage: sluice test [flags] [REST]\n\n"
            "Tests what there is in a terminal of\nforty columns.\n\n"
            "Flags:\n"
            "  --count N\n"
            "      How many there are, of all that\n"
            "      could be there.\n");
}

}  // namespace
}  // namespace sluice
