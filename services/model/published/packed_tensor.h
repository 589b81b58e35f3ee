// The stored tensors that together hold one quantised matrix, as a reader of a layout finds them.
// Views of memory that the files' owner keeps. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace sluice {

struct PackedTensor {
  std::string file;  // where it is, for messages
  std::string name;
  std::string type;                   // as safetensors spells it, such as "I32"
  std::vector<uint64_t> shape;        // [] for a scalar
  absl::Span<const std::byte> bytes;  // row-major, little-endian, of any alignment

  // Element `index` of a tensor of 32-bit words.
  uint32_t Word(int64_t index) const;
  // Element `index` of a tensor of one of the types F16, BF16, F32.
  float Number(int64_t index) const;
  // Element `index` of a tensor of one of the types I32, I64.
  int64_t Integer(int64_t index) const;

  // "FILE: tensor "NAME" MESSAGE"
  absl::Status Error(const std::string& message) const;
};

// The files that hold the matrices.
struct PackedFiles {
  std::string folder;  // for messages
  // The tensor of a name; one without a name where there is none.
  std::function<PackedTensor(const std::string& name)> find;

  bool Has(const std::string& name) const { return !find(name).name.empty(); }
  // The tensor of a name, checked to have one of these types and one of these shapes, in which -1
  // accepts any size. NOT_FOUND or INVALID_ARGUMENT with file, tensor and what is accepted.
  absl::StatusOr<PackedTensor> Find(const std::string& name, const std::vector<std::string>& types,
                                    const std::vector<std::vector<int64_t>>& shapes) const;
};

// The types of scales.
inline std::vector<std::string> ScaleTypes() { return {"F16", "BF16", "F32"}; }

}  // namespace sluice
