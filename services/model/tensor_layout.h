// Where in a family's files a tensor is: under which name, and which rows of it where a file fuses
// several. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "services/model/model_config.h"
#include "services/model/tensor_names.h"
#include "services/model/tensor_roles.h"
#include "services/model/tensor_slice.h"

namespace sluice {

inline constexpr char kWeightSuffix[] = ".weight";
inline constexpr char kBiasSuffix[] = ".bias";

// A module's name and which of its two tensors is meant.
struct TensorName {
  const char* module;
  const char* suffix;
};

TensorName NameIn(const TensorNames& names, TensorId tensor);

// Where a tensor's rows are in one that it is fused into: as TensorPlace has it.
struct FusedRows {
  Fusion fusion = Fusion::kNone;
  int64_t first_row = 0;
  int64_t num_rows = 0;  // of all that are fused
  int64_t run = 0;
  int64_t stride = 0;
};

FusedRows FusedRowsOf(TensorId tensor, const ModelConfig& config, const TensorNames& names);

// out [columns, rows] = in [rows, columns], both row-major. REQUIRES: both have shape.size()
// elements of `element_size` bytes, and don't overlap.
void Transpose(absl::Span<const std::byte> in, MatrixShape shape, size_t element_size,
               absl::Span<std::byte> out);

}  // namespace sluice
