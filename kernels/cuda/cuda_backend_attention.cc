// Keys, values and attention of CudaBackend.
#include <algorithm>
#include <cstddef>

#include "kernels/check.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_plan.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_kv_pool.h"

namespace sluice::cuda {
namespace {

// Of a multiprocessor's shared memory that every block takes besides its own, which one block's limit leaves.
constexpr int64_t kReservedBytes = 1 << 10;

// Of partial results that a step's prefill may leave. One that would leave more takes the splits of a
// tile one after another.
constexpr int64_t kMostPrefillPartialBytes = int64_t{256} << 20;

// Packed rows of a prefill's tile, as many as the GPU has shared memory for.
int PrefillTileRows(const Gpu& gpu, const KvLayout& pool) {
  const int most = MostTileRows(pool.head_dim);
  const AttentionTask largest{.pool = pool, .tile_rows = most, .stages = 1};
  const auto limit = static_cast<int64_t>(gpu.properties().shared_bytes);
  return gpu.kernels().attention_shared_bytes(largest) <= limit ? most : kLeastTileRows;
}

// Settles what a task's blocks have in shared memory, and how many there are.
void Fit(const Gpu& gpu, AttentionTask& task) {
  const auto limit = static_cast<int64_t>(gpu.properties().shared_bytes);
  task.stages = 2;
  if (gpu.kernels().attention_shared_bytes(task) > limit) task.stages = 1;
  const int64_t at_a_time =
      (limit + kReservedBytes) / (gpu.kernels().attention_shared_bytes(task) + kReservedBytes);
  const int64_t by_registers = RegisterBlocks(task.pool.head_dim, task.tile_rows);
  task.num_blocks = static_cast<int>(gpu.properties().num_multiprocessors *
                                     std::clamp<int64_t>(at_a_time, 1, by_registers));
}

}  // namespace

void CudaBackend::ApplyQkNormRopeAndStoreKv(MatrixView qkv, const QkNormRopeParams& params,
                                            int layer, KvPool& pool) {
  const int64_t query_width = int64_t{params.num_heads} * params.head_dim;
  const int64_t kv_width = int64_t{params.num_kv_heads} * params.head_dim;
  SLUICE_CHECK(qkv.cols == query_width + 2 * kv_width);
  // services/model/device_check.h refuses models with these.
  SLUICE_CHECK(!params.norms_by_head && params.clip == 0);
  StoreKvTask task{.queries = qkv.Columns(0, query_width),
                   .keys = qkv.Columns(query_width, kv_width),
                   .values = qkv.Columns(query_width + kv_width, kv_width)};
  if (params.norms_centred) {
    CentreHeads(task.queries, params, params.query_norm, params.query_norm_bias);
    CentreHeads(task.keys, params, params.key_norm, params.key_norm_bias);
    task.turn = {};
  } else {
    task.turn = {
        .query_norm = params.query_norm, .key_norm = params.key_norm, .norm_eps = params.norm_eps};
  }
  if (params.rotations != nullptr) {
    step().host().CheckRope(task.queries, params.head_dim, *params.rotations);
    task.turn.cos = params.rotations->cos;
    task.turn.sin = params.rotations->sin;
    task.turn.angles_by_row = params.rotations->index == RopeTables::Index::kRow;
    task.turn.interleaved = params.layout == RopeLayout::kInterleaved;
  }
  Store(task, layer, pool);
}

void CudaBackend::CentreHeads(MatrixView x, const QkNormRopeParams& params, const float* weight,
                              const float* bias) {
  if (weight == nullptr) return;
  kernels().norm(stream(), {.x = x,
                            .out = x,
                            .width = params.head_dim,
                            .weight = weight,
                            .bias = bias,
                            .eps = params.norm_eps,
                            .centred = true});
}

void CudaBackend::Store(StoreKvTask task, int layer, const KvPool& pool) {
  const auto& ours = static_cast<const CudaKvPool&>(pool);
  const KvLayout& layout = ours.layout();
  SLUICE_CHECK(task.keys.rows <= step().num_rows());
  SLUICE_CHECK(task.keys.cols == int64_t{layout.num_kv_heads} * layout.head_dim);
  SLUICE_CHECK(0 <= layer && layer < layout.num_layers);
  ours.CheckSegments(step().host().segments());
  task.pool = layout;
  task.layer = layer;
  task.rows = step().rows();
  task.tables = step().tables();
  kernels().store_kv(stream(), task);
}

void CudaBackend::CopyBlocks(absl::Span<const KvBlockCopy> copies, KvPool& pool) {
  static_assert(sizeof(KvBlockCopy) == sizeof(BlockCopy));
  const KvLayout& layout = static_cast<const CudaKvPool&>(pool).layout();
  for (const KvBlockCopy& copy : copies) {
    SLUICE_CHECK(0 <= copy.source && copy.source < layout.num_blocks);
    SLUICE_CHECK(0 <= copy.destination && copy.destination < layout.num_blocks);
  }
  for (const absl::Span<const KvBlockCopy> part : IndependentCopies(copies)) {
    const void* const on_device =
        Sent({reinterpret_cast<const std::byte*>(part.data()), part.size() * sizeof(KvBlockCopy)});
    if (on_device == nullptr) return;
    kernels().copy_blocks(stream(), {.pool = layout,
                                     .copies = static_cast<const BlockCopy*>(on_device),
                                     .count = static_cast<int64_t>(part.size())});
  }
}

void CudaBackend::PagedAttention(MatrixView q, const KvPool& pool, int layer,
                                 const AttentionOptions& options, MatrixView out) {
  const auto& ours = static_cast<const CudaKvPool&>(pool);
  const KvLayout& layout = ours.layout();
  const int num_heads = static_cast<int>(q.cols / layout.head_dim);
  SLUICE_CHECK(options.window >= 0 && num_heads % layout.num_kv_heads == 0);
  SLUICE_CHECK(options.sinks == nullptr && options.chunk == 0);  // refused as above
  SLUICE_CHECK(0 <= layer && layer < layout.num_layers && q.rows <= step().num_rows());
  ours.CheckSegments(step().host().segments());
  const AttentionShape shape{.group = num_heads / layout.num_kv_heads,
                             .window = options.window,
                             .num_kv_heads = layout.num_kv_heads,
                             .tile_rows = PrefillTileRows(gpu(), layout)};
  AttentionTask task{.q = q,
                     .out = out,
                     .pool = layout,
                     .layer = layer,
                     .group = shape.group,
                     .scale = options.scale,
                     .window = options.window,
                     .softcap = options.softcap,
                     .tables = step().tables(),
                     .tile_rows = shape.decode_tile_rows};
  Fit(gpu(), task);
  AttentionTask prefill = task;
  prefill.tile_rows = shape.tile_rows;
  Fit(gpu(), prefill);
  const int64_t partial_floats = PartialFloats(layout.head_dim);
  const AttentionRoom room{
      .decode_blocks = task.num_blocks,
      .prefill_blocks = prefill.num_blocks,
      .most_prefill_partials =
          kMostPrefillPartialBytes / (partial_floats * static_cast<int64_t>(sizeof(float)))};
  bool moved = false;
  const auto plan = step().PlanFor(shape, room, partial_floats, moved);
  if (!Note(plan.status())) return;
  if (moved) recorder().Forget();
  Attend(task, prefill, **plan);
}

void CudaBackend::Attend(AttentionTask decode, AttentionTask prefill,
                         const DeviceAttentionPlan& plan) {
  decode.partials = prefill.partials = plan.partials.as<float>();
  decode.tiles = plan.decode();
  decode.num_tiles = plan.num_decode();
  if ((plan.parts & plan.kDecode) != 0) kernels().attention(stream(), decode);
  prefill.tiles = plan.prefill();
  prefill.num_tiles = plan.num_prefill();
  if ((plan.parts & plan.kPrefill) != 0) kernels().attention(stream(), prefill);
  if ((plan.parts & plan.kMerges) == 0) return;
  kernels().merge_splits(stream(), {.out = decode.out,
                                    .num_kv_heads = decode.pool.num_kv_heads,
                                    .group = decode.group,
                                    .head_dim = decode.pool.head_dim,
                                    .tiles = plan.merges(),
                                    .num_tiles = plan.num_merges(),
                                    .partials = decode.partials,
                                    .num_blocks = decode.num_blocks});
}

}  // namespace sluice::cuda
