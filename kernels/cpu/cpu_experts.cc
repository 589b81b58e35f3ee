#include "kernels/cpu/cpu_experts.h"

#include <algorithm>

#include "kernels/check.h"
#include "kernels/cpu/gemm_epilogue.h"
#include "kernels/cpu/gemm_task.h"
#include "kernels/cpu/route.h"
#include "kernels/cpu/shared_runs.h"

namespace sluice {
namespace {

constexpr int64_t kUnpackedFloats = kUnpackedBytes / static_cast<int64_t>(sizeof(float));
// With so many rows or fewer the sums of all slices stay in cache together, and an expert's panel
// is read from front to back.
constexpr int64_t kFewRows = 64;

const CpuPackedMatrix& MatrixOf(const ExpertMatrices& weights, int expert) {
  return static_cast<const CpuPackedMatrix&>(weights.Of(expert));
}

int64_t MostRows(const CpuPackedMatrix& weights, int64_t rows) {
  return std::min(weights.kernel().most_rows, rows);
}

// The sums of one panel over all experts.
class CombineTask {
 public:
  // Floats of scratch memory: what a kernel unpacks, the sums of some rows of an expert, and those
  // of all rows of the step for each slice.
  static int64_t ScratchFloats(const CpuPackedMatrix& weights, int64_t rows) {
    return kUnpackedFloats + SumsFloats(weights, rows) + weights.num_slices() * rows * kPanelWidth;
  }
  // Of one expert's rows, at most.
  static int64_t SumsFloats(const CpuPackedMatrix& weights, int64_t rows) {
    const int64_t most = MostRows(weights, rows);
    return (most + kRowsStep - 1) / kRowsStep * kRowsStep * kPanelWidth;
  }

  CombineTask(int64_t panel, int64_t rows, const CpuPackedMatrix& first, int64_t sums_floats,
              float* scratch)
      : panel_(panel),
        rows_(rows),
        num_slices_(first.num_slices()),
        scratch_(scratch),
        under_way_(scratch + kUnpackedFloats),
        slices_(under_way_ + sums_floats) {
    std::fill_n(slices_, num_slices_ * rows_ * kPanelWidth, 0.0f);
  }

  // Adds slices [begin, end) of an expert's results. `bias` is of the first one.
  void Add(const RowGroup& group, const GemmActivations& x, const float* weights,
           const int32_t* rows, const float* bias, int begin, int end) const {
    const CpuPackedMatrix& matrix = *group.weights;
    const int64_t block = BlockRows(matrix, group.count, x.tile_rows);
    for (int64_t first = 0; first < group.count; first += block) {
      const int64_t count = std::min(block, group.count - first);
      const GemmTask task(x, first, count, matrix, scratch_);
      for (int slice = begin; slice < end; ++slice) {
        task.MultiplySlice(panel_, slice, under_way_, [&](int64_t row, int64_t ready) {
          const int64_t from = first + row;
          AddWeightedSums({.sums = under_way_ + row * kPanelWidth,
                           .count = ready,
                           .columns = matrix.PanelColumns(panel_),
                           .rows = rows == nullptr ? nullptr : rows + from,
                           .weights = weights == nullptr ? nullptr : weights + from,
                           .bias = slice == 0 ? bias : nullptr},
                          SumsOf(slice) + (rows == nullptr ? from * kPanelWidth : 0));
        });
      }
    }
  }

  // The slices' sums joined as a binary tree of neighbours.
  const float* Join() const {
    for (int step = 1; step < num_slices_; step *= 2) {
      for (int slice = 0; slice < num_slices_; slice += 2 * step) {
        AddSums(SumsOf(slice), SumsOf(slice + step), rows_ * kPanelWidth, SumsOf(slice));
      }
    }
    return slices_;
  }

 private:
  float* SumsOf(int slice) const { return slices_ + slice * rows_ * kPanelWidth; }

  const int64_t panel_;
  const int64_t rows_;
  const int num_slices_;
  float* const scratch_;
  float* const under_way_;
  float* const slices_;
};

}  // namespace

void CpuExperts::FindActive(MatrixView x, const ExpertMatrices& weights, const Routing& routing,
                            bool is_grouped) {
  active_.clear();
  for (int expert = 0; expert < routing.num_experts; ++expert) {
    const int32_t first = routing.first[expert], end = routing.first[expert + 1];
    if (first == end) continue;
    RowGroup group{.x = x, .count = end - first, .weights = &MatrixOf(weights, expert)};
    if (is_grouped) {
      group.x = x.Rows(first, group.count);
    } else {
      group.rows = routing.rows + first;
    }
    active_.push_back({expert, group});
  }
}

void CpuExperts::Prepare() {
  groups_.clear();
  for (const Active& active : active_) groups_.push_back(active.group);
  activations_.resize(groups_.size());
  PrepareGroups(context_, groups_, absl::MakeSpan(activations_));
}

MatrixView CpuExperts::WeightedInputs(MatrixView x, const Routing& routing) {
  const int64_t rows = x.rows * routing.num_chosen;
  const MatrixView out{inputs_.Floats(0, rows * x.cols), DType::kF32, rows, x.cols, x.cols};
  ForRowRuns(context_, rows, x.cols, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* const from = x.Row(routing.rows[row]);
      const float weight = routing.weights[row];
      std::transform(from, from + x.cols, out.Row(row),
                     [weight](float value) { return weight * value; });
    }
  });
  return out;
}

void CpuExperts::GroupedGemm(MatrixView x, const ExpertMatrices& weights, const Routing& routing,
                             const GroupedOptions& options, const SumAddends& addends,
                             MatrixView out) {
  const CpuPackedMatrix& first = MatrixOf(weights, 0);
  SLUICE_CHECK(x.cols == first.num_inputs() && out.cols == first.num_columns());
  SLUICE_CHECK(out.rows == x.rows * routing.num_chosen && x.dtype == DType::kF32);
  if (x.rows == 0) return;
  const int64_t step_rows = x.rows;
  if (options.weighs_inputs) x = WeightedInputs(x, routing);
  x = AsMultiplied(context_, x, first);
  FindActive(x, weights, routing, options.weighs_inputs);
  const bool is_one = step_rows == 1 && !options.weighs_inputs;
  if (is_one) {  // which all experts multiply
    activations_.assign(active_.size(), PrepareActivations(context_, x, first));
  } else {
    Prepare();
  }
  const int64_t scratch_floats = GemmTask::ScratchFloats(first, MostRows(first, step_rows));
  SharedRuns runs(first.layout(), first.num_panels(), static_cast<int64_t>(active_.size()),
                  first.num_panels());
  context_.pool.ParallelFor(runs.count(), [&](int64_t, int worker) {
    float* scratch = context_.scratch.Floats(worker, scratch_floats);
    const SharedRuns::Units units = runs.Next(first.layout().ShareOf(worker));
    for (int64_t unit = units.begin; unit < units.end; ++unit) {
      const SharedRuns::Unit of = runs.Of(unit);
      const auto& [expert, group] = active_[of.block];
      const GemmActivations& activations = activations_[of.block];
      const GemmEpilogue epilogue{
          .bias = options.bias == nullptr ? nullptr : options.bias + expert * first.num_outputs(),
          .activation = options.activation,
          .clamp = options.clamp};
      const MatrixView to = out.Rows(routing.first[expert], group.count);
      const int64_t block = BlockRows(*group.weights, group.count, activations.tile_rows);
      for (int64_t row = 0; row < group.count; row += block) {
        const int64_t rows = std::min(block, group.count - row);
        const GemmTask task(activations, row, rows, *group.weights, scratch);
        task.MultiplyPanel(of.panel,
                           [&, &matrix = *group.weights, first_row = routing.first[expert] + row](
                               const float* sums, int64_t done, int64_t ready) {
                             FinishPanel(sums, matrix, of.panel, epilogue,
                                         to.Rows(row + done, ready), addends, first_row + done);
                           });
      }
    }
  });
}

void CpuExperts::CombineExperts(MatrixView x, const ExpertMatrices& weights, const Routing& routing,
                                const CombineOptions& options, MatrixView out) {
  const CpuPackedMatrix& first = MatrixOf(weights, 0);
  SLUICE_CHECK(x.cols == first.num_inputs() && out.cols == first.num_columns());
  SLUICE_CHECK(x.rows == out.rows * routing.num_chosen && x.dtype == DType::kF32);
  if (out.rows == 0) return;
  const SharedExpert* const shared = options.shared.has_value() ? &*options.shared : nullptr;
  const int64_t shared_floats = shared == nullptr ? 0 : shared->x.rows * shared->x.cols;
  const int64_t floats = x.rows * x.cols;
  FindActive(AsMultiplied(context_, x, first, 0, floats + shared_floats), weights, routing, true);
  const float* shared_weights = nullptr;
  int64_t sums_floats = CombineTask::SumsFloats(first, out.rows);
  if (shared != nullptr) {
    const auto& down = static_cast<const CpuPackedMatrix&>(*shared->down);
    SLUICE_CHECK(down.num_slices() == first.num_slices());
    active_.push_back(
        {routing.num_experts,
         {.x = AsMultiplied(context_, shared->x, down, floats, floats + shared_floats),
          .count = out.rows,
          .weights = &down}});
    sums_floats = std::max(sums_floats, CombineTask::SumsFloats(down, out.rows));
    if (shared->scores != nullptr) {
      float* const made = shared_weights_.Floats(0, out.rows);
      SigmoidOf(shared->scores, out.rows, made);
      shared_weights = made;
    }
  }
  Prepare();
  const int64_t scratch_floats =
      kUnpackedFloats + sums_floats + first.num_slices() * out.rows * kPanelWidth;
  const int slices_together = out.rows <= kFewRows ? first.num_slices() : 1;
  const GemmEpilogue epilogue{.add_to_out = options.add_to_out};
  SharedRuns runs(first.layout(), first.num_panels(), 1);
  context_.pool.ParallelFor(runs.count(), [&](int64_t, int worker) {
    float* scratch = context_.scratch.Floats(worker, scratch_floats);
    const SharedRuns::Units units = runs.Next(first.layout().ShareOf(worker));
    for (int64_t unit = units.begin; unit < units.end; ++unit) {
      const int64_t panel = runs.Of(unit).panel;
      const CombineTask task(panel, out.rows, first, sums_floats, scratch);
      for (int slice = 0; slice < first.num_slices(); slice += slices_together) {
        for (size_t i = 0; i < active_.size(); ++i) {
          const auto& [expert, group] = active_[i];
          const bool is_shared = expert == routing.num_experts;
          const int64_t row = is_shared ? 0 : routing.first[expert];
          const float* const of_rows = options.weighted ? routing.weights + row : nullptr;
          const float* const bias = options.bias == nullptr || is_shared
                                        ? nullptr
                                        : options.bias + expert * out.cols + panel * kPanelWidth;
          task.Add(group, activations_[i], is_shared ? shared_weights : of_rows,
                   is_shared ? nullptr : routing.rows + row, bias, slice, slice + slices_together);
        }
      }
      FinishPanel(task.Join(), first, panel, epilogue, out);
    }
  });
}

void CpuExperts::ReserveForExperts(const ExpertMatrices& gate_up, const ExpertMatrices& down,
                                   const PackedMatrix* shared, int num_chosen, int64_t max_rows) {
  const CpuPackedMatrix& first = MatrixOf(gate_up, 0);
  const CpuPackedMatrix& last = MatrixOf(down, 0);
  const int num_experts = gate_up.num_experts();
  const auto* const shared_down = static_cast<const CpuPackedMatrix*>(shared);
  const size_t num_groups = num_experts + 1;
  active_.reserve(std::max(active_.capacity(), num_groups));
  groups_.reserve(std::max(groups_.capacity(), num_groups));
  activations_.reserve(std::max(activations_.capacity(), num_groups));
  // Groups are padded to whole blocks of rows, each by itself.
  const int64_t grouped = max_rows * num_chosen;
  const int64_t padded = grouped + std::min<int64_t>(num_experts, grouped) * kRowsStep;
  size_t operand = GroupBytes(last, padded);
  if (shared_down != nullptr) operand += GroupBytes(*shared_down, max_rows + kRowsStep);
  operand = std::max(operand, GroupBytes(first, padded)) + 64 * num_groups;
  context_.operand.Reserve(operand / sizeof(float) + 1);
  int64_t sums = CombineTask::ScratchFloats(last, max_rows);
  if (shared_down != nullptr) {
    sums = std::max(sums, CombineTask::ScratchFloats(*shared_down, max_rows));
    shared_weights_.Reserve(max_rows);
  }
  context_.scratch.Reserve(
      std::max(sums, GemmTask::ScratchFloats(first, MostRows(first, max_rows))));
  if (last.activations() == ActivationFormat::kFp8) {
    context_.rounded.Reserve(grouped * std::max(first.num_inputs(), last.num_inputs()) +
                             (shared_down == nullptr ? 0 : max_rows * shared_down->num_inputs()));
  }
}

}  // namespace sluice
