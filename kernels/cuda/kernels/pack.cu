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
    const UnitPlace at = PlaceInUnit(ImageFormat::kBF16, place.row, place.col);
    PutBytes(place.unit + at.byte, from + k * 2, 2);
  }
}

// The scale of a group; of FP8 weights as what codes are multiplied with.
template <ImageFormat kFormat>
SIMT_DEVICE void PutScale(const std::byte* from, std::byte* to) {
  if constexpr (kFormat == ImageFormat::kFp8) {
    uint32_t scale = 0;
    PutBytes(reinterpret_cast<std::byte*>(&scale), from, 2);
    const uint32_t factor = FactorsOfScales(scale);
    PutBytes(to, reinterpret_cast<const std::byte*>(&factor), 2);
  } else {
    PutBytes(to, from, 2);
  }
}

// A thread packs a group.
template <ImageFormat kFormat>
SIMT_DEVICE void PackQuantizedRow(const PackTask& task, int64_t row, const std::byte* from) {
  constexpr int kGroupBytes = static_cast<int>(RowBytes(StoredFormat(kFormat), kWeightGroup));
  const int64_t groups = task.weights.num_inputs / kWeightGroup;
  for (int64_t group = Thread(); group < groups; group += kThreads) {
    const std::byte* const raw = from + group * kGroupBytes;
    const ImagePlace place = PlaceOf(task, row, group * kWeightGroup);
    PutScale<kFormat>(raw, place.unit + ScaleOffset(kFormat, place.row, place.col / kGroupInputs));
    for (int i = 0; i < kWeightGroup; ++i) {
      const UnitPlace at = PlaceInUnit(kFormat, place.row, place.col + i);
      if constexpr (kFormat != ImageFormat::kInt4) {
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

// The weights of a slice relative to the largest scale of its groups: as they are where theirs is
// that one, else rounded once more.
SIMT_DEVICE void PackFp8Slice(const PackTask& task, int64_t row, const std::byte* from, int slice) {
  constexpr int kGroupBytes = static_cast<int>(RowBytes(WeightFormat::kFp8, kWeightGroup));
  const auto scale_of = [&](int64_t group) {
    uint32_t scale = 0;
    PutBytes(reinterpret_cast<std::byte*>(&scale), from + group * kGroupBytes, 2);
    return FloatFromBits(scale << 16);
  };
  const int slices = task.weights.fp8_slices;
  const int64_t groups = task.weights.num_inputs / kWeightGroup / slices, first = slice * groups;
  // By their bits, of which a NaN has the largest: it shows in all of the slice.
  uint32_t bits = 0;
  for (int64_t group = first + Thread(); group < first + groups; group += kThreads) {
    bits = Larger()(bits, BitsOf(scale_of(group)) & 0x7fffffffu);
  }
  const float largest = FloatFromBits(JoinThreads(bits, Larger(), SharedMemory<uint32_t>()));
  if (Thread() == 0) {
    const TileRow place = TileRowOf(row, task.weights.num_outputs, task.weights.gated);
    task.scales[Fp8ScaleAt(place.tile, place.row, slice, slices)] = largest;
  }
  for (int64_t pair = Thread(); pair < groups * kWeightGroup / 2; pair += kThreads) {
    const int64_t k = first * kWeightGroup + pair * 2, group = k / kWeightGroup;
    const std::byte* const codes = from + group * kGroupBytes + 2 + k % kWeightGroup;
    const float scale = scale_of(group), factor = scale == largest ? 1 : scale / largest;
    std::byte rounded[2];
    for (int i = 0; i < 2; ++i) {
      const auto code = static_cast<uint8_t>(codes[i]);
      rounded[i] =
          static_cast<std::byte>(factor == 1 ? code : Fp8FromFloat(FloatFromFp8(code) * factor));
    }
    const ImagePlace place = PlaceOf(task, row, k / 2);
    const UnitPlace at = PlaceInUnit(ImageFormat::kFp8Pairs, place.row, place.col);
    PutBytes(place.unit + at.byte, rounded, 2);
  }
}

SIMT_DEVICE void PackFp8Pairs(const PackTask& task, int64_t row, const std::byte* from) {
  for (int slice = 0; slice < task.weights.fp8_slices; ++slice) {
    PackFp8Slice(task, row, from, slice);
  }
}

SIMT_KERNEL(kThreads, 4) PackRow(SIMT_TASK PackTask task) {
  WaitForKernelsBefore();
  const int64_t row = task.first_row + Block();
  const std::byte* const from = task.rows + Block() * task.row_bytes;
  switch (task.weights.format) {
    case ImageFormat::kInt8:
      return PackQuantizedRow<ImageFormat::kInt8>(task, row, from);
    case ImageFormat::kInt4:
      return PackQuantizedRow<ImageFormat::kInt4>(task, row, from);
    case ImageFormat::kFp8:
      return PackQuantizedRow<ImageFormat::kFp8>(task, row, from);
    case ImageFormat::kFp8Pairs:
      return PackFp8Pairs(task, row, from);
    default:
      return PackBFloat16Row(task, row, from);
  }
}

}  // namespace

void Pack(Stream stream, const PackTask& task) {
  Launch<PackRow>(stream,
                  {.blocks = task.num_rows,
                   .threads = kThreads,
                   .shared_bytes = kThreads / kWarpSize * sizeof(uint32_t)},
                  task);
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
