#include "kernels/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using enum InstructionSet;

// The sets that fail, and what is said of them.
struct Choice {
  std::vector<InstructionSet> broken;
  std::vector<std::string> warnings;

  absl::StatusOr<InstructionSet> Of(const std::vector<InstructionSet>& sets) {
    return ChooseInstructions(
        sets,
        [&](InstructionSet set) {
          return std::find(broken.begin(), broken.end(), set) == broken.end()
                     ? absl::OkStatus()
                     : absl::InternalError("7 for 8");
        },
        [&](const std::string& reason) { warnings.push_back(reason); });
  }
};

TEST(ChooseInstructions, TakesTheFastestThatPasses) {
  Choice choice;
  EXPECT_EQ(choice.Of({kPortable, kAvx512Bf16, kAmxBf16}).value(), kAmxBf16);
  EXPECT_TRUE(choice.warnings.empty());
}

TEST(ChooseInstructions, FallsBackAndSaysSo) {
  Choice choice{.broken = {kAmxBf16}};
  EXPECT_EQ(choice.Of({kPortable, kAvx512Bf16, kAmxBf16}).value(), kAvx512Bf16);
  EXPECT_THAT(choice.warnings, ElementsAre(AllOf(HasSubstr("amx_bf16"), HasSubstr("7 for 8"))));
}

TEST(ChooseInstructions, RefusesAMachineThatPassesNothing) {
  Choice choice{.broken = {kPortable, kAvx512Bf16}};
  const auto chosen = choice.Of({kPortable, kAvx512Bf16});
  EXPECT_EQ(chosen.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(chosen.status().message()), HasSubstr("7 for 8"));
  EXPECT_EQ(choice.warnings.size(), 2u);
}

TEST(MakeBackend, HasWhatWasAskedForOnAMachineThatIsSound) {
  for (const InstructionSet set : SupportedInstructionSets()) {
    const auto backend = MakeBackend({.cpu = {.num_threads = 1, .instructions = set}},
                                     [](const std::string& reason) { ADD_FAILURE() << reason; });
    ASSERT_TRUE(backend.ok()) << backend.status();
    EXPECT_THAT(std::string((*backend)->name()), HasSubstr(std::string(Name(set))));
  }
}

}  // namespace
}  // namespace sluice
