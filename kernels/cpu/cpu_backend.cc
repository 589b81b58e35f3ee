#include "kernels/cpu/cpu_backend.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "kernels/cpu/adapter.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/context.h"
#include "kernels/cpu/cpu_experts.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/fused.h"
#include "kernels/cpu/gather.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/kv_pool.h"
#include "kernels/cpu/layer_ops.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/norm.h"
#include "kernels/cpu/numa.h"
#include "kernels/cpu/open_attention.h"
#include "kernels/cpu/packed_matrix.h"
#include "kernels/cpu/recurrent.h"
#include "kernels/cpu/sample.h"
#include "kernels/cpu/softmax.h"
#include "kernels/cpu/top_k.h"
#include "kernels/cross_attention_ops.h"
#include "kernels/host_rank_group.h"
#include "kernels/latent_ops.h"

namespace sluice {
namespace {

// Raised whenever an operation gives other bits than before, so that processes built before and
// after do not pass for the same. tests/kernels/backend/bits.txt records the bits of each version.
constexpr int kBitsVersion = 5;

NumaLayout LayoutOf(int num_threads, const std::vector<int>& cpus) {
  if (cpus.empty()) return NumaLayout::OfRoamingWorkers(num_threads, NodesOfThisProcess());
  std::vector<int> nodes;
  nodes.reserve(cpus.size());
  for (const int cpu : cpus) nodes.push_back(NodeOfCpu(cpu));
  return NumaLayout::OfPinnedWorkers(num_threads, nodes);
}

class CpuBackend final : public Backend,
                         private OpenAttentionOps,
                         private CrossAttentionOps,
                         private LatentOps {
 public:
  explicit CpuBackend(const CpuBackendOptions& options)
      : context_(options.num_threads,
                 options.instructions.value_or(SupportedInstructionSets().back()), options.cpus),
        layout_(LayoutOf(context_.pool.num_threads(), options.cpus)),
        arenas_(layout_.num_shares()) {}

  std::string_view name() const override { return name_; }
  DType operand_dtype() const override { return DType::kF32; }

  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t size_bytes) override {
    absl::StatusOr<HostMemory> memory = HostMemory::Allocate(size_bytes);
    if (!memory.ok()) return memory.status();
    return std::make_unique<HostBuffer>(*std::move(memory));
  }

  void CopyIn(absl::Span<const std::byte> host, void* device) override {
    std::copy(host.begin(), host.end(), static_cast<std::byte*>(device));
  }

  absl::Status CopyOut(const void* device, absl::Span<std::byte> host) override {
    std::copy_n(static_cast<const std::byte*>(device), host.size(), host.begin());
    return absl::OkStatus();
  }

  absl::Status Synchronize(Deadline) override { return absl::OkStatus(); }

  absl::StatusOr<std::unique_ptr<PackedMatrix>> Pack(const PackSpec& spec,
                                                     const RowReader& read) override {
    return CpuPackedMatrix::Pack(spec, context_.instructions, read, layout_,
                                 absl::MakeSpan(arenas_), context_.pool);
  }

  absl::StatusOr<std::unique_ptr<KvPool>> NewKvPool(const KvPoolSpec& spec) override {
    absl::StatusOr<std::unique_ptr<KvPool>> pool = CpuKvPool::Create(spec);
    if (!pool.ok()) return pool.status();
    const std::byte* const blocks = static_cast<const CpuKvPool&>(**pool).Block(0, 0);
    PlaceOnNodes(blocks, (*pool)->size_bytes(), layout_.Nodes());
    return pool;
  }

  void ReserveForGemm(const PackedMatrix& weights, int64_t max_rows) override {
    sluice::ReserveGemm(context_, static_cast<const CpuPackedMatrix&>(weights), max_rows);
  }

  void ReserveForAttention(const KvPool& pool, int64_t max_rows) override {
    sluice::ReserveAttention(context_, static_cast<const CpuKvPool&>(pool), max_rows);
  }

  absl::StatusOr<std::unique_ptr<RankGroup>> NewRankGroup(const RankGroupSpec& spec) override {
    return HostRankGroup::Create(spec, *this);
  }

  LatentOps* latents() override { return this; }
  ExpertOps* experts() override { return &experts_; }
  RecurrentOps* recurrence() override { return &recurrence_; }
  AdapterOps* adapters() override { return &adapters_; }
  OpenAttentionOps* open_attention() override { return this; }
  CrossAttentionOps* cross_attention() override { return this; }

  void BeginStep(absl::Span<const AttentionSegment> segments, int64_t rows) override {
    context_.step.Begin(segments, rows);
  }

  void GatherRows(MatrixView table, absl::Span<const int32_t> rows, MatrixView out) override {
    sluice::GatherRows(context_, table, rows, out);
  }

  absl::Status GatherElements(MatrixView x, absl::Span<const MatrixElement> elements,
                              absl::Span<float> values) override {
    sluice::GatherElements(x, elements, values);
    return absl::OkStatus();
  }

  void RmsNorm(MatrixView x, const float* weight, float eps, MatrixView out) override {
    sluice::RmsNorm(context_, x, weight, eps, out);
  }

  void LayerNorm(MatrixView x, const float* weight, const float* bias, float eps,
                 MatrixView out) override {
    sluice::LayerNorm(context_, x, weight, bias, eps, out);
  }

  void Gemm(MatrixView x, const PackedMatrix& weights, MatrixView out,
            const GemmEpilogue& epilogue) override {
    sluice::Gemm(context_, x, static_cast<const CpuPackedMatrix&>(weights), out, epilogue);
  }

  void ApplyQkNormRopeAndStoreKv(MatrixView qkv, const QkNormRopeParams& params, int layer,
                                 KvPool& pool) override {
    sluice::ApplyQkNormRopeAndStoreKv(context_, qkv, params, layer, static_cast<CpuKvPool&>(pool));
  }

  void CopyBlocks(absl::Span<const KvBlockCopy> copies, KvPool& pool) override {
    sluice::CopyBlocks(context_, copies, static_cast<CpuKvPool&>(pool));
  }

  void PagedAttention(MatrixView q, const KvPool& pool, int layer, const AttentionOptions& options,
                      MatrixView out) override {
    sluice::PagedAttention(context_, q, static_cast<const CpuKvPool&>(pool), layer, options, out);
  }

  void Scale(float factor, MatrixView x) override { sluice::Scale(context_, factor, x); }

  void ScaleRows(const float* factors, MatrixView x) override {
    sluice::ScaleRows(context_, factors, x);
  }

  void SoftCap(float cap, MatrixView x) override { sluice::SoftCap(context_, cap, x); }

  void SumSquares(MatrixView x, int num_slices, MatrixView out) override {
    sluice::SumSquares(context_, x, num_slices, out);
  }

  void RmsNormOfPart(MatrixView x, MatrixView squares, int64_t count, const float* weight,
                     float eps) override {
    sluice::RmsNormOfPart(context_, x, squares, count, weight, eps);
  }

  void AddResidual(MatrixView x, MatrixView residual) override {
    sluice::AddResidual(context_, x, residual);
  }

  void TreeAdd(absl::Span<const MatrixView> partials, MatrixView out) override {
    sluice::TreeAdd(context_, partials, out);
  }

  void TreeAddToResidual(absl::Span<const MatrixView> partials,
                         const ResidualUpdate& update) override {
    sluice::TreeAddToResidual(context_, partials, update);
  }

  void LogSoftmax(MatrixView x, MatrixView out) override { sluice::LogSoftmax(context_, x, out); }

  absl::Status TopK(MatrixView x, int k, absl::Span<float> values,
                    absl::Span<int32_t> ids) override {
    sluice::TopK(context_, x, k, values, ids);
    return absl::OkStatus();
  }

  absl::Status Sample(MatrixView logits, absl::Span<const SampleRow> rows,
                      absl::Span<SampledRow> results) override {
    sluice::Sample(context_, logits, rows, results);
    return absl::OkStatus();
  }

 private:
  void OpenAttention(MatrixView q, const KvPool& pool, int layer, const AttentionOptions& options,
                     int64_t ahead, MatrixView out) override {
    sluice::OpenAttention(context_, q, static_cast<const CpuKvPool&>(pool), layer, options, ahead,
                          out);
  }

  void BiasedAttention(MatrixView q, const KvPool& pool, int layer, const AttentionOptions& options,
                       const DistanceBias& bias, int64_t ahead, MatrixView out) override {
    sluice::BiasedAttention(context_, q, static_cast<const CpuKvPool&>(pool), layer, options, bias,
                            ahead, out);
  }

  void CrossAttention(MatrixView q, const KvPool& pool, int layer, const AttentionOptions& options,
                      absl::Span<const SourceSegment> segments, MatrixView out) override {
    sluice::CrossAttention(context_, q, static_cast<const CpuKvPool&>(pool), layer, options,
                           segments, out);
  }

  void GemmOfHeads(const HeadColumns& x, absl::Span<const PackedMatrix* const> weights,
                   const HeadColumns& out) override {
    sluice::GemmOfHeads(context_, x, weights, out);
  }

  void ReserveForGemmOfHeads(absl::Span<const PackedMatrix* const> weights,
                             int64_t max_rows) override {
    sluice::ReserveGemmOfHeads(context_, weights, max_rows);
  }

  void PrepareLatentAttention(MatrixView q, MatrixView kv, const LatentParams& params, int layer,
                              KvPool& pool, MatrixView queries) override {
    sluice::PrepareLatentAttention(context_, q, kv, params, layer, static_cast<CpuKvPool&>(pool),
                                   queries);
  }

  CpuContext context_;
  CpuExperts experts_{context_};
  CpuAdapters adapters_{context_, experts_};
  const std::string name_ =
      absl::StrCat("cpu/", std::string(Name(context_.instructions)),
                   HasFusedMultiplyAdd() ? "" : "_unfused", " v", kBitsVersion);
  const NumaLayout layout_;
  CpuRecurrence recurrence_{context_, layout_};
  std::vector<HostArena> arenas_;  // of packed matrices; one for each share of the layout
};

}  // namespace

std::unique_ptr<Backend> MakeCpuBackend(const CpuBackendOptions& options) {
  SLUICE_CHECK(options.num_threads >= 0);
  return std::make_unique<CpuBackend>(options);
}

}  // namespace sluice
