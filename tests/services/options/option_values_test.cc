#include "services/options/option_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "services/options/flags.h"
#include "services/options/options_reference.h"
#include "tests/testing/test_data.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(testing::ProjectPath(path)).rdbuf();
  return text.str();
}

// What the option refuses a text with; empty: it accepts it.
std::string Refusal(Programs program, const char* name, const char* text) {
  return std::string(OptionValues(program).Set(name, text).message());
}

TEST(OptionTableTest, NoProgramHasTwoOptionsOfOneName) {
  std::map<std::string, Programs> seen;
  for (const Option& option : kOptions) {
    EXPECT_EQ(seen[option.name] & option.programs, 0) << option.name;
    seen[option.name] = static_cast<Programs>(seen[option.name] | option.programs);
  }
}

// OptionName looks at the name and the type alone.
TEST(OptionTableTest, OptionsOfOneNameAreOfOneTypeButForListsOfOne) {
  std::map<std::string, OptionKind> kinds;
  for (const Option& option : kOptions) {
    const auto [seen, first] = kinds.emplace(option.name, option.kind);
    if (option.name == std::string("health_listen")) continue;
    EXPECT_EQ(seen->second, option.kind) << option.name;
  }
}

TEST(OptionTableTest, EveryOptionAcceptsItsDefault) {
  for (const Option& option : kOptions) {
    EXPECT_NE(option.programs, 0) << option.name;
    EXPECT_EQ(*option.value == '\0', option.kind == OptionKind::kSwitch) << option.name;
    for (unsigned bits = option.programs; bits != 0; bits &= bits - 1) {
      OptionValues values(static_cast<Programs>(1u << std::countr_zero(bits)));
      if (*option.initial == '\0') continue;
      EXPECT_TRUE(values.Set(option.name, option.initial).ok()) << option.name;
      EXPECT_EQ(values.Arguments().at(1), option.initial) << option.name;
    }
  }
}

// What every program has had, and with which default: users have it in their scripts.
TEST(OptionTableTest, KeepsNamesAndDefaults) {
  const std::map<std::string, Programs> programs = {{"tokenizer", kTokenizer},
                                                    {"embedding", kEmbedding},
                                                    {"shard", kShard},
                                                    {"sampler", kSampler},
                                                    {"gateway", kPlainGateway},
                                                    {"up", kUp},
                                                    {"orchestrator", kOrchestrator},
                                                    {"run", kRun},
                                                    {"plan", kPlan},
                                                    {"simulate", kSimulate}};
  int num_flags = 0;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(
           Contents("tests/services/options/golden_flags.txt"), '\n', absl::SkipEmpty()))) {
    // A flag, its default, and the programs that have it.
    std::vector<std::string> words = absl::StrSplit(line, ' ');
    const std::string name = words[0], initial = words[1] == "-" ? "" : words[1];
    for (size_t i = 2; i < words.size(); ++i, ++num_flags) {
      const Option* option = FindOption(programs.at(words[i]), name);
      ASSERT_NE(option, nullptr) << words[i] << " --" << name;
      EXPECT_EQ(option->initial, initial) << words[i] << " --" << name;
    }
  }
  EXPECT_EQ(num_flags, 255);
}

TEST(OptionValuesTest, ReadsValuesAndHasDefaults) {
  OptionValues values(kOrchestrator);
  EXPECT_EQ(values.Get<int>("max_step_tokens"), 512);
  EXPECT_EQ(values.Get<std::string>("draft"), "ngram");
  EXPECT_EQ(values.Get<absl::Duration>("hang_timeout"), absl::Seconds(2));
  EXPECT_EQ(values.Get<bool>("insecure_public"), false);
  EXPECT_THAT(values.Get<std::vector<std::string>>("health_listen"), IsEmpty());
  EXPECT_FALSE(values.IsAnyGiven());
  EXPECT_TRUE(values.Set("max_step_tokens", " 7").ok());
  EXPECT_TRUE(values.Set("hang_timeout", "1.5").ok());
  EXPECT_TRUE(values.Set("insecure_public", "yes").ok());
  EXPECT_TRUE(values.Set("health_listen", "a:1,b:2").ok());
  EXPECT_EQ(values.Get<int>("max_step_tokens"), 7);
  EXPECT_EQ(values.Get<absl::Duration>("hang_timeout"), absl::Milliseconds(1500));
  EXPECT_EQ(values.Get<bool>("insecure_public"), true);
  EXPECT_THAT(values.Get<std::vector<std::string>>("health_listen"), ElementsAre("a:1", "b:2"));
  EXPECT_TRUE(values.IsGiven("hang_timeout"));
  values.Reset("hang_timeout");
  EXPECT_EQ(values.Get<absl::Duration>("hang_timeout"), absl::Seconds(2));
}

TEST(OptionValuesTest, ReadsDurationsWithAndWithoutUnits) {
  OptionValues values(kShard);
  EXPECT_EQ(values.Get<absl::Duration>("step_timeout"), absl::InfiniteDuration());
  for (const auto& [text, duration] :
       {std::pair("30", absl::Seconds(30)), std::pair("1m30s", absl::Seconds(90)),
        std::pair("0", absl::ZeroDuration()), std::pair("inf", absl::InfiniteDuration())}) {
    EXPECT_TRUE(values.Set("step_timeout", text).ok()) << text;
    EXPECT_EQ(values.Get<absl::Duration>("step_timeout"), duration) << text;
  }
}

TEST(OptionValuesTest, NamesTheOptionItsValueAndWhatIsAccepted) {
  EXPECT_EQ(Refusal(kPlainGateway, "threads", "20000"), "--threads is 20000; accepted: 1 to 64");
  EXPECT_EQ(Refusal(kOrchestrator, "max_step_tokens", "0"),
            "--max_step_tokens is 0; accepted: 1 or more");
  EXPECT_EQ(Refusal(kUp, "max_step_tokens", "many"),
            "--max_step_tokens is many; accepted: 1 or more");
  EXPECT_EQ(Refusal(kUp, "port", ""), "--port is \"\"; accepted: 0 to 65535");
  EXPECT_EQ(Refusal(kUp, "kv_cache_mib", "0"), "--kv_cache_mib is 0; accepted: 1 to 1073741824");
  EXPECT_EQ(Refusal(kShard, "kv_dtype", "int8"),
            "--kv_dtype is \"int8\"; accepted: f32, bf16, fp8");
  EXPECT_EQ(Refusal(kSampler, "hang_timeout", "0s"), "--hang_timeout is 0s; accepted: more than 0");
  EXPECT_EQ(Refusal(kPlainGateway, "idle_timeout", "25h"),
            "--idle_timeout is 25h; accepted: above 0, up to 24h");
  EXPECT_EQ(Refusal(kUp, "otlp_sample_ratio", "nan"),
            "--otlp_sample_ratio is nan; accepted: 0 to 1");
  EXPECT_EQ(Refusal(kUp, "demo", "maybe"), "--demo is maybe; accepted: true, false");
  EXPECT_EQ(Refusal(kUp, "kv_dtype", "fp8"), "");
}

TEST(OptionValuesTest, KeepsWhatItHadWhereATextIsRefused) {
  OptionValues values(kUp);
  EXPECT_TRUE(values.Set("tp", "2").ok());
  EXPECT_FALSE(values.Set("tp", "0").ok());
  EXPECT_EQ(values.Get<int>("tp"), 2);
}

TEST(OptionValuesTest, HandsOnWhatAChildHasAndThePlannerDoesNotSet) {
  OptionValues up(kUp);
  for (const auto& [name, text] :
       {std::pair("kv_dtype", "bf16"), std::pair("hang_timeout", "1.5"), std::pair("tp", "2"),
        std::pair("threads", "3"), std::pair("max_step_tokens", "64"), std::pair("port", "1"),
        std::pair("insecure_public", "true"), std::pair("kv_cache_mib", "9")}) {
    EXPECT_TRUE(up.Set(name, text).ok()) << name;
  }
  EXPECT_THAT(up.ForChild(kTokenizer).Arguments(), ElementsAre("--hang_timeout", "1.5s"));
  EXPECT_THAT(
      up.ForChild(kShard).Arguments(),
      ElementsAre("--kv_dtype", "bf16", "--max_step_tokens", "64", "--hang_timeout", "1.5s"));
  EXPECT_THAT(
      up.ForChild(kOrchestrator).Arguments(),
      ElementsAre("--insecure_public=true", "--max_step_tokens", "64", "--hang_timeout", "1.5s"));
}

TEST(OptionsReferenceTest, IsWhatTheDocumentSays) {
  EXPECT_THAT(Contents("docs/options.md"), HasSubstr("\n\n" + OptionsReference()))
      << "docs/options.md is to hold these tables:\n"
      << OptionsReference();
}

// The chart's values are refused where the flag would be: see values.schema.json and values.yaml.
TEST(ChartTest, HasTheTypesOfTheTable) {
  const std::string schema = Contents("deploy/helm/sluice/values.schema.json");
  std::set<std::string> paths;
  for (const Option& option : kOptions) {
    if (*option.chart == '\0' || !paths.insert(option.chart).second) continue;
    const std::vector<std::string> path = absl::StrSplit(option.chart, '.');
    size_t at = 0;
    for (const std::string& key : path) {
      at = schema.find(absl::StrCat("\"", key, "\": {"), at);
      ASSERT_NE(at, std::string::npos) << option.chart;
    }
    const std::string entry = absl::StrCat("\"", path.back(), "\": ", ChartSchema(option));
    EXPECT_EQ(schema.substr(at, entry.size()), entry) << "of " << option.chart;
  }
  EXPECT_EQ(paths.size(), 9u);
}

}  // namespace
}  // namespace sluice
