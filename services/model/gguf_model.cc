#include "services/model/gguf_model.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "services/model/stand_in.h"

namespace sluice {
namespace {

constexpr char kExtension[] = ".gguf";
constexpr int64_t kMaxParts = 99'999;  // as many as its names can count

// Plain elements as safetensors have them; the others in blocks.
StoredTensor StoredOf(const GgufTensor& tensor) {
  const GgufType& type = *tensor.type;
  StoredType stored{.name = type.name, .size = type.bytes, .dtype = std::nullopt};
  const std::string_view name = type.name;
  if (name == "F32") stored.dtype = DType::kF32;
  if (name == "F16") stored.dtype = DType::kF16;
  if (name == "BF16") stored.dtype = DType::kBF16;
  if (!stored.dtype.has_value() && type.decode != nullptr) {
    stored.block = type.weights;
    stored.decode = type.decode;
  }
  return {stored, tensor.shape, tensor.bytes};
}

// An integer of the set's metadata; `otherwise` where it is missing.
int64_t PartNumber(const GgufMetadata& metadata, std::string_view key, int64_t otherwise) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? otherwise : found->second.Int().value_or(-1);
}

std::string PartSuffix(int64_t number, int64_t count) {
  return absl::StrFormat("-%05d-of-%05d%s", number, count, kExtension);
}

}  // namespace

bool IsGgufPath(const std::string& model) {
  std::error_code ignored;
  return absl::EndsWith(model, kExtension) && !std::filesystem::is_directory(model, ignored);
}

std::string GgufModelName(const std::string& path) {
  constexpr size_t kPartDigits = 15;  // "-00001-of-00002"
  const std::string stem = std::filesystem::path(path).stem().string();
  if (stem.size() <= kPartDigits) return stem;
  const absl::string_view tail = absl::string_view(stem).substr(stem.size() - kPartDigits);
  const bool is_part = tail[0] == '-' && tail.substr(6, 4) == "-of-" &&
                       std::all_of(tail.begin() + 1, tail.begin() + 6, absl::ascii_isdigit) &&
                       std::all_of(tail.begin() + 10, tail.end(), absl::ascii_isdigit);
  return is_part ? stem.substr(0, stem.size() - kPartDigits) : stem;
}

absl::StatusOr<GgufModel> GgufModel::Open(const std::string& path) {
  GgufModel model;
  absl::Status added = model.Add(path);
  if (added.ok()) added = model.AddParts();
  if (!added.ok()) return added;
  return model;
}

absl::Status GgufModel::Add(const std::string& path) {
  auto file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  const std::string_view beginning(reinterpret_cast<const char*>(file->bytes().data()),
                                   std::min<size_t>(file->bytes().size(), 64));
  if (absl::Status real = CheckIsNoStandIn(beginning, path); !real.ok()) return real;
  auto contents = ParseGguf(file->bytes(), path);
  if (!contents.ok()) return contents.status();
  for (const auto& [name, tensor] : contents->tensors) {
    if (tensors_.emplace(name, tensor).second) continue;
    return absl::InvalidArgumentError(absl::StrCat(path, ": has the tensor \"",
                                                   absl::Utf8SafeCHexEscape(name),
                                                   "\", which another part of the set has, too"));
  }
  if (files_.empty()) metadata_ = contents->metadata;
  files_.push_back(*std::move(file));
  contents_.push_back(*std::move(contents));
  return absl::OkStatus();
}

absl::Status GgufModel::AddParts() {
  const int64_t count = PartNumber(metadata_, "split.count", 1);
  if (count <= 1 && count >= 0) return absl::OkStatus();
  const std::string first = path();
  std::string stem = first;
  const bool is_first = count > 0 && count <= kMaxParts &&
                        PartNumber(metadata_, "split.no", 0) == 0 &&
                        absl::EndsWith(first, PartSuffix(1, count));
  if (!is_first) {
    return absl::InvalidArgumentError(
        absl::StrCat(first, ": is part ", PartNumber(metadata_, "split.no", 0) + 1, " of ", count,
                     "; accepted: the first of a set, whose name ends in ",
                     PartSuffix(1, std::clamp<int64_t>(count, 1, kMaxParts))));
  }
  stem.resize(first.size() - PartSuffix(1, count).size());
  for (int64_t number = 2; number <= count; ++number) {
    const std::string part = absl::StrCat(stem, PartSuffix(number, count));
    absl::Status added = Add(part);
    if (!added.ok()) {
      return absl::Status(added.code(), absl::StrCat(added.message(), " (named by ", first, ")"));
    }
    const GgufMetadata& metadata = contents_.back().metadata;
    if (PartNumber(metadata, "split.no", -1) == number - 1 &&
        PartNumber(metadata, "split.count", -1) == count) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        part, ": says it is part ", PartNumber(metadata, "split.no", -1) + 1, " of ",
        PartNumber(metadata, "split.count", -1), "; accepted: ", number, " of ", count));
  }
  const int64_t expected = PartNumber(metadata_, "split.tensors.count", -1);
  if (expected < 0 || expected == static_cast<int64_t>(tensors_.size())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(first, ": says its set holds ", expected,
                                                 " tensors; its ", count, " parts hold ",
                                                 tensors_.size()));
}

std::vector<TensorFile> GgufModel::TakeFiles() {
  std::vector<TensorFile> files;
  for (size_t i = 0; i < files_.size(); ++i) {
    TensorFileContents contents;
    for (const auto& [name, tensor] : contents_[i].tensors) {
      contents.tensors.emplace(name, StoredOf(tensor));
    }
    files.emplace_back(std::move(files_[i]), std::move(contents));
  }
  *this = GgufModel();
  return files;
}

}  // namespace sluice
