// A whole file, mapped read-only. Move-only; the mapping lasts as long as the object. Immutable, so
// safe to share among threads. The file must not be shortened by others meanwhile: touching a page
// that is gone ends the process (SIGBUS).
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace sluice {

class MappedFile {
 public:
  // NOT_FOUND where `path` does not exist, INVALID_ARGUMENT where it is no regular file,
  // PERMISSION_DENIED or UNAVAILABLE with the system's reason otherwise.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::string& path() const { return path_; }
  absl::Span<const std::byte> bytes() const { return bytes_; }

  // Drops the pages from that of the first of `bytes`, a part of bytes(), up to that of the last,
  // which the next read in order will want, from this process's resident memory; they stay in the
  // system's cache and come back when read. Keeps the peak of a loading process near the size of
  // what it builds, rather than twice that.
  void Release(absl::Span<const std::byte> bytes) const;

 private:
  MappedFile(std::string path, absl::Span<const std::byte> bytes);

  std::string path_;
  absl::Span<const std::byte> bytes_;  // empty: nothing mapped
};

}  // namespace sluice
