#include "services/model/tensor_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace sluice {

std::string ShapeText(absl::Span<const uint64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

TensorFile::TensorFile(MappedFile file, TensorFileContents contents)
    : file_(std::move(file)), contents_(std::move(contents)) {}

const StoredTensor* TensorFile::Find(const std::string& name) const {
  const auto found = contents_.tensors.find(name);
  return found == contents_.tensors.end() ? nullptr : &found->second;
}

}  // namespace sluice
