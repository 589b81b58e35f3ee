#include "services/model/published/packed_tensor.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/check.h"
#include "kernels/dtype.h"

namespace sluice {
namespace {

template <class T>
T Element(absl::Span<const std::byte> bytes, int64_t index) {
  const size_t offset = static_cast<size_t>(index) * sizeof(T);
  SLUICE_CHECK(offset + sizeof(T) <= bytes.size());
  T element;
  std::memcpy(&element, bytes.data() + offset, sizeof(T));
  return element;
}

bool HasShape(const PackedTensor& tensor, const std::vector<int64_t>& accepted) {
  return std::equal(accepted.begin(), accepted.end(), tensor.shape.begin(), tensor.shape.end(),
                    [](int64_t size, uint64_t stored) {
                      return size == -1 || static_cast<uint64_t>(size) == stored;
                    });
}

std::string ShapeOr(const std::vector<std::vector<int64_t>>& shapes) {
  return absl::StrJoin(shapes, " or ", [](std::string* out, const std::vector<int64_t>& shape) {
    absl::StrAppend(out, "[", absl::StrJoin(shape, ", "), "]");
  });
}

}  // namespace

uint32_t PackedTensor::Word(int64_t index) const { return Element<uint32_t>(bytes, index); }

float PackedTensor::Number(int64_t index) const {
  if (type == "F32") return Element<float>(bytes, index);
  const auto narrow = Element<uint16_t>(bytes, index);
  return type == "F16" ? FloatFromHalf(narrow) : FloatFromBFloat16(narrow);
}

int64_t PackedTensor::Integer(int64_t index) const {
  return type == "I64" ? Element<int64_t>(bytes, index) : Element<int32_t>(bytes, index);
}

absl::Status PackedTensor::Error(const std::string& message) const {
  return absl::InvalidArgumentError(absl::StrCat(file, ": tensor \"", name, "\" ", message));
}

absl::StatusOr<PackedTensor> PackedFiles::Find(
    const std::string& name, const std::vector<std::string>& types,
    const std::vector<std::vector<int64_t>>& shapes) const {
  PackedTensor found = find(name);
  if (found.name.empty()) {
    return absl::NotFoundError(absl::StrCat(folder, ": tensor \"", name,
                                            "\" is missing; accepted: ", absl::StrJoin(types, ", "),
                                            " of shape ", ShapeOr(shapes)));
  }
  if (std::find(types.begin(), types.end(), found.type) == types.end()) {
    return found.Error(
        absl::StrCat("has dtype ", found.type, "; accepted: ", absl::StrJoin(types, ", ")));
  }
  const bool fits = std::any_of(shapes.begin(), shapes.end(),
                                [&](const auto& shape) { return HasShape(found, shape); });
  if (!fits) {
    return found.Error(absl::StrCat("has shape [", absl::StrJoin(found.shape, ", "),
                                    "]; accepted: ", ShapeOr(shapes)));
  }
  return found;
}

}  // namespace sluice
