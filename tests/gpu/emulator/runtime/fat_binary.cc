#include "tests/gpu/emulator/runtime/fat_binary.h"

#include <cstdint>
#include <cstring>

#include "absl/status/status.h"

namespace sluice::cuda::emulator {
namespace {

// fatbinary_section.h of the CUDA Toolkit.
struct Wrapper {
  int32_t magic;
  int32_t version;
  const void* data;
  void* files;
};
constexpr int32_t kWrapperMagic = 0x466243b1;

// How the data are laid out is documented nowhere; so it is in what nvcc 13 writes.
struct Header {
  uint32_t magic;
  uint16_t version;
  uint16_t header_bytes;
  uint64_t bytes;  // behind it
};
constexpr uint32_t kMagic = 0xba55ed50;

struct Entry {
  uint16_t kind;
  uint16_t version;
  uint32_t header_bytes;
  uint64_t bytes;  // behind its header
  uint32_t compressed_bytes;
};
constexpr uint16_t kPtx = 1;

}  // namespace

absl::StatusOr<std::vector<std::string>> PtxOf(const void* fat_binary) {
  Wrapper wrapper;
  std::memcpy(&wrapper, fat_binary, sizeof(wrapper));
  Header header{};
  if (wrapper.magic == kWrapperMagic) std::memcpy(&header, wrapper.data, sizeof(header));
  if (header.magic != kMagic) return absl::FailedPreconditionError("no fat binary of CUDA's");
  const char* at = static_cast<const char*>(wrapper.data) + header.header_bytes;
  const char* const end = at + header.bytes;
  std::vector<std::string> texts;
  while (at < end) {
    Entry entry;
    std::memcpy(&entry, at, sizeof(entry));
    at += entry.header_bytes;
    if (entry.kind == kPtx && entry.compressed_bytes == 0) {
      texts.emplace_back(at, strnlen(at, entry.bytes));
    }
    at += entry.bytes;
  }
  if (texts.empty()) return absl::FailedPreconditionError("kernels without PTX that can be read");
  return texts;
}

}  // namespace sluice::cuda::emulator
