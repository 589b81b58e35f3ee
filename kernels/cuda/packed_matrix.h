// A weight matrix as the device multiplies it.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/staging_ring.h"

namespace sluice::cuda {

class CudaPackedMatrix final : public PackedMatrix {
 public:
  // Rows are read into pinned memory and rearranged by the device. Formats are kept as
  // WeightFormatTraits::on_gpu, and FP8 that is
  // multiplied with FP8 as pairs, where the device has an instruction for them.
  static absl::StatusOr<std::unique_ptr<PackedMatrix>> Pack(const PackSpec& spec,
                                                            const RowReader& read, Gpu& gpu,
                                                            StagingRing& staging);

  int64_t num_outputs() const override { return image_.num_outputs; }
  int64_t num_inputs() const override { return image_.num_inputs; }
  size_t size_bytes() const override { return memory_->size_bytes(); }

  const WeightImage& image() const { return image_; }
  // Columns of a product.
  int64_t num_columns() const { return image_.gated ? image_.num_outputs / 2 : image_.num_outputs; }

 private:
  CudaPackedMatrix(const WeightImage& image, std::unique_ptr<DeviceMemory> memory)
      : image_(image), memory_(std::move(memory)) {}

  const WeightImage image_;
  const std::unique_ptr<DeviceMemory> memory_;
};

}  // namespace sluice::cuda
