#include "kernels/gpu/gpu_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

GpuFacts H200() {
  return {.name = "NVIDIA H200",
          .compute_major = 9,
          .compute_minor = 0,
          .num_multiprocessors = 132,
          .total_bytes = uint64_t{143771} << 20};
}

DriverFacts Sound() {
  return {.driver_version = 13000, .runtime_version = 13000, .gpus = {H200(), H200()}};
}

void ExpectRefused(const DriverFacts& facts, int index, absl::StatusCode code,
                   const ::testing::Matcher<std::string>& words) {
  const absl::Status status = CheckGpu(facts, index);
  EXPECT_EQ(status.code(), code);
  EXPECT_THAT(std::string(status.message()), words);
}

TEST(CheckGpu, TakesAnyGpuThatIsThere) {
  EXPECT_TRUE(CheckGpu(Sound(), 0).ok());
  EXPECT_TRUE(CheckGpu(Sound(), 1).ok());
}

TEST(CheckGpu, TakesADriverThatIsNewer) {
  DriverFacts facts = Sound();
  facts.driver_version = 14020;
  EXPECT_TRUE(CheckGpu(facts, 0).ok());
}

TEST(CheckGpu, TakesAnOlderDriverOfTheSameMajorVersion) {
  DriverFacts facts = Sound();
  facts.runtime_version = 13020;
  EXPECT_TRUE(CheckGpu(facts, 0).ok());
}

TEST(CheckGpu, SaysThatThereIsNoDriver) {
  ExpectRefused(
      {.runtime_version = 13000, .failure = "cudaErrorInsufficientDriver"}, 0,
      absl::StatusCode::kUnavailable,
      AllOf(HasSubstr("no GPU"), HasSubstr("driver is not installed"), HasSubstr("--device cpu")));
}

TEST(CheckGpu, SaysThatTheDriverIsTooOld) {
  DriverFacts facts = Sound();
  facts.driver_version = 12080;
  ExpectRefused(facts, 0, absl::StatusCode::kFailedPrecondition,
                AllOf(HasSubstr("up to 12.8"), HasSubstr("built with CUDA 13.0")));
}

TEST(CheckGpu, SaysThatADriverFindsNone) {
  ExpectRefused({.driver_version = 13000,
                 .runtime_version = 13000,
                 .failure = "cudaErrorNoDevice: no CUDA-capable device is detected",
                 .visible_devices = "7"},
                0, absl::StatusCode::kNotFound,
                AllOf(HasSubstr("no GPU"), HasSubstr("CUDA_VISIBLE_DEVICES is 7"),
                      HasSubstr("no CUDA-capable device"), HasSubstr("--device cpu")));
}

TEST(CheckGpu, NamesTheGpusThatThereAre) {
  ExpectRefused(
      Sound(), 2, absl::StatusCode::kNotFound,
      AllOf(HasSubstr("no cuda:2"), HasSubstr("2 GPUs"), HasSubstr("accepted: cuda:0 to cuda:1")));
  DriverFacts one = Sound();
  one.gpus.pop_back();
  ExpectRefused(one, 1, absl::StatusCode::kNotFound,
                AllOf(HasSubstr("1 GPU;"), HasSubstr("accepted: cuda:0")));
}

TEST(CheckGpu, SaysThatAGpuIsTooOld) {
  DriverFacts facts = Sound();
  facts.gpus[1].name = "Tesla T4";
  facts.gpus[1].compute_major = 7;
  facts.gpus[1].compute_minor = 5;
  EXPECT_TRUE(CheckGpu(facts, 0).ok());
  ExpectRefused(facts, 1, absl::StatusCode::kFailedPrecondition,
                AllOf(HasSubstr("cuda:1, Tesla T4 (compute capability 7.5"), HasSubstr("8.0")));
}

TEST(CheckGpu, SaysWhyAGpuRefuses) {
  DriverFacts facts = Sound();
  facts.gpus[0].refusal = "cudaErrorDevicesUnavailable: CUDA-capable device(s) is/are busy";
  ExpectRefused(facts, 0, absl::StatusCode::kUnavailable,
                AllOf(HasSubstr("cuda:0, NVIDIA H200"), HasSubstr("busy")));
}

TEST(GpuText, IsWhatNvidiaSmiShows) {
  EXPECT_EQ(GpuText(H200()),
            "NVIDIA H200 (compute capability 9.0, 140.4 GiB, 132 multiprocessors)");
  GpuUuid uuid;
  for (int i = 0; i < 16; ++i) uuid[i] = static_cast<std::byte>(0x10 * (i % 4) + i);
  EXPECT_EQ(UuidText(uuid), "GPU-00112233-0415-2637-0819-2a3b0c1d2e3f");
}

}  // namespace
}  // namespace sluice
