#include "services/model/checkpoint.h"

#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "services/model/gguf_model.h"
#include "services/model/json_fields.h"
#include "services/model/safetensors.h"
#include "services/model/tensor_convert.h"

namespace sluice {
namespace {

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";

// True also where that can't be told: opening the file will say why.
bool MayExist(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error) || error;
}

constexpr char kPlainTypes[] = "F32, F16, BF16";

// Whether a tensor of this type is `accepted`; nullptr: whether it holds numbers that can be read.
bool IsAccepted(const StoredType& type, const char* accepted) {
  if (accepted != nullptr) return std::strcmp(type.name, accepted) == 0;
  return type.is_in_blocks() || type.dtype == DType::kF32 || type.dtype == DType::kF16 ||
         type.dtype == DType::kBF16;
}

// A vector may be stored as [N] or as [N, 1], in GGUF files also as a matrix of as many: the same bytes.
bool HasShape(const StoredTensor& tensor, MatrixShape expected, bool takes_matrices) {
  const std::vector<uint64_t>& shape = tensor.shape;
  if (expected.matrices > 0) {
    return shape == std::vector<uint64_t>{static_cast<uint64_t>(expected.matrices),
                                          static_cast<uint64_t>(expected.rows / expected.matrices),
                                          static_cast<uint64_t>(expected.columns)};
  }
  const auto rows = static_cast<uint64_t>(expected.rows);
  if (takes_matrices && expected.columns == 1 && shape.size() == 2 && shape[0] > 0) {
    return rows % shape[0] == 0 && rows / shape[0] == shape[1];
  }
  if (shape.empty() || shape[0] != rows) return false;
  if (shape.size() == 1) return expected.columns == 1;
  return shape.size() == 2 && shape[1] == static_cast<uint64_t>(expected.columns);
}

std::string MatrixShapeText(MatrixShape shape) {
  if (shape.matrices > 0) {
    return absl::StrCat("[", shape.matrices, ", ", shape.rows / shape.matrices, ", ", shape.columns,
                        "]");
  }
  return shape.columns == 1 ? absl::StrCat("[", shape.rows, "]")
                            : absl::StrCat("[", shape.rows, ", ", shape.columns, "]");
}

// Calls read_run(its first byte, the index of its first element in the slice, its number of
// elements) for every run of the slice that is contiguous in the file.
template <typename ReadRun>
void ForEachRun(MatrixShape shape, const TensorSlice& slice, size_t element_size,
                const std::byte* base, ReadRun read_run) {
  const bool whole_rows = slice.columns.size() == shape.columns;
  const int64_t run = whole_rows ? slice.size() : slice.columns.size();
  if (run == 0) return;
  for (int64_t done = 0, row = slice.rows.begin; done < slice.size(); done += run, ++row) {
    const int64_t first = row * shape.columns + slice.columns.begin;
    read_run(base + static_cast<size_t>(first) * element_size, done, run);
  }
}

// From the first byte of the slice to its last.
absl::Span<const std::byte> Extent(MatrixShape shape, const TensorSlice& slice, size_t element_size,
                                   absl::Span<const std::byte> bytes) {
  if (slice.size() == 0) return {};
  const int64_t first = slice.rows.begin * shape.columns + slice.columns.begin;
  const int64_t last = (slice.rows.end - 1) * shape.columns + slice.columns.end;
  return bytes.subspan(static_cast<size_t>(first) * element_size,
                       static_cast<size_t>(last - first) * element_size);
}

// The rows that a tensor's blocks lie in; those of a vector are one row.
MatrixShape RowsOf(const StoredTensor& tensor, MatrixShape shape) {
  return tensor.shape.size() == 1 ? MatrixShape{1, shape.rows} : shape;
}
TensorSlice SliceOfRows(const StoredTensor& tensor, const TensorSlice& slice) {
  return tensor.shape.size() == 1 ? TensorSlice{{0, 1}, slice.rows} : slice;
}

// Decodes a slice of a tensor in blocks, which may begin and end inside blocks, row by row.
void DecodeSlice(const StoredTensor& tensor, MatrixShape shape, const TensorSlice& slice, DType as,
                 absl::Span<std::byte> out) {
  const StoredType& type = tensor.type;
  const int64_t first = slice.columns.begin / type.block;
  const int64_t last = (slice.columns.end + type.block - 1) / type.block;
  const size_t row_bytes = type.BytesOf(static_cast<uint64_t>(shape.columns));
  const size_t out_bytes = static_cast<size_t>(slice.columns.size()) * SizeOf(as);
  std::vector<float> row(static_cast<size_t>((last - first) * type.block));
  const float* wanted = row.data() + (slice.columns.begin - first * type.block);
  for (int64_t r = slice.rows.begin; r < slice.rows.end && out_bytes > 0; ++r) {
    const std::byte* blocks = tensor.bytes.data() + static_cast<size_t>(r) * row_bytes;
    type.decode(blocks + first * type.size, last - first, row.data());
    ConvertElements(DType::kF32, reinterpret_cast<const std::byte*>(wanted), as,
                    out.first(out_bytes));
    out.remove_prefix(out_bytes);
  }
}

// Whole rows.
absl::Span<const std::byte> ExtentOfRows(const StoredTensor& tensor, MatrixShape shape,
                                         const TensorSlice& slice) {
  const size_t row_bytes = tensor.type.BytesOf(static_cast<uint64_t>(shape.columns));
  return tensor.bytes.subspan(static_cast<size_t>(slice.rows.begin) * row_bytes,
                              static_cast<size_t>(slice.rows.size()) * row_bytes);
}

bool Within(IndexRange range, int64_t size) {
  return 0 <= range.begin && range.begin <= range.end && range.end <= size;
}

// Tensor name -> file name. A file must lie in the folder itself: the index of a downloaded model
// is no reason to read elsewhere.
absl::StatusOr<std::map<std::string, std::string>> ReadIndex(const std::string& path) {
  const auto text = ReadTextFile(path);
  if (!text.ok()) return text.status();
  const auto index = ParseJson(*text, path);
  if (!index.ok()) return index.status();
  JsonFields fields(path, *index);
  const nlohmann::json* weight_map = fields.Get("weight_map");
  if (weight_map == nullptr || !weight_map->is_object() || weight_map->empty()) {
    fields.Reject("weight_map", "an object that maps tensor names to files of this folder");
    return fields.status();
  }
  std::map<std::string, std::string> files;
  for (const auto& [name, value] : weight_map->items()) {
    const std::string file = value.is_string() ? value.get<std::string>() : "";
    if (file.empty() || file == "." || file == ".." || file.find('/') != file.npos) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": weight_map names ", ValueText(value), " as the file of tensor \"",
                       absl::Utf8SafeCHexEscape(name), "\"; accepted: a file of this folder"));
    }
    files.emplace(name, file);
  }
  return files;
}

// What people have where they lack the files that are read.
std::string FoundInstead(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    const std::string extension = entry.path().extension().string();
    if (entry.is_symlink(ignored) && !entry.exists(ignored)) {
      return absl::StrCat("; ", name, " is a link to a file that is not there");
    }
    if (extension == ".gguf") {
      return absl::StrCat("; ", name, " is a model by itself: name the file with --model");
    }
    for (const char* other : {".bin", ".pth", ".pt", ".h5", ".msgpack", ".onnx"}) {
      if (extension == other) {
        return absl::StrCat("; ", name, " is of a format that is not read");
      }
    }
  }
  return "";
}

}  // namespace

bool Checkpoint::IsIn(const std::string& model) {
  if (IsGgufPath(model)) return MayExist(model);
  return MayExist(PathIn(model, kSingleFile)) || MayExist(PathIn(model, kIndexFile));
}

absl::StatusOr<Checkpoint> Checkpoint::Open(const std::string& model) {
  Checkpoint checkpoint(model);
  const std::string single = PathIn(model, kSingleFile);
  const std::string index = PathIn(model, kIndexFile);
  absl::Status added;
  if (IsGgufPath(model)) {
    added = checkpoint.AddGguf();
  } else if (MayExist(single)) {
    added = checkpoint.AddSingleFile(single);
  } else if (MayExist(index)) {
    added = checkpoint.AddShards(index);
  } else {
    added = absl::NotFoundError(absl::StrCat(model, ": holds no weights; accepted: ", kSingleFile,
                                             " or ", kIndexFile, " with the files it names",
                                             FoundInstead(model)));
  }
  if (!added.ok()) return added;
  return checkpoint;
}

void Checkpoint::AddFile(TensorFile file) {
  for (const auto& [name, tensor] : file.contents().tensors) file_of_.emplace(name, files_.size());
  files_.push_back(std::move(file));
}

absl::Status Checkpoint::AddSingleFile(const std::string& path) {
  auto file = OpenSafetensors(path);
  if (!file.ok()) return file.status();
  AddFile(*std::move(file));
  return absl::OkStatus();
}

absl::Status Checkpoint::AddGguf() {
  auto gguf = GgufModel::Open(folder_);
  if (!gguf.ok()) return gguf.status();
  is_gguf_ = true;
  for (TensorFile& file : gguf->TakeFiles()) AddFile(std::move(file));
  return absl::OkStatus();
}

std::string Checkpoint::IndexName() const {
  return files_.size() == 1 || is_gguf_ ? files_[0].path() : PathIn(folder_, kIndexFile);
}

absl::Status Checkpoint::AddShards(const std::string& index_path) {
  const auto file_names = ReadIndex(index_path);
  if (!file_names.ok()) return file_names.status();
  std::map<std::string, size_t> opened;  // file name -> index in files_
  for (const auto& [tensor, file_name] : *file_names) {
    const auto [entry, is_new] = opened.emplace(file_name, files_.size());
    if (is_new) {
      auto file = OpenSafetensors(PathIn(folder_, file_name));
      if (!file.ok()) {
        return absl::Status(file.status().code(),
                            absl::StrCat(file.status().message(), " (named by ", index_path, ")"));
      }
      files_.push_back(*std::move(file));
    }
    if (files_[entry->second].Find(tensor) == nullptr) {
      return absl::NotFoundError(absl::StrCat(files_[entry->second].path(), ": has no tensor \"",
                                              absl::Utf8SafeCHexEscape(tensor), "\", which ",
                                              index_path, " places there"));
    }
    file_of_.emplace(tensor, entry->second);
  }
  return absl::OkStatus();
}

Checkpoint::Location Checkpoint::LocateStored(const std::string& name) const {
  const auto found = file_of_.find(name);
  if (found == file_of_.end()) return {};
  const TensorFile& file = files_[found->second];
  return {&file, file.Find(name)};
}

Checkpoint::Location Checkpoint::Locate(const std::string& name) const {
  if (const Location stored = LocateStored(name); stored.tensor != nullptr) return stored;
  for (const TensorFile& file : files_) {
    const auto& metadata = file.contents().metadata;
    if (const auto alias = metadata.find(name); alias != metadata.end()) {
      return LocateStored(alias->second);
    }
  }
  return {};
}

std::string Checkpoint::PathOf(const std::string& name) const {
  const Location found = Locate(name);
  return found.file == nullptr ? "" : found.file->path();
}

void Checkpoint::Release(absl::Span<const std::byte> bytes) const {
  for (const TensorFile& file : files_) {
    const absl::Span<const std::byte> all = file.bytes();
    if (all.data() <= bytes.data() && bytes.data() + bytes.size() <= all.data() + all.size()) {
      return file.Release(bytes);
    }
  }
}

absl::StatusOr<Checkpoint::Location> Checkpoint::LocateChecked(const std::string& name,
                                                               MatrixShape expected,
                                                               const char* type) const {
  const Location found = Locate(name);
  if (found.tensor == nullptr) {
    return absl::NotFoundError(absl::StrCat(IndexName(), ": tensor \"", name, "\" of shape ",
                                            MatrixShapeText(expected), " is missing"));
  }
  const StoredTensor& tensor = *found.tensor;
  if (!HasShape(tensor, expected, is_gguf_)) {
    return absl::InvalidArgumentError(
        absl::StrCat(found.file->path(), ": tensor \"", name, "\" has shape ",
                     ShapeText(tensor.shape), "; accepted: ", MatrixShapeText(expected),
                     is_gguf_ ? ", as its metadata has it" : ", as config.json has it"));
  }
  if (!IsAccepted(tensor.type, type)) {
    return absl::InvalidArgumentError(
        absl::StrCat(found.file->path(), ": tensor \"", name, "\" has dtype ", tensor.type.name,
                     "; accepted: ", type == nullptr ? kPlainTypes : type));
  }
  return found;
}

absl::StatusOr<StoredTensor> Checkpoint::Find(const std::string& name, MatrixShape expected) const {
  const auto found = LocateChecked(name, expected, nullptr);
  if (!found.ok()) return found.status();
  return *found->tensor;
}

absl::StatusOr<StoredTensor> Checkpoint::FindOfType(const std::string& name, MatrixShape expected,
                                                    const char* type) const {
  const auto found = LocateChecked(name, expected, type);
  if (!found.ok()) return found.status();
  return *found->tensor;
}

absl::Status Checkpoint::Copy(const std::string& name, MatrixShape expected, const char* type,
                              const TensorSlice& slice, absl::Span<std::byte> out) const {
  SLUICE_CHECK(Within(slice.rows, expected.rows) && Within(slice.columns, expected.columns));
  const auto found = LocateChecked(name, expected, type);
  if (!found.ok()) return found.status();
  const StoredTensor& tensor = *found->tensor;
  const size_t element_size = static_cast<size_t>(tensor.type.size);
  SLUICE_CHECK(out.size() == static_cast<size_t>(slice.size()) * element_size);
  ForEachRun(expected, slice, element_size, tensor.bytes.data(),
             [&](const std::byte* in, int64_t first, int64_t count) {
               std::memcpy(out.data() + static_cast<size_t>(first) * element_size, in,
                           static_cast<size_t>(count) * element_size);
             });
  found->file->Release(Extent(expected, slice, element_size, tensor.bytes));
  return absl::OkStatus();
}

absl::Status Checkpoint::Read(const std::string& name, MatrixShape expected,
                              const TensorSlice& slice, DType as, absl::Span<std::byte> out) const {
  SLUICE_CHECK(Within(slice.rows, expected.rows) && Within(slice.columns, expected.columns));
  SLUICE_CHECK(out.size() == static_cast<size_t>(slice.size()) * SizeOf(as));
  const auto found = LocateChecked(name, expected, nullptr);
  if (!found.ok()) return found.status();
  const StoredTensor& tensor = *found->tensor;
  if (tensor.type.is_in_blocks()) {
    const MatrixShape shape = RowsOf(tensor, expected);
    const TensorSlice rows = SliceOfRows(tensor, slice);
    DecodeSlice(tensor, shape, rows, as, out);
    found->file->Release(ExtentOfRows(tensor, shape, rows));
    return absl::OkStatus();
  }
  const size_t element_size = static_cast<size_t>(tensor.type.size);
  ForEachRun(expected, slice, element_size, tensor.bytes.data(),
             [&](const std::byte* in, int64_t first, int64_t count) {
               ConvertElements(*tensor.type.dtype, in, as,
                               out.subspan(static_cast<size_t>(first) * SizeOf(as),
                                           static_cast<size_t>(count) * SizeOf(as)));
             });
  found->file->Release(Extent(expected, slice, element_size, tensor.bytes));
  return absl::OkStatus();
}

}  // namespace sluice
