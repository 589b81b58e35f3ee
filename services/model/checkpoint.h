// The tensors of a model by name, whatever container they lie in: a folder's `model.safetensors`,
// or the shards that `model.safetensors.index.json` names, or a GGUF file or split set. Reads
// slices, converting on the way, and touches only the pages that hold the slice. Immutable once
// open, so safe to share among threads.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/dtype.h"
#include "services/model/tensor_file.h"
#include "services/model/tensor_slice.h"

namespace sluice {

class Checkpoint {
 public:
  // Opens every file of a folder, or of a GGUF model, and checks that each tensor the index names
  // is in the file it names. NOT_FOUND where the folder or a file is missing, INVALID_ARGUMENT
  // where one is malformed.
  static absl::StatusOr<Checkpoint> Open(const std::string& model);

  // Whether there is the file that Open begins with, good or bad.
  static bool IsIn(const std::string& model);

  // The folder, or the GGUF file.
  const std::string& folder() const { return folder_; }
  bool is_gguf() const { return is_gguf_; }
  const std::vector<TensorFile>& files() const { return files_; }

  // Whether `name` can be read, under its own name or as an alias: a file's metadata may say
  // {"model.embed_tokens.weight": "lm_head.weight"} to store tied tensors once.
  bool Has(const std::string& name) const { return Locate(name).tensor != nullptr; }

  // The stored tensor as it is, borrowed from the checkpoint; nullptr where there is none.
  const StoredTensor* Peek(const std::string& name) const { return Locate(name).tensor; }

  // The path of the file that holds it; "" where there is none.
  std::string PathOf(const std::string& name) const;

  // Says that these bytes of a stored tensor won't be read again soon; see MappedFile::Release.
  void Release(absl::Span<const std::byte> bytes) const;

  // The stored tensor, checked: it has the expected shape (a vector is stored with one dimension)
  // and one of the types F32, F16 and BF16 or, in GGUF, one of its block formats. NOT_FOUND or
  // INVALID_ARGUMENT naming file and tensor.
  absl::StatusOr<StoredTensor> Find(const std::string& name, MatrixShape expected) const;

  // The stored tensor, checked likewise but to be of the type that files spell `type`, such as
  // "I8".
  absl::StatusOr<StoredTensor> FindOfType(const std::string& name, MatrixShape expected,
                                          const char* type) const;

  // Copies a slice of what FindOfType finds, elements as they are stored, row-major without
  // padding. REQUIRES: the slice lies within `expected`, `out` has the size of its elements.
  absl::Status Copy(const std::string& name, MatrixShape expected, const char* type,
                    const TensorSlice& slice, absl::Span<std::byte> out) const;

  // Reads a slice of a tensor of the expected shape into `out`, row-major without padding, as
  // elements of type `as`: F32 (exact; of GGUF's blocks as their decoders have it) or BF16 (rounded
  // to nearest even). Errors as Find.
  // REQUIRES: the slice lies within `expected`, out.size() == slice.size() * SizeOf(as).
  absl::Status Read(const std::string& name, MatrixShape expected, const TensorSlice& slice,
                    DType as, absl::Span<std::byte> out) const;

 private:
  struct Location {
    const TensorFile* file = nullptr;
    const StoredTensor* tensor = nullptr;
  };

  explicit Checkpoint(std::string folder) : folder_(std::move(folder)) {}

  void AddFile(TensorFile file);
  absl::Status AddSingleFile(const std::string& path);
  absl::Status AddShards(const std::string& index_path);
  absl::Status AddGguf();
  std::string IndexName() const;                   // of the file that says which tensors there are
  Location Locate(const std::string& name) const;  // under its name or as an alias
  Location LocateStored(const std::string& name) const;  // under its name
  // `type`: the only one accepted; nullptr: those that Find accepts.
  absl::StatusOr<Location> LocateChecked(const std::string& name, MatrixShape expected,
                                         const char* type) const;

  std::string folder_;
  bool is_gguf_ = false;
  std::vector<TensorFile> files_;
  std::map<std::string, size_t> file_of_;  // tensor name -> index in files_
};

}  // namespace sluice
