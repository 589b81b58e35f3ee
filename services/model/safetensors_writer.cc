#include "services/model/safetensors_writer.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace sluice {

std::string SafetensorsHeader(absl::Span<const TensorToWrite> tensors,
                              const std::map<std::string, std::string>& metadata) {
  constexpr size_t kAlignment = 8;
  auto header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (const TensorToWrite& tensor : tensors) {
    const uint64_t end = offset + tensor.bytes.size();
    header[tensor.name] = {
        {"dtype", Name(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  const uint64_t length = text.size();
  std::string prefix(sizeof(length), '\0');
  std::memcpy(prefix.data(), &length, sizeof(length));
  return prefix + text;
}

absl::Status WriteSafetensors(const std::string& path, absl::Span<const TensorToWrite> tensors,
                              const std::map<std::string, std::string>& metadata) {
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

}  // namespace sluice
