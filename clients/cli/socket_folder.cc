#include "clients/cli/socket_folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "kernels/communicator/process_identity.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr char kPrefix[] = "sluice-";
constexpr char kPattern[] = "sluice-XXXXXX";
constexpr char kMarker[] = ".sluice-up";  // the file that says whose the folder is
constexpr char kMark[] = "sluice up";
constexpr int kMaxTries = 10;
constexpr size_t kLongestPath = sizeof(sockaddr_un::sun_path) - 1;
constexpr size_t kLongestName = sizeof("/shard-1023-1023") - 1;

// A locked descriptor of the folder, or -1 where another holds it or it is not ours.
int Lock(const std::string& path) {
  const int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return -1;
  struct stat locked, named;
  // Another process may have removed the folder before the lock was had.
  const bool held = flock(folder, LOCK_EX | LOCK_NB) == 0 && fstat(folder, &locked) == 0 &&
                    lstat(path.c_str(), &named) == 0 && locked.st_ino == named.st_ino &&
                    locked.st_uid == geteuid();
  if (held) return folder;
  close(folder);
  return -1;
}

void Remove(const std::string& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

// "sluice up", the pid, when it started and its pid namespace, by spaces.
std::string MarkerText() {
  const ProcessIdentity self = ThisProcess();
  return absl::StrCat(kMark, " ", self.pid, " ", self.start_ticks, " ", self.pid_namespace, "\n");
}

// Whether the folder bears the marker of a `sluice up` that no longer runs. In `folder`, so that its
// path can't have come to mean another since it was locked.
bool IsMarkedByTheDead(int folder) {
  const int file = openat(folder, kMarker, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return false;
  struct stat status;
  char bytes[256];
  const bool regular =
      fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid();
  const ssize_t size = regular ? read(file, bytes, sizeof(bytes)) : -1;
  close(file);
  absl::string_view text(bytes, size > 0 ? static_cast<size_t>(size) : 0);
  if (!absl::ConsumePrefix(&text, kMark)) return false;
  const std::vector<absl::string_view> fields =
      absl::StrSplit(absl::StripAsciiWhitespace(text), ' ', absl::SkipEmpty());
  ProcessIdentity owner;
  return fields.size() == 3 && absl::SimpleAtoi(fields[0], &owner.pid) &&
         absl::SimpleAtoi(fields[1], &owner.start_ticks) &&
         absl::SimpleAtoi(fields[2], &owner.pid_namespace) && HasDied(owner);
}

void RemoveAbandoned(const std::string& parent) {
  std::error_code error;
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.size() != std::strlen(kPattern) || name.rfind(kPrefix, 0) != 0) continue;
    const int lock = Lock(entry->path().string());
    if (lock < 0) continue;
    if (IsMarkedByTheDead(lock)) Remove(entry->path().string());
    close(lock);
  }
}

// False where it can't be written.
bool Mark(int folder) {
  const int file = openat(folder, kMarker, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return false;
  const std::string text = MarkerText();
  const bool written = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  return close(file) == 0 && written;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SocketFolder>> SocketFolder::Make(const std::string& parent) {
  const size_t longest = parent.size() + 1 + std::strlen(kPattern) + kLongestName;
  if (longest > kLongestPath) {
    return absl::InvalidArgumentError(
        absl::StrCat("TMPDIR is ", parent, ": the paths of unix sockets in it would have ", longest,
                     " bytes; accepted: up to ", kLongestPath));
  }
  RemoveAbandoned(parent);
  for (int tries = 0; tries < kMaxTries; ++tries) {
    std::string path = absl::StrCat(parent, "/", kPattern);
    if (mkdtemp(path.data()) == nullptr) {
      return absl::UnavailableError(
          absl::StrCat("cannot make ", parent, "/", kPattern, ": ", std::strerror(errno)));
    }
    const int lock = Lock(path);
    // Until it is marked, no other process removes it; one may have locked it to look for the mark.
    if (lock < 0) {
      Remove(path);
      continue;
    }
    auto folder = std::unique_ptr<SocketFolder>(new SocketFolder(std::move(path), lock));
    if (Mark(lock)) return folder;
    return absl::UnavailableError(
        absl::StrCat("cannot write into ", folder->path(), ": ", std::strerror(errno)));
  }
  return absl::UnavailableError(absl::StrCat("cannot lock a folder below ", parent));
}

SocketFolder::~SocketFolder() {
  Remove(path_);
  close(lock_);
}

}  // namespace sluice
