// How many kernels are launched for what every step does: each costs a lone stream time in every
// layer, or at every token.
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/sampling.h"
#include "tests/gpu/host/host_gpu.h"

namespace sluice::cuda {
namespace {

class LaunchesTest : public ::testing::Test {
 protected:
  static constexpr int kHeadDim = 16, kHeads = 4, kKvHeads = 2;
  static constexpr int64_t kQkvWidth = (kHeads + 2 * kKvHeads) * kHeadDim;

  LaunchesTest() {
    auto backend = CudaBackend::Create(MakeHostGpu());
    backend_ = *std::move(backend);
  }

  // Of `operation`, once it is done.
  template <class Operation>
  int64_t Launches(Operation operation) {
    const int64_t before = NumLaunches(backend_->gpu());
    operation();
    EXPECT_TRUE(backend_->Synchronize().ok());
    return NumLaunches(backend_->gpu()) - before;
  }

  MatrixView Zeroes(int64_t rows, int64_t cols) {
    memory_.push_back(*backend_->Allocate(rows * cols * sizeof(float)));
    return {memory_.back()->data(), DType::kF32, rows, cols, cols};
  }

  // A sequence's newest position at `context` of them.
  void BeginDecode(int64_t context, const std::vector<int32_t>& table) {
    const AttentionSegment segment{
        .num_rows = 1, .first_position = context - 1, .block_table = table};
    backend_->BeginStep({&segment, 1}, 1);
  }

  std::unique_ptr<CudaBackend> backend_;
  std::vector<std::unique_ptr<Buffer>> memory_;
};

TEST_F(LaunchesTest, TokensAreChosenAndTheirLogProbabilitiesToldInTwoOrThree) {
  const MatrixView logits = Zeroes(3, 5000);
  const SamplingOptions greedy{.temperature = 0}, all{.temperature = 0.8f};
  const SamplingOptions filtered{.top_k = 50, .top_p = 0.9f, .min_p = 0.01f};
  const std::vector<SampleRow> rows = {{.options = &greedy, .wants_logprob = true},
                                       {.options = &all, .wants_logprob = true},
                                       {.options = &filtered, .num_top = 5, .wants_logprob = true}};
  std::vector<SampledRow> results(rows.size());
  const auto launches_of = [&](const std::vector<SampleRow>& some) {
    return Launches([&] {
      EXPECT_TRUE(backend_
                      ->Sample(logits.Rows(0, static_cast<int64_t>(some.size())), some,
                               absl::MakeSpan(results).first(some.size()))
                      .ok());
    });
  };
  EXPECT_EQ(launches_of({rows[0], rows[2]}), 2);
  EXPECT_EQ(launches_of(rows), 3);  // one draws among all tokens
  EXPECT_EQ(Launches([&] { backend_->LogSoftmax(logits, logits); }), 2);
}

TEST_F(LaunchesTest, NormsRotationAndKeysAndValuesTakeOne) {
  const auto pool = *backend_->NewKvPool(
      {.num_layers = 1, .num_blocks = 2, .num_kv_heads = kKvHeads, .head_dim = kHeadDim});
  const std::vector<int32_t> table = {1};
  BeginDecode(1, table);
  const RopeTables angles{Zeroes(16, kHeadDim / 2), Zeroes(16, kHeadDim / 2)};
  const MatrixView norm = Zeroes(1, kHeadDim);
  const QkNormRopeParams turn{.num_heads = kHeads,
                              .num_kv_heads = kKvHeads,
                              .head_dim = kHeadDim,
                              .query_norm = norm.Row(0),
                              .key_norm = norm.Row(0),
                              .norm_eps = 1e-5f,
                              .rotations = &angles};
  const MatrixView qkv = Zeroes(1, kQkvWidth);
  EXPECT_EQ(Launches([&] { backend_->ApplyQkNormRopeAndStoreKv(qkv, turn, 0, *pool); }), 1);
}

// What a rank does behind a product: for each layer twice.
TEST_F(LaunchesTest, ASumOverRanksWithBiasResidualAndNormTakesOne) {
  const MatrixView residual = Zeroes(1, 64), weights = Zeroes(1, 64);
  const ResidualUpdate update{.residual = residual,
                              .bias = weights.Row(0),
                              .norm = RowNorm{.weight = weights.Row(0), .eps = 1e-5f},
                              .normed = Zeroes(1, 64)};
  const std::vector<MatrixView> partials = {Zeroes(1, 64), Zeroes(1, 64), Zeroes(1, 64),
                                            Zeroes(1, 64)};
  EXPECT_EQ(Launches([&] { backend_->TreeAddToResidual(partials, update); }), 1);
}

TEST_F(LaunchesTest, DecodeAttentionTakesOneAndBeyondASplitAMerge) {
  const auto pool = *backend_->NewKvPool(
      {.num_layers = 1, .num_blocks = 40, .num_kv_heads = kKvHeads, .head_dim = kHeadDim});
  std::vector<int32_t> table(40);
  std::iota(table.begin(), table.end(), 0);
  const MatrixView q = Zeroes(1, kHeads * kHeadDim), out = Zeroes(1, kHeads * kHeadDim);
  const auto attend = [&] { backend_->PagedAttention(q, *pool, 0, {}, out); };
  BeginDecode(kGpuAttentionSplit, table);
  EXPECT_EQ(Launches(attend), 1);
  BeginDecode(kGpuAttentionSplit + 1, table);
  EXPECT_EQ(Launches(attend), 2);
}

}  // namespace
}  // namespace sluice::cuda
