#include "kernels/device/make_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/gpu/gpu_check.h"
#include "kernels/gpu/gpu_devices.h"
#include "tests/kernels/testing/test_backend.h"

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

TEST(MakeBackend, RefusesMoreThreadsThanAnyMachineHasCores) {
  for (const int threads : {-1, kMostThreads + 1, 20000}) {
    const absl::Status status =
        MakeBackend({.cpu = {.num_threads = threads}}, [](const std::string&) {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("accepted: 1 to 1024"));
  }
}

TEST(ChooseProducts, FallsBackToWhatEveryGpuHasAndSaysWhy) {
  std::vector<std::string> warnings;
  const auto choose = [&](GpuProducts last_that_works) {
    return ChooseProducts(
        ProductsOf({.compute_major = 9}),
        [&](GpuProducts products) {
          return products <= last_that_works ? absl::OkStatus() : absl::InternalError("other bits");
        },
        [&](const std::string& reason) { warnings.push_back(reason); });
  };
  EXPECT_EQ(choose(GpuProducts::kFp8).value(), GpuProducts::kFp8);
  EXPECT_TRUE(warnings.empty());
  EXPECT_EQ(choose(GpuProducts::kPipelined).value(), GpuProducts::kPipelined);
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("by wgmma_fp8 fail their self-check: other bits")));
  warnings.clear();
  EXPECT_EQ(choose(GpuProducts::kPortable).value(), GpuProducts::kPortable);
  EXPECT_THAT(warnings,
              ElementsAre(HasSubstr("by wgmma_fp8 fail"), HasSubstr("by wgmma_pipeline fail"),
                          HasSubstr("by wgmma fail their self-check: other bits")));
}

TEST(ProductsOf, OnlyComputeCapability90HasItsOwn) {
  EXPECT_EQ(ProductsOf({.compute_major = 8}).back(), GpuProducts::kPortable);
  EXPECT_EQ(ProductsOf({.compute_major = 10}).back(), GpuProducts::kPortable);
  EXPECT_THAT(ProductsOf({.compute_major = 9}),
              ElementsAre(GpuProducts::kPortable, GpuProducts::kHopper, GpuProducts::kPipelined,
                          GpuProducts::kFp8));
}

TEST(MakeBackend, RefusesInstructionsThatTheDeviceDoesNotHave) {
  const absl::Status status =
      MakeBackend({.gpu_products = GpuProducts::kHopper}, [](const std::string&) {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr(
          "wgmma multiplies on GPUs alone, and cpu was to compute; it goes with --device cuda"));
}

TEST(ProductsUpTo, LeavesOutWhatIsFaster) {
  const GpuFacts hopper = {.compute_major = 9};
  EXPECT_EQ(ProductsUpTo(hopper, std::nullopt).value(), ProductsOf(hopper));
  EXPECT_THAT(ProductsUpTo(hopper, GpuProducts::kHopper).value(),
              ElementsAre(GpuProducts::kPortable, GpuProducts::kHopper));
  EXPECT_THAT(ProductsUpTo(hopper, GpuProducts::kPortable).value(),
              ElementsAre(GpuProducts::kPortable));
}

TEST(ProductsUpTo, NamesWhatAGpuHas) {
  const absl::Status status =
      ProductsUpTo({.name = "NVIDIA A100", .compute_major = 8}, GpuProducts::kHopper).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              ::testing::AllOf(HasSubstr("NVIDIA A100"), HasSubstr("has no wgmma; accepted: mma")));
}

TEST(ParseGpuProducts, ReadsWhatNameWrites) {
  EXPECT_EQ(ParseGpuProducts("auto").value(), std::nullopt);
  for (const GpuProducts products : ProductsOf({.compute_major = 9})) {
    EXPECT_EQ(ParseGpuProducts(Name(products)).value(), products);
  }
  EXPECT_THAT(
      std::string(ParseGpuProducts("mmx").status().message()),
      HasSubstr("\"mmx\" is no instruction of GPUs; accepted: auto, mma, wgmma, wgmma_pipeline, "
                "wgmma_fp8"));
}

std::optional<GpuProducts> TestGpuProductsFor(const char* text) {
  setenv("SLUICE_TEST_GPU_INSTRUCTIONS", text, 1);
  return testing::TestGpuProducts();
}

// In a process of its own, whose environment is its own.
TEST(TestGpuProductsDeathTest, AreThoseOfTheEnvironment) {
  EXPECT_EXIT(std::exit(TestGpuProductsFor("wgmma") == GpuProducts::kHopper ? 0 : 1),
              ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(std::exit(TestGpuProductsFor("auto") == std::nullopt ? 0 : 1),
              ::testing::ExitedWithCode(0), "");
  EXPECT_DEATH(
      TestGpuProductsFor("mmx"),
      "SLUICE_TEST_GPU_INSTRUCTIONS: .*accepted: auto, mma, wgmma, wgmma_pipeline, wgmma_fp8");
}

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
  EXPECT_EQ(ParseDevice("cpu").value(), DeviceId{});
  EXPECT_EQ(Name(DeviceId{}), "cpu");
  EXPECT_EQ(Name({.kind = DeviceKind::kCuda}), "cuda");
  EXPECT_EQ(Name({.kind = DeviceKind::kCuda, .index = 12}), "cuda:12");
}

TEST(ParseDevice, TakesGpusByNameOrSaysThatTheBuildHasNone) {
  for (const std::string name : {"cuda", "cuda:0", "cuda:12"}) {
    const absl::StatusOr<DeviceId> device = ParseDevice(name);
    if (BuiltForGpus()) {
      ASSERT_TRUE(device.ok()) << device.status();
      EXPECT_EQ(Name(*device), name);
      continue;
    }
    const absl::Status status = device.status();
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

TEST(DeviceOfProcess, TakesTurnsWhereAnyGpuWillDo) {
  const DeviceId any{.kind = DeviceKind::kCuda}, second{.kind = DeviceKind::kCuda, .index = 1};
  EXPECT_EQ(Name(DeviceOfProcess(any, 0, 4)), "cuda:0");
  EXPECT_EQ(Name(DeviceOfProcess(any, 5, 4)), "cuda:1");
  EXPECT_EQ(DeviceOfProcess(any, 5, 0), any);
  EXPECT_EQ(DeviceOfProcess(second, 5, 4), second);
  EXPECT_EQ(DeviceOfProcess({}, 5, 4), DeviceId{});
}

TEST(DeviceOfProcess, KnowsHowManyShareADevice) {
  const DeviceId any{.kind = DeviceKind::kCuda}, second{.kind = DeviceKind::kCuda, .index = 1};
  EXPECT_EQ(ProcessesOnDevice(any, 4, 4), 1);
  EXPECT_EQ(ProcessesOnDevice(any, 5, 4), 2);
  EXPECT_EQ(ProcessesOnDevice(any, 5, 0), 5);
  EXPECT_EQ(ProcessesOnDevice(second, 5, 4), 5);
}

// Of a machine with a GPU it says that there is no fourteenth.
TEST(MakeBackend, SaysWhyAGpuCannotBeHad) {
  if (!BuiltForGpus()) GTEST_SKIP() << "a build without CUDA";
  const auto backend = MakeBackend({.device = {.kind = DeviceKind::kCuda, .index = 13}},
                                   [](const std::string& reason) { ADD_FAILURE() << reason; });
  ASSERT_FALSE(backend.ok());
  EXPECT_THAT(std::string(backend.status().message()),
              ::testing::AnyOf(HasSubstr("no GPU"), HasSubstr("no cuda:13"), HasSubstr("too old")));
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
