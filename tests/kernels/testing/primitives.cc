#include "tests/kernels/testing/primitives.h"

#include <algorithm>

#include "kernels/check.h"
#include "tests/kernels/testing/tensors.h"

namespace sluice::testing {
namespace {

absl::Span<std::byte> BytesOfRow(HostMatrix& matrix, int64_t row) {
  return {reinterpret_cast<std::byte*>(&matrix.At(row, 0)), matrix.cols * sizeof(float)};
}

HostMatrix Read(Backend& backend, MatrixView x) {
  HostMatrix host(x.rows, x.cols);
  for (int64_t row = 0; row < x.rows; ++row) {
    SLUICE_CHECK(backend.CopyOut(x.Row(row), BytesOfRow(host, row)).ok());
  }
  return host;
}

void Write(Backend& backend, HostMatrix host, MatrixView x) {
  for (int64_t row = 0; row < x.rows; ++row) {
    backend.CopyIn(BytesOfRow(host, row), x.Row(row));
  }
  SLUICE_CHECK(backend.Synchronize().ok());
}

// Matrices of as many rows side by side.
HostMatrix SideBySide(absl::Span<const HostMatrix> parts) {
  int64_t cols = 0;
  for (const HostMatrix& part : parts) cols += part.cols;
  HostMatrix all(parts[0].rows, cols);
  for (int64_t row = 0; row < all.rows; ++row) {
    float* to = &all.At(row, 0);
    for (const HostMatrix& part : parts) {
      const float* const from = part.values.data() + row * part.cols;
      to = std::copy(from, from + part.cols, to);
    }
  }
  return all;
}

}  // namespace

void ApplyToQueries(Backend& backend, MatrixView x, QkNormRopeParams params,
                    absl::Span<const AttentionSegment> segments) {
  params.num_heads = static_cast<int>(x.cols / params.head_dim);
  params.num_kv_heads = 1;
  int32_t last_block = 0;
  for (const AttentionSegment& segment : segments) {
    for (const int32_t block : segment.block_table) last_block = std::max(last_block, block);
  }
  const auto pool = backend.NewKvPool({.num_layers = 1,
                                       .num_blocks = last_block + 1,
                                       .num_kv_heads = 1,
                                       .head_dim = params.head_dim});
  SLUICE_CHECK(pool.ok());
  const HostMatrix nothing(x.rows, params.head_dim);
  const DeviceMatrix qkv(backend, SideBySide({Read(backend, x), nothing, nothing}));
  backend.BeginStep(segments, x.rows);
  backend.ApplyQkNormRopeAndStoreKv(qkv.view(), params, 0, **pool);
  Write(backend, qkv.Read().Columns(0, x.cols), x);
}

void HeadRmsNorm(Backend& backend, MatrixView x, int head_dim, const float* weight, float eps) {
  ApplyToQueries(backend, x, {.head_dim = head_dim, .query_norm = weight, .norm_eps = eps});
}

void Rope(Backend& backend, MatrixView x, int head_dim, const RopeTables& tables, RopeLayout layout,
          absl::Span<const AttentionSegment> segments) {
  ApplyToQueries(backend, x, {.head_dim = head_dim, .rotations = &tables, .layout = layout},
                 segments);
}

void StoreKv(Backend& backend, MatrixView keys, MatrixView values, int layer, KvPool& pool) {
  const DeviceMatrix both(backend, SideBySide({Read(backend, keys), Read(backend, values)}));
  // Without queries, norms and rotations, heads are not looked at.
  const QkNormRopeParams params{.num_kv_heads = 1, .head_dim = static_cast<int>(keys.cols)};
  backend.ApplyQkNormRopeAndStoreKv(both.view(), params, layer, pool);
  SLUICE_CHECK(backend.Synchronize().ok());
}

void AddBias(Backend& backend, const float* bias, MatrixView x) {
  const DeviceMatrix partial(backend, Read(backend, x));
  const DeviceMatrix residual(backend, HostMatrix(x.rows, x.cols));
  const MatrixView partials[] = {partial.view()};
  backend.TreeAddToResidual(partials, {.residual = residual.view(), .bias = bias});
  Write(backend, residual.Read(), x);
}

}  // namespace sluice::testing
