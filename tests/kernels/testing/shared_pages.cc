#include "tests/kernels/testing/shared_pages.h"

#include <sys/random.h>
#include <unistd.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "kernels/check.h"

namespace sluice {
namespace {

constexpr char kMagic[] = "sluice-pages-1";

// The key, which is drawn, is part of the name: it tells the process that was meant from another
// with its number.
SealedMemoryKind KindOf(uint64_t key) {
  return {.name = absl::StrCat(kMagic, "-", absl::Hex(key, absl::kZeroPad16)),
          .noun = "shared memory"};
}

uint64_t DrawKey() {
  uint64_t key = 0;
  SLUICE_CHECK(getrandom(&key, sizeof(key), 0) == sizeof(key));
  return key;
}

}  // namespace

absl::StatusOr<SharedPages> CreateSharedPages(size_t size_bytes) {
  const uint64_t key = DrawKey();
  absl::StatusOr<SealedMemory> memory = SealedMemory::Create(KindOf(key), size_bytes);
  if (!memory.ok()) return memory.status();
  std::string handle = absl::StrCat(kMagic, " ", getpid(), " ", memory->fd(), " ", key);
  return SharedPages{.memory = *std::move(memory), .handle = std::move(handle)};
}

absl::StatusOr<SealedMemory> OpenSharedPages(absl::string_view handle) {
  const std::vector<absl::string_view> parts = absl::StrSplit(handle, absl::MaxSplits(' ', 4));
  int64_t pid = 0;
  int fd = 0;
  uint64_t key = 0;
  if (parts.size() != 4 || parts[0] != kMagic || !absl::SimpleAtoi(parts[1], &pid) ||
      !absl::SimpleAtoi(parts[2], &fd) || !absl::SimpleAtoi(parts[3], &key)) {
    return absl::InvalidArgumentError(
        absl::StrCat(handle.size(), " bytes are no handle to shared memory"));
  }
  return SealedMemory::Open(KindOf(key), pid, fd);
}

}  // namespace sluice
