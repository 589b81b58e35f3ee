#include "kernels/cpu/gemm.h"

#include <algorithm>
#include <cstddef>

#include "kernels/check.h"
#include "kernels/cpu/gemm_activations.h"
#include "kernels/cpu/gemm_epilogue.h"
#include "kernels/cpu/gemm_task.h"
#include "kernels/cpu/shared_runs.h"

namespace sluice {
namespace {

// The panels of each of several matrices in parts, so that all threads have some.
struct PanelParts {
  PanelParts(int64_t num_panels, int64_t num_units, int num_threads)
      : panels(num_panels),
        count(std::clamp<int64_t>(kPartsPerThread * num_threads / num_units, 1, num_panels)) {}

  int64_t Begin(int64_t part) const { return part * panels / count; }

  static constexpr int64_t kPartsPerThread = 4;
  int64_t panels;
  int64_t count;
};

// The operands of products that each have columns of their own of one matrix, with weights like
// `like`: what differs between them is where they lie.
class HeadOperands {
 public:
  HeadOperands(CpuContext& context, const HeadColumns& x, const CpuPackedMatrix& like,
               int64_t num_heads)
      : x_(x),
        like_(like),
        head_bytes_(BytesOfActivations(like, x.all.rows)),
        memory_(context.operand.Bytes(0, num_heads * head_bytes_)),
        first_(PrepareActivations(context, x.Of(0, like.num_inputs()), like, memory_)) {}

  void Prepare(CpuContext& context, int64_t head) const {
    if (head == 0) return;  // by the constructor
    PrepareActivations(context, x_.Of(head, like_.num_inputs()), like_, MemoryOf(head));
  }

  GemmActivations Of(int64_t head) const {
    GemmActivations activations = first_;
    activations.x = head_bytes_ > 0 ? MemoryOf(head) : x_.Of(head, like_.num_inputs()).data;
    return activations;
  }

 private:
  std::byte* MemoryOf(int64_t head) const { return memory_ + head * head_bytes_; }

  const HeadColumns& x_;
  const CpuPackedMatrix& like_;
  const size_t head_bytes_;  // 0 where they are multiplied as they are
  std::byte* const memory_;
  const GemmActivations first_;
};

}  // namespace

void ReserveGemm(CpuContext& context, const CpuPackedMatrix& weights, int64_t max_rows) {
  context.scratch.Reserve(
      GemmTask::ScratchFloats(weights, std::min(weights.kernel().most_rows, max_rows)));
  ReserveActivations(context, weights, max_rows);
  ReserveRounded(context, weights, max_rows);
}

void Gemm(CpuContext& context, MatrixView x, const CpuPackedMatrix& weights, MatrixView out,
          const GemmEpilogue& epilogue, const SumAddends& addends) {
  SLUICE_CHECK(x.cols == weights.num_inputs() && out.cols == weights.num_columns());
  SLUICE_CHECK(!weights.gated() || epilogue.activation.has_value());
  SLUICE_CHECK(x.rows == out.rows && x.dtype == DType::kF32);
  if (x.rows == 0) return;
  x = AsMultiplied(context, x, weights);
  const GemmActivations activations = PrepareActivations(context, x, weights);
  const int64_t block_rows = BlockRows(weights, x.rows, activations.tile_rows);
  const int64_t num_blocks = (x.rows + block_rows - 1) / block_rows;
  const int64_t scratch_floats = GemmTask::ScratchFloats(weights, std::min(block_rows, x.rows));
  SharedRuns runs(weights.layout(), weights.num_panels(), num_blocks,
                  weights.kernel().panels_per_group);
  context.pool.ParallelFor(runs.count(), [&](int64_t, int worker) {
    float* scratch = context.scratch.Floats(worker, scratch_floats);
    const SharedRuns::Units units = runs.Next(weights.layout().ShareOf(worker));
    for (int64_t unit = units.begin; unit < units.end; ++unit) {
      const SharedRuns::Unit of = runs.Of(unit);
      const int64_t first_row = of.block * block_rows;
      const int64_t rows = std::min(block_rows, x.rows - first_row);
      const GemmTask task(activations, first_row, rows, weights, scratch);
      task.MultiplyPanel(of.panel, [&](const float* sums, int64_t row, int64_t ready) {
        FinishPanel(sums, weights, of.panel, epilogue, out.Rows(first_row + row, ready), addends,
                    first_row + row);
      });
    }
  });
}

void ReserveGemmOfHeads(CpuContext& context, absl::Span<const PackedMatrix* const> weights,
                        int64_t max_rows) {
  if (weights.empty()) return;
  const auto& first = static_cast<const CpuPackedMatrix&>(*weights[0]);
  ReserveGemm(context, first, max_rows);
  context.operand.Reserve(weights.size() * BytesOfActivations(first, max_rows) / sizeof(float));
}

void GemmOfHeads(CpuContext& context, const HeadColumns& x,
                 absl::Span<const PackedMatrix* const> weights, const HeadColumns& out) {
  const int64_t num_rows = x.all.rows;
  if (weights.empty() || num_rows == 0) return;
  const auto matrix = [&](int64_t head) -> const CpuPackedMatrix& {
    return static_cast<const CpuPackedMatrix&>(*weights[head]);
  };
  const auto num_heads = static_cast<int64_t>(weights.size());
  const CpuPackedMatrix& first = matrix(0);
  SLUICE_CHECK(num_rows == out.all.rows && x.all.dtype == DType::kF32 && !first.gated());
  SLUICE_CHECK(first.activations() != ActivationFormat::kFp8 && first.kernel().sums_excess == 0);
  const HeadOperands operands(context, x, first, num_heads);
  for (int64_t head = 0; head < num_heads; ++head) {
    SLUICE_CHECK(matrix(head).num_inputs() == first.num_inputs() &&
                 matrix(head).num_outputs() == first.num_outputs());
    operands.Prepare(context, head);
  }
  const int64_t block_rows = BlockRows(first, num_rows, operands.Of(0).tile_rows);
  const int64_t num_blocks = (num_rows + block_rows - 1) / block_rows;
  const int64_t scratch_floats = GemmTask::ScratchFloats(first, std::min(block_rows, num_rows));
  const PanelParts parts(first.num_panels(), num_heads * num_blocks, context.pool.num_threads());
  // A head's blocks follow each other, so that its weights are read from memory once.
  context.pool.ParallelFor(num_heads * parts.count * num_blocks, [&](int64_t unit, int worker) {
    const int64_t head = unit / (parts.count * num_blocks);
    const int64_t part = unit / num_blocks % parts.count;
    const int64_t first_row = unit % num_blocks * block_rows;
    const int64_t rows = std::min(block_rows, num_rows - first_row);
    const MatrixView to = out.Of(head, first.num_outputs()).Rows(first_row, rows);
    const GemmActivations activations = operands.Of(head);
    const GemmTask task(activations, first_row, rows, matrix(head),
                        context.scratch.Floats(worker, scratch_floats));
    for (int64_t panel = parts.Begin(part); panel < parts.Begin(part + 1); ++panel) {
      task.MultiplyPanel(panel, [&](const float* sums, int64_t row, int64_t ready) {
        FinishPanel(sums, matrix(head), panel, {}, to.Rows(row, ready));
      });
    }
  });
}

}  // namespace sluice
