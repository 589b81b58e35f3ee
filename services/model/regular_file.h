// A regular file, open for reading. Anything else, such as a FIFO that happens to have the name of a
// model's file, is refused without waiting for whatever would write to it.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace sluice {

class RegularFile {
 public:
  // NOT_FOUND where there is none, INVALID_ARGUMENT where it is no regular file, else what the
  // system says.
  static absl::StatusOr<RegularFile> Open(const std::string& path);

  RegularFile(RegularFile&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), size_bytes_(other.size_bytes_) {}
  RegularFile& operator=(RegularFile&&) = delete;
  ~RegularFile();

  int fd() const { return fd_; }
  // When it was opened.
  std::size_t size_bytes() const { return size_bytes_; }

 private:
  RegularFile(int fd, std::size_t size_bytes) : fd_(fd), size_bytes_(size_bytes) {}

  int fd_;
  std::size_t size_bytes_;
};

}  // namespace sluice
