#include "services/model/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace sluice {

absl::StatusOr<RegularFile> RegularFile::Open(const std::string& path) {
  // O_NONBLOCK: opening a FIFO waits for its writer otherwise.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 && errno == ENOENT) return absl::NotFoundError(absl::StrCat(path, ": no such file"));
  if (fd < 0) return absl::ErrnoToStatus(errno, path);
  RegularFile file(fd, 0);
  struct stat status = {};
  if (fstat(fd, &status) != 0) return absl::ErrnoToStatus(errno, path);
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  }
  file.size_bytes_ = static_cast<std::size_t>(status.st_size);
  return file;
}

RegularFile::~RegularFile() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace sluice
