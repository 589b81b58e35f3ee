#include "services/process/stderr_writer.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {

StderrWriter& StderrWriter::Get() {
  static StderrWriter& writer = *new StderrWriter(STDERR_FILENO);  // never destroyed
  return writer;
}

void StderrWriter::Look() {
  struct stat file = {};
  if (fstat(fd_, &file) != 0) return;
  if (looked_ && file.st_dev == device_ && file.st_ino == inode_) return;
  looked_ = true;
  device_ = file.st_dev;
  inode_ = file.st_ino;
  if (reopened_ >= 0) close(reopened_);
  reopened_ = -1;
  if (S_ISREG(file.st_mode)) {
    way_ = Way::kWrite;
  } else if (S_ISSOCK(file.st_mode)) {
    way_ = Way::kSend;
  } else {
    // O_NONBLOCK is of the open file, which other processes share: it needs one of its own.
    reopened_ = open(absl::StrCat("/proc/self/fd/", fd_).c_str(),
                     O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    way_ = reopened_ >= 0 ? Way::kReopened : Way::kPoll;
  }
}

int64_t StderrWriter::Try(absl::string_view text) {
  switch (way_) {
    case Way::kWrite:
      return write(fd_, text.data(), text.size());
    case Way::kSend:
      return send(fd_, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    case Way::kReopened:
      return write(reopened_, text.data(), text.size());
    case Way::kPoll:
      break;
  }
  // Nothing better where the file is another user's: between the two others may fill it.
  constexpr size_t kKeptTogether = 4096;
  pollfd ready = {.fd = fd_, .events = POLLOUT, .revents = 0};
  if (poll(&ready, 1, 0) != 1 || (ready.revents & POLLOUT) == 0) return -1;
  return write(fd_, text.data(), std::min(text.size(), kKeptTogether));
}

bool StderrWriter::Write(absl::string_view text, uint64_t* lost) {
  const absl::MutexLock lock(&mutex_);
  Look();
  std::string with_end;
  if (within_line_) {
    with_end = absl::StrCat("\n", text);
    text = with_end;
  }
  int64_t written = 0;
  do {
    written = Try(text);
  } while (written < 0 && errno == EINTR);
  *lost = 0;
  if (written <= 0) {
    ++lost_;
    return false;
  }
  within_line_ = static_cast<size_t>(written) < text.size();
  *lost = std::exchange(lost_, 0);
  return true;
}

}  // namespace sluice
