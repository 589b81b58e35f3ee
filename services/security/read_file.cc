#include "services/security/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/status/status.h"

namespace sluice {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  const int fd_;
};

absl::Status SystemError(int error) {
  return absl::Status(absl::ErrnoToStatusCode(error), std::strerror(error));
}

}  // namespace

absl::StatusOr<std::string> ReadRegularFile(const std::string& path) {
  // O_NONBLOCK: opening a FIFO waits for its writer otherwise.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status = {};
  if (file.get() < 0 || fstat(file.get(), &status) != 0) {
    return SystemError(errno);
  }
  if (!S_ISREG(status.st_mode)) return absl::InvalidArgumentError("it is no regular file");
  std::string text;
  std::array<char, 4096> bytes;
  while (true) {
    const ssize_t got = read(file.get(), bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError(errno);
    if (got == 0) return text;
    text.append(bytes.data(), static_cast<size_t>(got));
  }
}

}  // namespace sluice
