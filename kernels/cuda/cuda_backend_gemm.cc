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

// Of activations where they are rearranged, behind which the scales of pairs lie.
int64_t RearrangedBytes(int64_t rows, const RunShape& runs, const GemmPlan& plan) {
  const int64_t cols = runs.num_runs * runs.padded_depth();
  return plan.path == GemmPath::kPipelined ? TokenImageBytes(rows, cols) : rows * cols * 2;
}
int64_t OperandBytes(int64_t rows, const WeightImage& weights, const GemmPlan& plan) {
  if (weights.fp8_slices > 0) {
    return RearrangedBytes(rows, weights.runs, plan) +
           rows * weights.fp8_slices * int64_t{sizeof(float)};
  }
  const bool in_place = plan.path != GemmPath::kPipelined && !weights.runs.is_padded();
  return in_place ? 0 : RearrangedBytes(rows, weights.runs, plan);
}

}  // namespace

GemmPlan CudaBackend::PlanFor(const WeightImage& weights, int64_t rows) const {
  const GpuProperties& gpu = properties();
  return PlanGemm(rows, NumTiles(weights.num_outputs, weights.gated), weights.runs, weights.format,
                  {.num_multiprocessors = gpu.num_multiprocessors,
                   .shared_bytes = static_cast<int64_t>(gpu.shared_bytes),
                   .path = gpu.gemm_path,
                   .least_rows_of_large_tiles = gpu.least_rows_of_large_tiles});
}

void CudaBackend::ReserveForGemm(const PackedMatrix& weights, int64_t max_rows) {
  const WeightImage& image = static_cast<const CudaPackedMatrix&>(weights).image();
  if (image.format == ImageFormat::kF32) return;
  int64_t partials = 0, counters = 0, operand = 0;
  const int64_t most = BucketRows(max_rows);
  for (int64_t rows = 1; rows <= most; rows = BucketRows(rows + 1)) {
    const GemmPlan plan = PlanFor(image, rows);
    partials = std::max(partials, plan.partial_floats());
    counters = std::max(counters, plan.counters());
    operand = std::max(operand, OperandBytes(rows, image, plan));
  }
  Reserve(kPartials, partials * sizeof(float));
  Reserve(kCounters, counters * sizeof(unsigned));
  Reserve(kActivations, operand);
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
  if (matrix.image().format == ImageFormat::kF32) {
    kernels().float_gemm(stream(), {.weights = matrix.image(), .x = x, .epilogue = task});
  } else {
    TiledGemm(x, matrix.image(), task);
  }
}

CudaBackend::GemmOperand CudaBackend::Operand(MatrixView x, const WeightImage& weights,
                                              const GemmPlan& plan) {
  const RunShape& runs = weights.runs;
  const bool is_image = plan.path == GemmPath::kPipelined;
  if (!is_image && weights.fp8_slices == 0 && CanBeReadInPlace(x, runs)) return {x};
  const int64_t cols = runs.num_runs * runs.padded_depth();
  const int64_t bytes = RearrangedBytes(x.rows, runs, plan);
  const int64_t scales_bytes = x.rows * weights.fp8_slices * int64_t{sizeof(float)};
  auto* const room = static_cast<std::byte*>(Room(kActivations, bytes + scales_bytes));
  GemmOperand operand{{room, DType::kBF16, x.rows, cols, cols}};
  if (room == nullptr) return operand;
  if (weights.fp8_slices > 0) {
    if (weights.format == ImageFormat::kFp8Pairs) {
      operand.scales = reinterpret_cast<float*>(room + bytes);
    }
    kernels().fp8_activations(stream(), {.x = x,
                                         .num_slices = weights.fp8_slices,
                                         .runs = runs,
                                         .out = room,
                                         .as_image = is_image,
                                         .scales = operand.scales});
  } else if (is_image) {
    kernels().token_image(stream(), {.x = x, .image = room, .runs = runs});
  } else {
    kernels().rearrange(
        stream(),
        {.x = x, .out = operand.x, .depth = runs.depth, .padded_depth = runs.padded_depth()});
  }
  return operand;
}

void CudaBackend::TiledGemm(MatrixView x, const WeightImage& weights,
                            const EpilogueTask& epilogue) {
  const GemmPlan plan = PlanFor(weights, x.rows);
  const GemmOperand operand = Operand(x, weights, plan);
  if (operand.x.data == nullptr) return;
  GemmTask task{.weights = weights,
                .x = operand.x,
                .x_scales = operand.scales,
                .epilogue = epilogue,
                .plan = plan};
  if (task.plan.splits > 1) {
    task.partials =
        static_cast<float*>(Room(kPartials, task.plan.partial_floats() * sizeof(float)));
    task.counters = ZeroCounters(task.plan.counters());
    if (task.partials == nullptr || task.counters == nullptr) return;
  }
  kernels().gemm(stream(), task);
}

}  // namespace sluice::cuda
