#include "kernels/device/illegal_instruction.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

void RunIllegalInstruction() {
#if defined(__x86_64__)
  asm volatile("ud2");
#elif defined(__aarch64__)
  asm volatile(".inst 0");
#endif
}

TEST(CatchIllegalInstruction, ReturnsWhatRanReturns) {
  EXPECT_TRUE(CatchIllegalInstruction([] { return absl::OkStatus(); }).ok());
  EXPECT_EQ(CatchIllegalInstruction([] { return absl::AbortedError("x"); }),
            absl::AbortedError("x"));
}

TEST(CatchIllegalInstruction, SurvivesOneAgainAndAgain) {
  for (int i = 0; i < 3; ++i) {
    bool came_past = false;
    const absl::Status status = CatchIllegalInstruction([&] {
      RunIllegalInstruction();
      came_past = true;
      return absl::OkStatus();
    });
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
    EXPECT_FALSE(came_past);
  }
}

TEST(CatchIllegalInstruction, CatchesNoneAfterwards) {
  ASSERT_TRUE(CatchIllegalInstruction([] { return absl::OkStatus(); }).ok());
  EXPECT_DEATH(RunIllegalInstruction(), "");
}

}  // namespace
}  // namespace sluice
