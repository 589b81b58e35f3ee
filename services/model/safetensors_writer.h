// Writes safetensors files: the counterpart of safetensors.h. Stateless.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/dtype.h"

namespace sluice {

struct TensorToWrite {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<uint64_t> shape;
  absl::Span<const std::byte> bytes;  // row-major, little-endian; as many as dtype and shape give
};

// The bytes before the tensors' data: length and header, padded so that data starts at a multiple
// of 8. REQUIRES: names are distinct UTF-8.
std::string SafetensorsHeader(absl::Span<const TensorToWrite> tensors,
                              const std::map<std::string, std::string>& metadata);

// Writes `path` whole or not at all (a file beside it is renamed when complete), tensors in the
// order given. UNAVAILABLE with the system's reason where that fails.
absl::Status WriteSafetensors(const std::string& path, absl::Span<const TensorToWrite> tensors,
                              const std::map<std::string, std::string>& metadata = {});

}  // namespace sluice
