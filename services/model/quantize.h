// Makes of a model's folder one whose matrices are quantised: what `sluice quantize` does. The
// format of its files is described in docs/weight_formats.md.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/weight_format.h"
#include "services/model/progress.h"

namespace sluice {

struct QuantizeOptions {
  std::string model;                          // folder that is read
  std::string out;                            // folder that is made; may exist if it is empty
  WeightFormat format = WeightFormat::kInt8;  // a quantised one
  int num_threads = 1;                        // >= 1
  uint64_t max_file_bytes = uint64_t{4'000'000'000};  // of tensors in one file of several
  std::function<bool()> cancelled;                    // asked now and then; may be empty
};

struct QuantizeResult {
  uint64_t bytes_read = 0;  // of tensors
  uint64_t bytes_written = 0;
  int num_quantized = 0;  // matrices
  int num_kept = 0;       // matrices that were not
};

// Writes `out` whole or not at all: "<out>.partial" is renamed when it is complete, and removed
// where the call fails. Of the model at most some rows are held at a time. Files that are no
// weights are copied. `progress` (may be null) hears of every byte read.
//
// Errors of LoadModelConfig and WeightSource::Open for the model; INVALID_ARGUMENT where it is
// quantised already; ALREADY_EXISTS where `out` holds anything or "<out>.partial" is there;
// NOT_FOUND where the folder around it is missing; RESOURCE_EXHAUSTED where the disk is too small;
// CANCELLED; else what the system says of a file.
absl::StatusOr<QuantizeResult> QuantizeModel(const QuantizeOptions& options, Progress* progress);

}  // namespace sluice
