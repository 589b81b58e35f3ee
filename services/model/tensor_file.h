// A file with tensors in it, whatever its container: mapped, with an index that has been checked
// against its size. Immutable once open, so safe to share among threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "kernels/dtype.h"
#include "services/model/mapped_file.h"

namespace sluice {

// Writes the numbers of `count` blocks.
using DecodeBlocks = void(const std::byte* blocks, int64_t count, float* out);

// An element type that a file may hold. `dtype` is empty for one that Sluice does not compute with
// (such as I64): the file opens, reading that tensor is an error.
struct StoredType {
  const char* name = "";  // as the file spells it
  int size = 0;           // bytes per element or, where elements lie in blocks, per block
  std::optional<DType> dtype;
  // Of types whose elements lie in blocks along a row: elements per block, and their numbers.
  int block = 1;
  DecodeBlocks* decode = nullptr;

  bool is_in_blocks() const { return decode != nullptr; }
  // REQUIRES: whole blocks.
  uint64_t BytesOf(uint64_t elements) const {
    return elements / static_cast<uint64_t>(block) * static_cast<uint64_t>(size);
  }
};

struct StoredTensor {
  StoredType type;
  std::vector<uint64_t> shape;        // [] for a scalar; a dimension may be 0
  absl::Span<const std::byte> bytes;  // row-major, little-endian, of any alignment
};

// "[512, 64]"
std::string ShapeText(absl::Span<const uint64_t> shape);

// What a parser finds in a file.
struct TensorFileContents {
  std::map<std::string, StoredTensor> tensors;
  std::map<std::string, std::string> metadata;  // texts by key, of safetensors alone
};

class TensorFile {
 public:
  // `contents` borrow from `file`.
  TensorFile(MappedFile file, TensorFileContents contents);

  const std::string& path() const { return file_.path(); }
  absl::Span<const std::byte> bytes() const { return file_.bytes(); }
  const TensorFileContents& contents() const { return contents_; }

  // The tensor of that name, borrowed from this file, or nullptr.
  const StoredTensor* Find(const std::string& name) const;

  // Says that `bytes` (part of this file) won't be read again soon; see MappedFile::Release.
  void Release(absl::Span<const std::byte> bytes) const { file_.Release(bytes); }

 private:
  MappedFile file_;
  TensorFileContents contents_;
};

}  // namespace sluice
