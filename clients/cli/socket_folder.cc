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

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr char kPrefix[] = "sluice-";
constexpr char kPattern[] = "sluice-XXXXXX";
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

void RemoveAbandoned(const std::string& parent) {
  std::error_code error;
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.size() != std::strlen(kPattern) || name.rfind(kPrefix, 0) != 0) continue;
    const int lock = Lock(entry->path().string());
    if (lock < 0) continue;
    Remove(entry->path().string());
    close(lock);
  }
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
    if (lock >= 0) return std::unique_ptr<SocketFolder>(new SocketFolder(std::move(path), lock));
    // Another process may have taken it for abandoned, in the moment before the lock.
    Remove(path);
  }
  return absl::UnavailableError(absl::StrCat("cannot lock a folder below ", parent));
}

SocketFolder::~SocketFolder() {
  Remove(path_);
  close(lock_);
}

}  // namespace sluice
