#include "kernels/device/self_check.h"

#include <gmock/gmock.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/observed/forwarding_backend.h"
#include "tests/kernels/testing/backend_cases.h"

namespace sluice::testing {
namespace {

using ::testing::HasSubstr;

constexpr BatchSizes kFewInputs{.rows = 160, .outputs = 256, .inputs_per_slice = 64};

using SelfCheckTest = BackendTest;
SLUICE_FOR_ALL_PRODUCTS(SelfCheckTest);

TEST_P(SelfCheckTest, PassesWhereTheTestsOfTheContractDo) {
  const absl::Status status = SelfCheck(backend());
  EXPECT_TRUE(status.ok()) << status;
}

TEST_P(SelfCheckTest, BatchesOfAllSizesHaveTheSameBits) {
  const absl::Status status = CheckBatchSizes(backend(), kFewInputs);
  EXPECT_TRUE(status.ok()) << status;
}

// A backend whose products come out one part in a hundred too large, from `rows` rows on: in the last
// row, or in row `row`; with all weights, or those of the format `wrong`.
class WrongProducts final : public ForwardingBackend {
 public:
  explicit WrongProducts(int64_t rows, std::optional<int64_t> row = {},
                         std::optional<MatrixFormat> wrong = {})
      : ForwardingBackend(MakeCpuBackend({.num_threads = 1})),
        rows_(rows),
        row_(row),
        wrong_(wrong) {}

  absl::StatusOr<std::unique_ptr<PackedMatrix>> Pack(const PackSpec& spec,
                                                     const RowReader& read) override {
    is_wrong_ = !wrong_.has_value() || spec.format == wrong_;
    return ForwardingBackend::Pack(spec, read);
  }

  void Gemm(MatrixView x, const PackedMatrix& weights, MatrixView out,
            const GemmEpilogue& epilogue) override {
    ForwardingBackend::Gemm(x, weights, out, epilogue);
    if (is_wrong_ && x.rows >= rows_) Scale(1.01f, out.Rows(row_.value_or(out.rows - 1), 1));
  }

 private:
  const int64_t rows_;
  const std::optional<int64_t> row_;
  const std::optional<MatrixFormat> wrong_;
  bool is_wrong_ = false;  // with the weights packed last
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
  EXPECT_THAT(std::string(CheckBatchSizes(backend, kFewInputs).message()),
              HasSubstr("a product of 64 rows"));
}

// What the second block of a cluster fetches, and the last tile of rows.
TEST(SelfCheckFaults, FindsOtherBitsInEveryHalfOfATileOfRows) {
  constexpr BatchSizes kSizes{.rows = 500, .outputs = 20, .inputs_per_slice = 64};
  for (const int64_t begin : {64, 384, 448}) {
    WrongProducts backend(kSizes.rows, begin + 40);
    EXPECT_THAT(std::string(CheckBatchSizes(backend, kSizes).message()),
                HasSubstr(absl::StrCat("rows from ", begin, " on")));
  }
}

TEST(SelfCheckFaults, FindsOtherBitsInEveryFormat) {
  for (const WeightFormat format :
       {WeightFormat::kBF16, WeightFormat::kFp8, WeightFormat::kInt8, WeightFormat::kInt4}) {
    WrongProducts backend(kFewInputs.rows, 3, format);
    EXPECT_THAT(std::string(CheckBatchSizes(backend, kFewInputs).message()),
                HasSubstr(absl::StrCat(std::string(Name(format)), " weights")));
  }
  WrongProducts fp8(kFewInputs.rows, 3, MatrixFormat(WeightFormat::kFp8, ActivationFormat::kFp8));
  EXPECT_THAT(std::string(CheckBatchSizes(fp8, kFewInputs).message()),
              HasSubstr("FP8 weights and inputs"));
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
