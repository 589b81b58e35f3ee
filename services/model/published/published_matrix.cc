#include "services/model/published/published_matrix.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "kernels/check.h"
#include "services/model/published/awq.h"
#include "services/model/published/bits_and_bytes.h"
#include "services/model/published/fp4.h"
#include "services/model/published/gptq.h"
#include "services/model/published/packed_int.h"
#include "services/model/published/plain_int.h"

namespace sluice {
namespace {

std::string StemOf(const std::string& name) {
  return std::string(absl::StripSuffix(name, ".weight"));
}

bool IsInMxFp4Stack(const PackedFiles& files, const std::string& name) {
  return files.Has(name + kFp4BlocksSuffix);
}

// The tensor without which nothing is stored in the layout; empty: other code reads it.
std::string TensorThatTells(const std::string& name, PublishedLayout layout) {
  switch (layout) {
    case PublishedLayout::kFp8:
    case PublishedLayout::kGguf:
      return "";
    case PublishedLayout::kAwq:
    case PublishedLayout::kGptq:
      return StemOf(name) + ".qweight";
    case PublishedLayout::kPackedInt:
    case PublishedLayout::kNvFp4:
    case PublishedLayout::kMxFp4:
      return name + "_packed";
    case PublishedLayout::kPlainInt:
      return name + "_scale";
    case PublishedLayout::kBitsAndBytes:
      return name + ".absmax";
  }
  return "";
}

absl::Status CheckGroups(const std::string& where, int64_t columns, int64_t group_size) {
  if (columns % group_size == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(where, " has ", columns, " inputs in groups of ", group_size,
                   "; accepted: a multiple of the group_size in config.json"));
}

}  // namespace

absl::Status PublishedMatrix::ReadRows(const MatrixPart&, WeightFormat,
                                       absl::Span<std::byte>) const {
  SLUICE_CHECK(false);  // it is readable as none
  return absl::OkStatus();
}

std::vector<absl::Span<const std::byte>> PublishedMatrix::BytesOf(const MatrixPart&) const {
  std::vector<absl::Span<const std::byte>> bytes;
  for (const PackedTensor& tensor : tensors_) bytes.push_back(tensor.bytes);
  return bytes;
}

uint64_t PublishedMatrix::num_bytes() const {
  uint64_t bytes = 0;
  for (const PackedTensor& tensor : tensors_) bytes += tensor.bytes.size();
  return bytes;
}

bool PublishedMatrix::IsIn(const PackedFiles& files, const std::string& name,
                           const PublishedScheme& scheme) {
  if (scheme.layout == PublishedLayout::kMxFp4 && IsInMxFp4Stack(files, name)) return true;
  const std::string tensor = TensorThatTells(name, scheme.layout);
  return !tensor.empty() && files.Has(tensor);
}

absl::StatusOr<std::unique_ptr<PublishedMatrix>> PublishedMatrix::Open(
    const PackedFiles& files, const std::string& name, int64_t rows, int64_t columns,
    const PublishedScheme& scheme, int64_t matrices) {
  const std::string stem = StemOf(name);
  PublishedScheme of = scheme;
  if (of.group_size == 0) of.group_size = columns;
  const std::string where = absl::StrCat(files.folder, ": tensor \"", name, "\"");
  if (absl::Status whole = CheckGroups(where, columns, of.group_size); !whole.ok()) return whole;
  switch (scheme.layout) {
    case PublishedLayout::kAwq:
      return OpenAwq(files, stem, rows, columns, of.group_size);
    case PublishedLayout::kGptq:
      return OpenGptq(files, stem, rows, columns, of);
    case PublishedLayout::kPackedInt:
      return OpenPackedInt(files, stem, rows, columns, of);
    case PublishedLayout::kPlainInt:
      return OpenPlainInt(files, stem, rows, columns, of);
    case PublishedLayout::kNvFp4:
      return OpenNvFp4(files, stem, rows, columns);
    case PublishedLayout::kMxFp4:
      if (IsInMxFp4Stack(files, name)) return OpenMxFp4Stack(files, name, rows, columns, matrices);
      return OpenMxFp4(files, stem, rows, columns);
    case PublishedLayout::kBitsAndBytes:
      return OpenBitsAndBytes(files, name, rows, columns);
    case PublishedLayout::kFp8:
    case PublishedLayout::kGguf:
      break;
  }
  SLUICE_CHECK(false);  // IsIn() says so
  return absl::InternalError("");
}

}  // namespace sluice
