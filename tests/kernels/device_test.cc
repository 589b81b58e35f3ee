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

TEST(ParseDevice, KnowsWhatThisBuildHas) {
  EXPECT_EQ(ParseDevice("cpu").value(), DeviceKind::kCpu);
  EXPECT_EQ(ParseDevice(std::string(Name(DeviceKind::kCpu))).value(), DeviceKind::kCpu);
}

TEST(ParseDevice, RefusesGpusByName) {
  for (const std::string name : {"cuda", "cuda:0", "cuda:12"}) {
    const absl::Status status = ParseDevice(name).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(name + " needs a build with CUDA"));
  }
}

TEST(ParseDevice, RefusesWhatIsNoDevice) {
  for (const char* name : {"", "gpu", "CPU", "cpu:0", "cuda:", "cuda:x", "cuda:-1", "cuda0"}) {
    const absl::Status status = ParseDevice(name).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("accepted: cpu")) << name;
  }
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
