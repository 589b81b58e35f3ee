// Writes safetensors files: the counterpart of safetensors.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/dtype.h"

namespace sluice {

using SafetensorsMetadata = std::map<std::string, std::string>;

struct TensorToWrite {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<uint64_t> shape;
  absl::Span<const std::byte> bytes;  // row-major, little-endian; as many as dtype and shape give
};

// A tensor whose bytes come later.
struct TensorHeader {
  std::string name;
  std::string type;  // as files spell it, such as "I8"
  std::vector<uint64_t> shape;
  uint64_t num_bytes = 0;  // as type and shape give them
};

// The bytes before the tensors' data: length and header, padded so that data starts at a multiple
// of 8. REQUIRES: names are distinct UTF-8.
std::string SafetensorsHeader(absl::Span<const TensorToWrite> tensors,
                              const SafetensorsMetadata& metadata);
std::string SafetensorsHeader(absl::Span<const TensorHeader> tensors,
                              const SafetensorsMetadata& metadata);

// Writes `path` whole or not at all (a file beside it is renamed when complete), tensors in the
// order given. UNAVAILABLE with the system's reason where that fails.
absl::Status WriteSafetensors(const std::string& path, absl::Span<const TensorToWrite> tensors,
                              const SafetensorsMetadata& metadata = {});

// A file that is written as its tensors come, so that none need be held. Not thread-safe. Nothing
// is removed where a call fails: what is at `path` is then no whole file. Errors name the path and
// have the system's reason and the status that goes with it, such as RESOURCE_EXHAUSTED for a full
// disk.
class SafetensorsStream {
 public:
  static absl::StatusOr<SafetensorsStream> Create(std::string path,
                                                  std::vector<TensorHeader> tensors,
                                                  const SafetensorsMetadata& metadata);

  // The next bytes of the tensors, one after another in the order of the headers.
  absl::Status Append(absl::Span<const std::byte> bytes);

  // Ends the file, with other metadata than it began with.
  // REQUIRES: all bytes were appended; `metadata` has the keys given to Create, with values as
  // long.
  absl::Status Finish(const SafetensorsMetadata& metadata);

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  SafetensorsStream(std::string path, std::vector<TensorHeader> tensors,
                    std::unique_ptr<std::FILE, Closer> file);

  absl::Status Failed() const;

  std::string path_;
  std::vector<TensorHeader> tensors_;
  std::unique_ptr<std::FILE, Closer> file_;
  uint64_t header_bytes_ = 0;
  uint64_t bytes_left_ = 0;
};

}  // namespace sluice
