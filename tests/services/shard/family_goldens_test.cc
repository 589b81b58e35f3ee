// A small model of every family, without services, against the logits that come with the project
// (tests/golden/families): what oracle_test.cc shows of many more models needs the oracle itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/testing/test_backend.h"
#include "tests/services/shard/local_pipeline.h"
#include "tests/services/shard/oracle_models.h"
#include "tests/testing/test_data.h"

namespace sluice::testing {
namespace {

// The files have BF16 weights, which F32 holds exactly. A backend that rounds what it multiplies is
// off by a few percent of the logits' standard deviation, 2 (oracle_test.cc).
double LargestError() { return TestsRoundOperands() ? 0.5 : 1e-4; }

std::vector<std::string> Families() {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(ProjectPath("tests/golden/families"))) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

double LargestDifference(const std::vector<float>& logits, const std::vector<double>& exact) {
  if (logits.size() != exact.size()) return HUGE_VAL;
  double largest = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    const double error = std::abs(logits[i] - exact[i]);
    if (!(error <= largest)) largest = error;  // a NaN shows
  }
  return largest;
}

class FamilyGoldens : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    golden_ = ReadOracleModel(ProjectPath("tests/golden/families/" + GetParam()));
    ASSERT_FALSE(golden_.logits.empty());
    auto pipeline = LocalPipeline::Load(golden_.folder, {.weights = WeightType::kF32});
    if (TestsRoundOperands() && absl::IsUnimplemented(pipeline.status())) {
      GTEST_SKIP() << pipeline.status();  // GPUs refuse some
    }
    ASSERT_TRUE(pipeline.ok()) << pipeline.status();
    pipeline_ = *std::move(pipeline);
  }

  OracleModel golden_;
  std::unique_ptr<LocalPipeline> pipeline_;
};

TEST_P(FamilyGoldens, APromptInChunksAgrees) {
  const auto logits = pipeline_->Logits(golden_.ids, {5, 512});
  ASSERT_TRUE(logits.ok()) << logits.status();
  EXPECT_LE(LargestDifference(*logits, golden_.logits), LargestError());
}

TEST_P(FamilyGoldens, TokenByTokenAgrees) {
  const auto logits = pipeline_->Generate(golden_.ids);
  ASSERT_TRUE(logits.ok()) << logits.status();
  EXPECT_LE(LargestDifference(*logits, golden_.logits), LargestError());
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyGoldens, ::testing::ValuesIn(Families()),
                         [](const auto& family) {
                           std::string name = family.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace sluice::testing
