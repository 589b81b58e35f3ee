#include "services/gateway/batches/durable_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice::gateway {
namespace {

constexpr char kUnfinished[] = ".new";

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags)
      : value_(open(path.c_str(), flags | O_CLOEXEC, 0600)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  int value() const { return value_; }

 private:
  const int value_;
};

bool WriteAll(int descriptor, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

// A name is on the disk once its folder is.
absl::Status FlushFolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const Descriptor descriptor(folder, O_RDONLY | O_DIRECTORY);
  if (descriptor.value() < 0 || fsync(descriptor.value()) != 0) {
    return FileError("cannot flush", folder, errno);
  }
  return absl::OkStatus();
}

absl::Status Move(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) != 0) return FileError("cannot make", to, errno);
  return FlushFolderOf(to);
}

}  // namespace

absl::Status FileError(absl::string_view what, absl::string_view path, int error_number) {
  const std::string message = absl::StrCat(what, " ", path, ": ", std::strerror(error_number));
  switch (error_number) {
    case ENOENT:
      return absl::NotFoundError(message);
    case ENOSPC:
    case EDQUOT:
      return absl::ResourceExhaustedError(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    default:
      return absl::UnavailableError(message);
  }
}

absl::Status MakeFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0) return FlushFolderOf(path);
  struct stat found = {};
  if (errno == EEXIST && stat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode)) {
    return absl::OkStatus();
  }
  return FileError("cannot make the folder", path, errno == EEXIST ? ENOTDIR : errno);
}

absl::Status WriteDurably(const std::string& path, absl::string_view content) {
  const std::string unfinished = absl::StrCat(path, kUnfinished);
  {
    const Descriptor file(unfinished, O_WRONLY | O_CREAT | O_TRUNC);
    if (file.value() < 0) return FileError("cannot write", path, errno);
    if (!WriteAll(file.value(), content) || fsync(file.value()) != 0) {
      const int error_number = errno;
      unlink(unfinished.c_str());
      return FileError("cannot write", path, error_number);
    }
  }
  return Move(unfinished, path);
}

absl::Status MoveDurably(const std::string& from, const std::string& to) {
  {
    const Descriptor file(from, O_WRONLY);
    if (file.value() < 0 || fsync(file.value()) != 0) return FileError("cannot flush", from, errno);
  }
  return Move(from, to);
}

absl::Status RemoveFile(const std::string& path) {
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return FileError("cannot remove", path, errno);
}

absl::StatusOr<AppendFile> AppendFile::Open(const std::string& path, int64_t size) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (descriptor < 0) return FileError("cannot write", path, errno);
  AppendFile file(path, descriptor, size);
  if (ftruncate(descriptor, size) != 0) return FileError("cannot cut", path, errno);
  return file;
}

AppendFile::AppendFile(AppendFile&& other) noexcept { *this = std::move(other); }

AppendFile& AppendFile::operator=(AppendFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  return *this;
}

AppendFile::~AppendFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::Status AppendFile::Append(absl::string_view text) {
  if (!WriteAll(descriptor_, text)) {
    const absl::Status status = FileError("cannot write", path_, errno);
    // Half a line would be read as a broken one.
    if (ftruncate(descriptor_, size_) != 0) return FileError("cannot cut", path_, errno);
    return status;
  }
  size_ += static_cast<int64_t>(text.size());
  return absl::OkStatus();
}

absl::Status AppendFile::Flush() {
  return fsync(descriptor_) == 0 ? absl::OkStatus() : FileError("cannot flush", path_, errno);
}

}  // namespace sluice::gateway
