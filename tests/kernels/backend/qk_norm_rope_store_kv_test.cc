// What is done between a product and attention in one operation, against its parts.
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "tests/kernels/testing/backend_cases.h"
#include "tests/kernels/testing/paged_sequence.h"
#include "tests/kernels/testing/primitives.h"
#include "tests/kernels/testing/tensors.h"

namespace sluice::testing {
namespace {

using QkNormRopeStoreKvTest = BackendTest;
SLUICE_FOR_ALL_BACKENDS(QkNormRopeStoreKvTest);

struct Case {
  int num_heads = 4, num_kv_heads = 2, head_dim = 16;
  int64_t pairs = 8;  // 0: no rotation
  bool query_norm = false, key_norm = false;
  bool centred = false, by_head = false;  // those norms
  RopeLayout layout = RopeLayout::kHalfSplit;
  RopeTables::Index index = RopeTables::Index::kPosition;
  DType dtype = DType::kF32;

  int64_t width() const { return int64_t{num_heads + 2 * num_kv_heads} * head_dim; }
};

// Two sequences of a step, with a row of none before, between and behind them.
struct Step {
  static constexpr int64_t kRows = 9;
  std::vector<int32_t> first = {2, 0}, second = {1};
  std::vector<AttentionSegment> segments = {
      {.first_row = 1, .num_rows = 4, .first_position = 0, .block_table = first},
      {.first_row = 6, .num_rows = 2, .first_position = 0, .block_table = second}};
};

struct Inputs {
  Inputs(Random& random, const Case& c)
      : qkv(RandomMatrix(random, Step::kRows, c.width())),
        query_norm(RandomMatrix(random, c.by_head ? c.num_heads : 1, c.head_dim)),
        key_norm(RandomMatrix(random, c.by_head ? c.num_kv_heads : 1, c.head_dim)),
        bias(RandomMatrix(random, 1, c.head_dim)),
        cos(RandomMatrix(random, 12, c.pairs, 3)),
        sin(cos) {
    for (float& value : cos.values) value = std::cos(value);
    for (float& value : sin.values) value = std::sin(value);
  }
  HostMatrix qkv, query_norm, key_norm, bias, cos, sin;
};

struct Outcome {
  HostMatrix queries;
  HostMatrix attended;  // by other queries: what was stored
};

// Norm and rotation of some heads, one after the other.
void ApplyByParts(Backend& backend, MatrixView heads, const QkNormRopeParams& params,
                  const float* norm, absl::Span<const AttentionSegment> segments) {
  if (norm != nullptr) HeadRmsNorm(backend, heads, params.head_dim, norm, params.norm_eps);
  if (params.rotations != nullptr) {
    Rope(backend, heads, params.head_dim, *params.rotations, params.layout, segments);
  }
}

// With `fused` as one operation, else by its parts.
Outcome ApplyAndSee(Backend& backend, const Case& c, const Inputs& inputs, bool fused) {
  const Step step;
  const auto pool = NewKvPool(backend, {.num_layers = 2,
                                        .num_blocks = 3,
                                        .block_size = 3,
                                        .num_kv_heads = c.num_kv_heads,
                                        .head_dim = c.head_dim,
                                        .dtype = c.dtype});
  DeviceMatrix qkv(backend, inputs.qkv, 2), out(backend, Step::kRows, c.num_heads * c.head_dim);
  DeviceMatrix query_norm(backend, inputs.query_norm), key_norm(backend, inputs.key_norm);
  DeviceMatrix asked(backend, inputs.qkv), bias(backend, inputs.bias);
  const bool has_bias = c.centred && !c.by_head;
  std::optional<DeviceMatrix> cos, sin;
  RopeTables tables;
  if (c.pairs > 0)
    tables = {cos.emplace(backend, inputs.cos).view(), sin.emplace(backend, inputs.sin).view(),
              c.index};
  const QkNormRopeParams params{.num_heads = c.num_heads,
                                .num_kv_heads = c.num_kv_heads,
                                .head_dim = c.head_dim,
                                .query_norm = c.query_norm ? query_norm.view().Row(0) : nullptr,
                                .key_norm = c.key_norm ? key_norm.view().Row(0) : nullptr,
                                .query_norm_bias = has_bias ? bias.data() : nullptr,
                                .key_norm_bias = has_bias ? bias.data() : nullptr,
                                .norms_centred = c.centred,
                                .norms_by_head = c.by_head,
                                .norm_eps = 1e-5f,
                                .rotations = c.pairs > 0 ? &tables : nullptr,
                                .layout = c.layout};
  const MatrixView queries = qkv.view().Columns(0, int64_t{c.num_heads} * c.head_dim);
  backend.BeginStep(step.segments, Step::kRows);
  if (fused) {
    backend.ApplyQkNormRopeAndStoreKv(qkv.view(), params, 1, *pool);
  } else {
    const int64_t kv_width = int64_t{c.num_kv_heads} * c.head_dim;
    const MatrixView keys = qkv.view().Columns(queries.cols, kv_width);
    const MatrixView values = qkv.view().Columns(queries.cols + kv_width, kv_width);
    ApplyByParts(backend, queries, params, params.query_norm, step.segments);
    ApplyByParts(backend, keys, params, params.key_norm, step.segments);
    backend.BeginStep(step.segments, Step::kRows);
    StoreKv(backend, keys, values, 1, *pool);
  }
  // Rows of no segment are left as they are.
  EXPECT_TRUE(backend.Synchronize().ok());
  backend.PagedAttention(asked.view().Columns(0, queries.cols), *pool, 1, {}, out.view());
  HostMatrix all = qkv.Read(), of_queries(Step::kRows, queries.cols);
  for (int64_t row = 0; row < Step::kRows; ++row) {
    for (int64_t col = 0; col < queries.cols; ++col) of_queries.At(row, col) = all.At(row, col);
  }
  const HostMatrix attended = out.Read();
  HostMatrix seen(6, attended.cols);
  for (int64_t i = 0; i < 6; ++i) {
    const int64_t row = i < 4 ? 1 + i : 2 + i;
    for (int64_t col = 0; col < seen.cols; ++col) seen.At(i, col) = attended.At(row, col);
  }
  return {of_queries, seen};
}

TEST_P(QkNormRopeStoreKvTest, HasTheBitsOfItsParts) {
  Random random(1);
  for (int i = 0; i < 48; ++i) {
    Case c{.num_kv_heads = static_cast<int>(RandomInt(random, 1, 3)),
           .head_dim = static_cast<int>(RandomInt(random, 2, i % 6 == 0 ? 256 : 80)),
           .query_norm = i % 3 == 0,
           .key_norm = i % 4 == 0,
           .layout = i % 2 == 0 ? RopeLayout::kHalfSplit : RopeLayout::kInterleaved,
           .index = i % 5 == 0 ? RopeTables::Index::kRow : RopeTables::Index::kPosition,
           .dtype = i % 7 < 3   ? DType::kBF16
                    : i % 7 < 5 ? DType::kF8E4M3
                                : DType::kF32};
    c.num_heads = c.num_kv_heads * static_cast<int>(RandomInt(random, 1, 4));
    c.pairs = RandomInt(random, 0, c.head_dim / 2);
    const Inputs inputs(random, c);
    const Outcome fused = ApplyAndSee(backend(), c, inputs, true);
    const Outcome parts = ApplyAndSee(backend(), c, inputs, false);
    EXPECT_TRUE(SameBits(fused.queries, parts.queries)) << "case " << i;
    EXPECT_TRUE(SameBits(fused.attended, parts.attended)) << "case " << i;
  }
}

TEST_P(QkNormRopeStoreKvTest, AgreesWithReference) {
  Random random(2);
  for (int i = 0; i < 8; ++i) {
    const Case c{.head_dim = 64,
                 .pairs = i % 2 == 0 ? 32 : 20,
                 .query_norm = i % 4 < 2,
                 .key_norm = i % 4 < 2,
                 .layout = i < 4 ? RopeLayout::kHalfSplit : RopeLayout::kInterleaved};
    const Inputs inputs(random, c);
    const Outcome ours = ApplyAndSee(backend(), c, inputs, true);
    const Outcome expected = ApplyAndSee(reference(), c, inputs, true);
    EXPECT_TRUE(IsNear(ours.queries, expected.queries, 1e-5)) << "case " << i;
    EXPECT_TRUE(IsNear(ours.attended, expected.attended, 2 * AttentionTolerance())) << "case " << i;
  }
}

TEST_P(QkNormRopeStoreKvTest, NormsOfOtherKindsAgreeWithReference) {
  Random random(3);
  for (int i = 0; i < 8; ++i) {
    const Case c{.head_dim = i % 2 == 0 ? 64 : 33,
                 .pairs = 16,
                 .query_norm = true,
                 .key_norm = i % 3 != 0,
                 .centred = i % 4 != 3,
                 .by_head = i % 4 >= 2};
    if (c.by_head && (GetParam().is_gpu || GetParam().is_device)) continue;  // not on GPUs
    const Inputs inputs(random, c);
    const Outcome ours = ApplyAndSee(backend(), c, inputs, true);
    const Outcome expected = ApplyAndSee(reference(), c, inputs, true);
    EXPECT_TRUE(IsNear(ours.queries, expected.queries, 2e-5)) << "case " << i;
    EXPECT_TRUE(IsNear(ours.attended, expected.attended, 2 * AttentionTolerance())) << "case " << i;
  }
}

}  // namespace
}  // namespace sluice::testing
