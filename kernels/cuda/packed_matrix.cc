#include "kernels/cuda/packed_matrix.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "kernels/regrouped_rows.h"

namespace sluice::cuda {
namespace {

constexpr int64_t kMostRowsRead = 64;
constexpr size_t kMostBytes = size_t{1} << 46;  // more than any device has, and far from overflow

WeightImage ImageOf(const PackSpec& spec, bool multiplies_fp8) {
  const bool is_float = spec.format.weights == WeightFormat::kF32;
  WeightImage image{.format = ImageFormatOf(spec.format.weights),
                    .num_outputs = spec.num_outputs,
                    .num_inputs = spec.num_inputs,
                    .gated = spec.gated,
                    // F32 is summed in the contract's order, one run per slice.
                    .runs = is_float ? RunShape{spec.num_slices, spec.num_inputs / spec.num_slices}
                                     : RunsOf(spec.num_inputs, spec.num_slices)};
  if (spec.format.activations != ActivationFormat::kFp8) return image;
  image.fp8_slices = spec.num_slices;
  if (multiplies_fp8) {
    image.format = ImageFormat::kFp8Pairs;
    image.runs = InPairs(image.runs);
  }
  return image;
}

// What the image takes in memory, and where in it the scales begin.
struct ImageSize {
  size_t bytes;
  size_t scales_begin;
};
ImageSize SizeOf(const WeightImage& image, size_t row_bytes) {
  if (image.format == ImageFormat::kF32) return {row_bytes * image.num_outputs, 0};
  const auto bytes =
      static_cast<size_t>(ImageBytes(image.format, image.num_outputs, image.gated, image.runs));
  if (image.format != ImageFormat::kFp8Pairs) return {bytes, 0};
  const int64_t scales = Fp8Scales(image.num_outputs, image.gated, image.fp8_slices);
  return {bytes + scales * sizeof(float), bytes};
}

// Rows that fit a part of the ring, at least one.
int64_t RowsAtATime(size_t row_bytes) {
  SLUICE_CHECK(row_bytes <= StagingRing::kPartBytes);
  return std::clamp<int64_t>(StagingRing::kPartBytes / row_bytes, 1, kMostRowsRead);
}

}  // namespace

absl::StatusOr<std::unique_ptr<PackedMatrix>> CudaPackedMatrix::Pack(const PackSpec& spec,
                                                                     const RowReader& read,
                                                                     Gpu& gpu,
                                                                     StagingRing& staging) {
  SLUICE_CHECK(spec.num_slices >= 1 && spec.num_inputs % spec.num_slices == 0);
  SLUICE_CHECK(spec.format.IsSupported());
  if (const WeightFormat as = TraitsOf(spec.format.weights).on_gpu; as != spec.format.weights) {
    PackSpec regrouped = spec;
    regrouped.format.weights = as;
    return Pack(regrouped, RowsAs(as, spec, read), gpu, staging);
  }
  WeightImage image = ImageOf(spec, gpu.properties().multiplies_fp8);
  const bool is_float = spec.format.weights == WeightFormat::kF32;
  const size_t row_bytes = RowBytes(spec.format.weights, spec.num_inputs);
  const double bytes = double(row_bytes) * double(spec.num_outputs);
  if (bytes > double(kMostBytes)) {
    return absl::ResourceExhaustedError(absl::StrCat("a matrix of ", bytes, " bytes"));
  }
  const ImageSize size = SizeOf(image, row_bytes);
  auto memory = DeviceMemory::AllocateZeroed(size.bytes, gpu);
  if (!memory.ok()) return memory.status();
  std::byte* const begin_of_image = (*memory)->as<std::byte>();
  auto* const scales = reinterpret_cast<float*>(begin_of_image + size.scales_begin);
  image.data = begin_of_image;
  image.scales = scales;
  const int64_t step = RowsAtATime(row_bytes);
  auto raw = DeviceMemory::Allocate(is_float ? 1 : step * row_bytes, gpu);
  if (!raw.ok()) return raw.status();
  for (int64_t begin = 0; begin < spec.num_outputs; begin += step) {
    const int64_t end = std::min(begin + step, spec.num_outputs);
    const auto room = staging.Take((end - begin) * row_bytes);
    if (!room.ok()) return room.status();
    if (absl::Status done = read(begin, end, *room); !done.ok()) return done;
    std::byte* const to = is_float ? begin_of_image + begin * row_bytes : (*raw)->as<std::byte>();
    gpu.Copy(to, room->data(), room->size());
    if (is_float) continue;
    gpu.kernels().pack(gpu.stream(), {.weights = image,
                                      .image = begin_of_image,
                                      .scales = scales,
                                      .rows = (*raw)->as<std::byte>(),
                                      .row_bytes = static_cast<int64_t>(row_bytes),
                                      .first_row = begin,
                                      .num_rows = end - begin});
  }
  // Freeing `raw` waits for the device: a product may read weights before it waits for kernels.
  return std::unique_ptr<PackedMatrix>(new CudaPackedMatrix(image, *std::move(memory)));
}

}  // namespace sluice::cuda
