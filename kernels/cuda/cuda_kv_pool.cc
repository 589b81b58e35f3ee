#include "kernels/cuda/cuda_kv_pool.h"

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "kernels/cuda/attention.h"

namespace sluice::cuda {

absl::StatusOr<std::unique_ptr<KvPool>> CudaKvPool::Create(const KvPoolSpec& spec, Gpu& gpu) {
  if (spec.is_latent()) return absl::UnimplementedError("GPUs have no pools of latents");
  if (spec.head_dim > kMostHeadDim) {
    return absl::InvalidArgumentError(
        absl::StrCat("head_dim is ", spec.head_dim, "; accepted on GPUs: 1 to ", kMostHeadDim));
  }
  KvLayout layout{.num_layers = spec.num_layers,
                  .num_blocks = spec.num_blocks,
                  .block_size = spec.block_size,
                  .num_kv_heads = spec.num_kv_heads,
                  .head_dim = spec.head_dim,
                  .dtype = spec.dtype};
  SLUICE_CHECK(IsKvType(spec.dtype));
  const AttentionTask least{.pool = layout, .tile_rows = kLeastTileRows, .stages = 1};
  const int64_t shared = gpu.kernels().attention_shared_bytes(least);
  if (shared > static_cast<int64_t>(gpu.properties().shared_bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("heads of ", spec.head_dim, " with ", std::string(Name(spec.dtype)),
                     " keys and values take ", shared, " bytes of shared memory; this GPU has ",
                     gpu.properties().shared_bytes));
  }
  const double bytes = double(spec.num_layers) * double(spec.num_blocks) *
                       double(layout.BlockVectors()) * 2 *
                       double(KvVectorBytes(spec.dtype, spec.head_dim));
  if (bytes > double(size_t{1} << 46)) {
    return absl::ResourceExhaustedError(absl::StrCat("keys and values of ", bytes, " bytes"));
  }
  layout.Place();
  auto memory = DeviceMemory::Allocate(static_cast<size_t>(layout.Bytes()), gpu);
  if (!memory.ok()) return memory.status();
  auto flag = DeviceMemory::AllocateZeroed(sizeof(int), gpu);
  if (!flag.ok()) return flag.status();
  layout.data = (*memory)->as<std::byte>();
  layout.has_nonfinite = (*flag)->as<int>();
  return std::unique_ptr<KvPool>(new CudaKvPool(layout, *std::move(memory), *std::move(flag)));
}

void CudaKvPool::CheckSegments(absl::Span<const AttentionSegment> segments) const {
  for (const AttentionSegment& segment : segments) {
    const int64_t end = segment.first_position + segment.num_rows;
    SLUICE_CHECK(end <= static_cast<int64_t>(segment.block_table.size()) * layout_.block_size);
    for (const int32_t block : segment.block_table) {
      SLUICE_CHECK(0 <= block && block < layout_.num_blocks);
    }
  }
}

std::vector<absl::Span<const KvBlockCopy>> IndependentCopies(absl::Span<const KvBlockCopy> copies) {
  std::vector<absl::Span<const KvBlockCopy>> parts;
  absl::flat_hash_set<int32_t> read, written;
  size_t begin = 0;
  for (size_t i = 0; i < copies.size(); ++i) {
    const auto [source, destination] = copies[i];
    if (written.contains(source) || written.contains(destination) || read.contains(destination)) {
      parts.push_back(copies.subspan(begin, i - begin));
      begin = i;
      read.clear();
      written.clear();
    }
    read.insert(source);
    written.insert(destination);
  }
  if (begin < copies.size()) parts.push_back(copies.subspan(begin));
  return parts;
}

}  // namespace sluice::cuda
