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

// Which tensors may be fused with others, and which of them comes how far down the stack.
struct FusedRows {
  Fusion fusion = Fusion::kNone;
  int part = 0;  // q, k, v or gate, up, counted from 0
  int num_parts = 1;
  int64_t first_row = 0;  // where the parts are stacked
  int64_t num_rows = 0;   // of all of them
};

FusedRows FusedRowsOf(TensorId tensor, const ModelConfig& config, const TensorNames& names);

// out [columns, rows] = in [rows, columns], both row-major. REQUIRES: both have shape.size()
// elements of `element_size` bytes, and don't overlap.
void Transpose(absl::Span<const std::byte> in, MatrixShape shape, size_t element_size,
               absl::Span<std::byte> out);

}  // namespace sluice
