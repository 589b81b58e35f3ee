#include "kernels/cpu/instruction_set.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(InstructionSet, AutoIsTheFastestThatIsSupported) {
  ASSERT_FALSE(SupportedInstructionSets().empty());
  EXPECT_EQ(SupportedInstructionSets().front(), InstructionSet::kPortable);
  EXPECT_EQ(*ParseInstructionSet("auto"), SupportedInstructionSets().back());
}

TEST(InstructionSet, EverySupportedOneIsKnownByItsName) {
  for (const InstructionSet set : SupportedInstructionSets()) {
    EXPECT_EQ(*ParseInstructionSet(std::string(Name(set))), set);
    EXPECT_TRUE(Supports(set));
  }
}

TEST(InstructionSet, AProcessorWithoutTheOneBeforeLacksTheNext) {
  EXPECT_TRUE(Supports(InstructionSet::kPortable));
  if (!Supports(InstructionSet::kAvx512Bf16)) {
    EXPECT_FALSE(Supports(InstructionSet::kAmxBf16));
  }
}

TEST(InstructionSet, AnotherNameIsRefusedWithThoseAccepted) {
  const absl::Status status = ParseInstructionSet("mmx").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("\"mmx\""));
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("accepted: auto, portable"));
}

}  // namespace
}  // namespace sluice
