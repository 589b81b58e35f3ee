// Digest of a file's contents, 64 hexadecimal digits: SHA-256 over the SHA-256 of each of its runs
// of 16 MiB, in their order, so that all CPUs can read a large file at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace sluice {

inline constexpr int64_t kDigestRunBytes = int64_t{16} << 20;

// With up to `threads` threads. `report`, which several of them call, hears of every part that has
// been read. Errors of RegularFile::Open, DATA_LOSS where the file can't be read to its end.
absl::StatusOr<std::string> FileDigest(const std::string& path, int threads,
                                       const std::function<void(uint64_t bytes)>& report);

// SHA-256 of a text, likewise.
std::string TextDigest(const std::string& text);

}  // namespace sluice
