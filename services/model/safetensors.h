// Reader of the safetensors format: 8 bytes of little-endian header length, a JSON header that maps
// tensor names to {dtype, shape, data_offsets}, then the tensors' bytes without gaps.
// Layout: https://huggingface.co/docs/safetensors. Immutable once open, so safe to share among
// threads. Opening reads the header's pages only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/dtype.h"
#include "services/model/mapped_file.h"

namespace sluice {

// An element type that a file may hold. `dtype` is empty for one that Sluice does not compute with
// (such as I64): the file opens, reading that tensor is an error.
struct StoredType {
  const char* name = "";  // as the file spells it
  int size = 0;           // bytes per element
  std::optional<DType> dtype;
};

struct StoredTensor {
  StoredType type;
  std::vector<uint64_t> shape;        // [] for a scalar; a dimension may be 0
  absl::Span<const std::byte> bytes;  // row-major, little-endian, of any alignment
};

// "[512, 64]"
std::string ShapeText(absl::Span<const uint64_t> shape);

struct SafetensorsContents {
  std::map<std::string, StoredTensor> tensors;
  std::map<std::string, std::string> metadata;  // the header's "__metadata__"
};

// Parses a whole file held in memory; the tensors borrow from `file`. `source` names it in
// messages. INVALID_ARGUMENT, naming the tensor and the offsets, where the file is truncated, the
// header's length absurd (over 100 MB or beyond the file), its JSON malformed or with a key twice,
// a dtype unknown, a shape negative or overflowing, a size other than shape and dtype give, or
// offsets overlap, leave a gap or don't end with the file.
absl::StatusOr<SafetensorsContents> ParseSafetensors(absl::Span<const std::byte> file,
                                                     const std::string& source);

class SafetensorsFile {
 public:
  // Maps and parses `path`. NOT_FOUND where there is no such file, else as ParseSafetensors.
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  absl::Span<const std::byte> bytes() const { return file_.bytes(); }
  const SafetensorsContents& contents() const { return contents_; }

  // The tensor of that name, borrowed from this file, or nullptr.
  const StoredTensor* Find(const std::string& name) const;

  // Says that `bytes` (part of this file) won't be read again soon; see MappedFile::Release.
  void Release(absl::Span<const std::byte> bytes) const { file_.Release(bytes); }

 private:
  SafetensorsFile(MappedFile file, SafetensorsContents contents);

  MappedFile file_;
  SafetensorsContents contents_;
};

}  // namespace sluice
