#include "services/model/safetensors_writer.h"

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"

namespace sluice {

std::string SafetensorsHeader(absl::Span<const TensorHeader> tensors,
                              const SafetensorsMetadata& metadata) {
  constexpr size_t kAlignment = 8;
  auto header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (const TensorHeader& tensor : tensors) {
    const uint64_t end = offset + tensor.num_bytes;
    header[tensor.name] = {
        {"dtype", tensor.type}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  const uint64_t length = text.size();
  std::string prefix(sizeof(length), '\0');
  std::memcpy(prefix.data(), &length, sizeof(length));
  return prefix + text;
}

std::string SafetensorsHeader(absl::Span<const TensorToWrite> tensors,
                              const SafetensorsMetadata& metadata) {
  std::vector<TensorHeader> headers;
  for (const TensorToWrite& tensor : tensors) {
    headers.push_back(
        {tensor.name, std::string(Name(tensor.dtype)), tensor.shape, tensor.bytes.size()});
  }
  return SafetensorsHeader(headers, metadata);
}

absl::Status WriteSafetensors(const std::string& path, absl::Span<const TensorToWrite> tensors,
                              const SafetensorsMetadata& metadata) {
  const std::string partial = path + ".partial";
  std::FILE* file = std::fopen(partial.c_str(), "wb");
  if (file == nullptr) return absl::UnavailableError(absl::StrCat(partial, ": ", strerror(errno)));
  const std::string header = SafetensorsHeader(tensors, metadata);
  bool written = std::fwrite(header.data(), 1, header.size(), file) == header.size();
  for (const TensorToWrite& tensor : tensors) {
    written = written &&
              std::fwrite(tensor.bytes.data(), 1, tensor.bytes.size(), file) == tensor.bytes.size();
  }
  written = std::fclose(file) == 0 && written;
  if (written && std::rename(partial.c_str(), path.c_str()) == 0) return absl::OkStatus();
  absl::Status failed = absl::UnavailableError(absl::StrCat(path, ": ", strerror(errno)));
  std::remove(partial.c_str());
  return failed;
}

SafetensorsStream::SafetensorsStream(std::string path, std::vector<TensorHeader> tensors,
                                     std::unique_ptr<std::FILE, Closer> file)
    : path_(std::move(path)), tensors_(std::move(tensors)), file_(std::move(file)) {
  for (const TensorHeader& tensor : tensors_) bytes_left_ += tensor.num_bytes;
}

absl::Status SafetensorsStream::Failed() const { return absl::ErrnoToStatus(errno, path_); }

absl::StatusOr<SafetensorsStream> SafetensorsStream::Create(std::string path,
                                                            std::vector<TensorHeader> tensors,
                                                            const SafetensorsMetadata& metadata) {
  const std::string header = SafetensorsHeader(tensors, metadata);
  std::unique_ptr<std::FILE, Closer> file(std::fopen(path.c_str(), "wb"));
  if (file == nullptr) return absl::ErrnoToStatus(errno, path);
  SafetensorsStream stream(std::move(path), std::move(tensors), std::move(file));
  stream.header_bytes_ = header.size();
  if (std::fwrite(header.data(), 1, header.size(), stream.file_.get()) != header.size()) {
    return stream.Failed();
  }
  return stream;
}

absl::Status SafetensorsStream::Append(absl::Span<const std::byte> bytes) {
  SLUICE_CHECK(bytes.size() <= bytes_left_);
  bytes_left_ -= bytes.size();
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) == bytes.size();
  return written ? absl::OkStatus() : Failed();
}

absl::Status SafetensorsStream::Finish(const SafetensorsMetadata& metadata) {
  SLUICE_CHECK(bytes_left_ == 0);
  const std::string header = SafetensorsHeader(tensors_, metadata);
  SLUICE_CHECK(header.size() == header_bytes_);
  bool written = std::fseek(file_.get(), 0, SEEK_SET) == 0;
  written = written && std::fwrite(header.data(), 1, header.size(), file_.get()) == header.size();
  written = written && std::fflush(file_.get()) == 0;
  if (!written) return Failed();
  return std::fclose(file_.release()) == 0 ? absl::OkStatus() : Failed();
}

}  // namespace sluice
