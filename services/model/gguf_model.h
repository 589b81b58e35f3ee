// A model in GGUF: one file, or the parts of a set that was split. Maps the files and reads their
// indexes; no weight is read. Move-only; views into it are valid while it lives where it is.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/model/gguf/gguf_container.h"
#include "services/model/gguf/gguf_fields.h"
#include "services/model/mapped_file.h"
#include "services/model/tensor_file.h"

namespace sluice {

// Whether a value of --model means a GGUF file rather than a folder: by its name.
bool IsGgufPath(const std::string& model);

// The name of such a file without folder, extension and the number of its part.
std::string GgufModelName(const std::string& path);

class GgufModel {
 public:
  // `path` is that of the file, or of the first part, whose name ends in "-00001-of-0000N.gguf";
  // the other parts lie beside it. NOT_FOUND where a file is missing; INVALID_ARGUMENT where one
  // is malformed, belongs elsewhere in a set, or the parts do not hold what the first says.
  static absl::StatusOr<GgufModel> Open(const std::string& path);

  const std::string& path() const { return files_.front().path(); }
  const GgufMetadata& metadata() const { return metadata_; }
  GgufView view() const { return {path(), metadata_, tensors_}; }

  // The files with their tensors, in the order of the parts. The model is empty afterwards.
  std::vector<TensorFile> TakeFiles();

 private:
  GgufModel() = default;

  absl::Status Add(const std::string& path);
  absl::Status AddParts();

  std::vector<MappedFile> files_;
  std::vector<GgufContents> contents_;  // of each file
  GgufMetadata metadata_;               // of the first
  GgufTensors tensors_;                 // of all
};

}  // namespace sluice
