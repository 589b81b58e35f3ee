#include "simt.h"

// After simt.h.
#include "kernels/cuda/kernels/elements.h"
#include "kernels/cuda/kernels/fp8_codes.h"
#include "kernels/cuda/kernels/launchers.h"

namespace sluice::cuda::SIMT_NAMESPACE {
namespace {

constexpr int kThreads = 256;

struct ImagePlace {
  std::byte* unit;
  int row, col;
};

SIMT_DEVICE ImagePlace PlaceOf(const PackTask& task, int64_t row, int64_t k) {
  const WeightImage& weights = task.weights;
  const RunShape& runs = weights.runs;
  const TileRow place = TileRowOf(row, weights.num_outputs, weights.gated);
  const int64_t in_run = k % runs.depth;
  const int64_t unit = k / runs.depth * runs.units() + in_run / kUnitInputs;
  const int64_t units = runs.units() * runs.num_runs;
  return {task.image + (place.tile * units + unit) * UnitBytes(weights.format), place.row,
          static_cast<int>(in_run % kUnitInputs)};
}

SIMT_DEVICE void PutBytes(std::byte* to, const std::byte* from, int count) {
  for (int i = 0; i < count; ++i) to[i] = from[i];
}

SIMT_DEVICE void PackBFloat16Row(const PackTask& task, int64_t row, const std::byte* from) {
  for (int64_t k = Thread(); k < task.weights.num_inputs; k += kThreads) {
    const ImagePlace place = PlaceOf(task, row, k);
    const UnitPlace at = PlaceInUnit(WeightFormat::kBF16, place.row, place.col);
    PutBytes(place.unit + at.byte, from + k * 2, 2);
  }
}

// The scale of a group; of FP8 weights as what codes are multiplied with.
template <WeightFormat kFormat>
SIMT_DEVICE void PutScale(const std::byte* from, std::byte* to) {
  if constexpr (kFormat == WeightFormat::kFp8) {
    uint32_t scale = 0;
    PutBytes(reinterpret_cast<std::byte*>(&scale), from, 2);
    const uint32_t factor = FactorsOfScales(scale);
    PutBytes(to, reinterpret_cast<const std::byte*>(&factor), 2);
  } else {
    PutBytes(to, from, 2);
  }
}

// A thread packs a group.
template <WeightFormat kFormat>
SIMT_DEVICE void PackQuantizedRow(const PackTask& task, int64_t row, const std::byte* from) {
  constexpr int kGroupBytes = static_cast<int>(RowBytes(kFormat, kWeightGroup));
  const int64_t groups = task.weights.num_inputs / kWeightGroup;
  for (int64_t group = Thread(); group < groups; group += kThreads) {
    const std::byte* const raw = from + group * kGroupBytes;
    const ImagePlace place = PlaceOf(task, row, group * kWeightGroup);
    PutScale<kFormat>(raw, place.unit + ScaleOffset(kFormat, place.row, place.col / 32));
    for (int i = 0; i < kWeightGroup; ++i) {
      const UnitPlace at = PlaceInUnit(kFormat, place.row, place.col + i);
      if constexpr (kFormat != WeightFormat::kInt4) {
        place.unit[at.byte] = raw[2 + i];
      } else if (!at.high_half) {
        // Of columns i and i + 8, which share a byte.
        const auto half = [&](int index) {
          return static_cast<unsigned>(raw[2 + index / 2]) >> (index % 2 * 4) & 0xf;
        };
        place.unit[at.byte] = static_cast<std::byte>(half(i) | half(i + 8) << 4);
      }
    }
  }
}

SIMT_KERNEL(kThreads, 4) PackRow(SIMT_TASK PackTask task) {
  WaitForKernelsBefore();
  const int64_t row = task.first_row + Block();
  const std::byte* const from =
      task.rows +
      Block() * static_cast<int64_t>(RowBytes(task.weights.format, task.weights.num_inputs));
  switch (task.weights.format) {
    case WeightFormat::kInt8:
      return PackQuantizedRow<WeightFormat::kInt8>(task, row, from);
    case WeightFormat::kInt4:
      return PackQuantizedRow<WeightFormat::kInt4>(task, row, from);
    case WeightFormat::kFp8:
      return PackQuantizedRow<WeightFormat::kFp8>(task, row, from);
    default:
      return PackBFloat16Row(task, row, from);
  }
}

}  // namespace

void Pack(Stream stream, const PackTask& task) {
  Launch<PackRow>(stream, {.blocks = task.num_rows, .threads = kThreads}, task);
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
