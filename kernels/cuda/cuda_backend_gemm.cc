// Products of CudaBackend.
#include <algorithm>

#include "kernels/check.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/packed_matrix.h"
#include "kernels/cuda/token_image.h"

namespace sluice::cuda {
namespace {

// Whether blocks can copy x as it is, 16 bytes at a time.
bool CanBeReadInPlace(MatrixView x, const RunShape& runs) {
  return x.dtype == DType::kBF16 && !runs.is_padded() && x.stride % 8 == 0 &&
         reinterpret_cast<uintptr_t>(x.data) % 16 == 0;
}

// Of the activations of `rows` rows, where they are rearranged.
int64_t OperandBytes(int64_t rows, const RunShape& runs, const GemmPlan& plan) {
  const int64_t cols = runs.num_runs * runs.padded_depth();
  if (plan.path == GemmPath::kPipelined) return TokenImageBytes(rows, cols);
  return runs.is_padded() ? rows * cols * 2 : 0;
}

}  // namespace

GemmPlan CudaBackend::PlanFor(const WeightImage& weights, int64_t rows) const {
  const GpuProperties& gpu = gpu_->properties();
  return PlanGemm(rows, NumTiles(weights.num_outputs, weights.gated), weights.runs, weights.format,
                  {.num_multiprocessors = gpu.num_multiprocessors,
                   .shared_bytes = static_cast<int64_t>(gpu.shared_bytes),
                   .path = gpu.gemm_path});
}

void CudaBackend::ReserveForGemm(const PackedMatrix& weights, int64_t max_rows) {
  const WeightImage& image = static_cast<const CudaPackedMatrix&>(weights).image();
  if (image.format == WeightFormat::kF32) return;
  int64_t partials = 0, counters = 0, operand = 0;
  const int64_t most = BucketRows(max_rows);
  for (int64_t rows = 1; rows <= most; rows = BucketRows(rows + 1)) {
    const GemmPlan plan = PlanFor(image, rows);
    partials = std::max(partials, plan.partial_floats());
    counters = std::max(counters, plan.counters());
    operand = std::max(operand, OperandBytes(rows, image.runs, plan));
  }
  Room(kPartials, partials * sizeof(float));
  Room(kCounters, counters * sizeof(unsigned));
  Room(kActivations, operand);
}

void CudaBackend::Gemm(MatrixView x, const PackedMatrix& weights, MatrixView out,
                       const GemmEpilogue& epilogue) {
  const auto& matrix = static_cast<const CudaPackedMatrix&>(weights);
  SLUICE_CHECK(x.cols == matrix.num_inputs() && out.cols == matrix.num_columns());
  SLUICE_CHECK(x.rows == out.rows);
  SLUICE_CHECK(!matrix.image().gated || epilogue.activation.has_value());
  const EpilogueTask task{.bias = epilogue.bias,
                          .has_activation = epilogue.activation.has_value(),
                          .activation = epilogue.activation.value_or(Activation::kRelu),
                          .gated = matrix.image().gated,
                          .add_to_out = epilogue.add_to_out,
                          .out = out};
  if (matrix.image().format == WeightFormat::kF32) {
    kernels().float_gemm(stream(), {.weights = matrix.image(), .x = x, .epilogue = task});
  } else {
    TiledGemm(x, matrix.image(), task);
  }
}

MatrixView CudaBackend::Operand(MatrixView x, const RunShape& runs, const GemmPlan& plan) {
  const bool is_image = plan.path == GemmPath::kPipelined;
  if (!is_image && CanBeReadInPlace(x, runs)) return x;
  const int64_t cols = runs.num_runs * runs.padded_depth();
  const int64_t bytes = is_image ? TokenImageBytes(x.rows, cols) : x.rows * cols * 2;
  const MatrixView operand{Room(kActivations, bytes), DType::kBF16, x.rows, cols, cols};
  if (operand.data == nullptr) return operand;
  if (is_image) {
    kernels().token_image(stream(),
                          {.x = x, .image = static_cast<std::byte*>(operand.data), .runs = runs});
  } else {
    kernels().rearrange(
        stream(),
        {.x = x, .out = operand, .depth = runs.depth, .padded_depth = runs.padded_depth()});
  }
  return operand;
}

void CudaBackend::TiledGemm(MatrixView x, const WeightImage& weights,
                            const EpilogueTask& epilogue) {
  const GemmPlan plan = PlanFor(weights, x.rows);
  GemmTask task{
      .weights = weights, .x = Operand(x, weights.runs, plan), .epilogue = epilogue, .plan = plan};
  if (task.x.data == nullptr) return;
  if (task.plan.splits > 1) {
    const auto counters = static_cast<size_t>(task.plan.counters());
    task.partials =
        static_cast<float*>(Room(kPartials, task.plan.partial_floats() * sizeof(float)));
    task.counters = static_cast<unsigned*>(Room(kCounters, counters * sizeof(unsigned)));
    if (task.partials == nullptr || task.counters == nullptr) return;
    if (num_zero_counters_ < counters) {
      // Zero ever after: each product leaves them so.
      SLUICE_CHECK(!recorder_.is_recording());
      gpu_->FillWithZero(task.counters, counters * sizeof(unsigned));
      num_zero_counters_ = counters;
    }
  }
  kernels().gemm(stream(), task);
}

}  // namespace sluice::cuda
