#include "kernels/self_check.h"

#include <gmock/gmock.h>

#include <memory>
#include <string>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/reference/forwarding_backend.h"
#include "tests/kernels/testing/backend_cases.h"

namespace sluice::testing {
namespace {

using ::testing::HasSubstr;

using SelfCheckTest = BackendTest;
SLUICE_FOR_ALL_PRODUCTS(SelfCheckTest);

TEST_P(SelfCheckTest, PassesWhereTheTestsOfTheContractDo) {
  const absl::Status status = SelfCheck(backend());
  EXPECT_TRUE(status.ok()) << status;
}

TEST_P(SelfCheckTest, BatchesOfAllSizesHaveTheSameBits) {
  const absl::Status status = CheckBatchSizes(backend(), 160);
  EXPECT_TRUE(status.ok()) << status;
}

// A backend whose products come out one part in a hundred too large, from `rows` rows on.
class WrongProducts final : public ForwardingBackend {
 public:
  explicit WrongProducts(int64_t rows)
      : ForwardingBackend(MakeCpuBackend({.num_threads = 1})), rows_(rows) {}

  void Gemm(MatrixView x, const PackedMatrix& weights, MatrixView out,
            const GemmEpilogue& epilogue) override {
    ForwardingBackend::Gemm(x, weights, out, epilogue);
    if (x.rows >= rows_) Scale(1.01f, out.Rows(out.rows - 1, 1));
  }

 private:
  const int64_t rows_;
};

TEST(SelfCheckFaults, FindsWrongProductsOfOneRowAndOfMany) {
  for (const int64_t rows : {1, 2, 17}) {
    WrongProducts backend(rows);
    const absl::Status status = SelfCheck(backend);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << rows;
    EXPECT_THAT(std::string(status.message()), HasSubstr("a product of "));
  }
}

TEST(SelfCheckFaults, FindsBitsThatDependOnTheBatch) {
  WrongProducts backend(64);
  EXPECT_THAT(std::string(CheckBatchSizes(backend, 160).message()),
              HasSubstr("a product of 64 rows"));
}

// As if a split were merged without those before it.
class ForgetfulAttention final : public ForwardingBackend {
 public:
  ForgetfulAttention() : ForwardingBackend(MakeCpuBackend({.num_threads = 1})) {}

  void PagedAttention(MatrixView q, const KvPool& pool, int layer, const AttentionOptions& options,
                      MatrixView out) override {
    AttentionOptions newest = options;
    newest.window = 18;
    ForwardingBackend::PagedAttention(q, pool, layer, newest, out);
  }
};

TEST(SelfCheckFaults, FindsAttentionThatLeavesOutASplit) {
  ForgetfulAttention backend;
  EXPECT_THAT(std::string(SelfCheck(backend).message()), HasSubstr("attention over F32"));
}

}  // namespace
}  // namespace sluice::testing
