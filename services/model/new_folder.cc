#include "services/model/new_folder.h"

#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

absl::Status ErrorOf(const std::string& path, const std::error_code& error) {
  return absl::ErrnoToStatus(error.value(), path);
}

// Without a slash at the end.
fs::path Named(const std::string& path) {
  return fs::path(path + "/").lexically_normal().parent_path();
}

absl::Status CheckFree(const std::string& path, const fs::path& partial) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status) && !fs::is_directory(status)) {
    return absl::AlreadyExistsError(absl::StrCat(path, ": is no folder"));
  }
  if (fs::is_directory(status) && !fs::is_empty(path, error)) {
    return absl::AlreadyExistsError(absl::StrCat(path, ": holds files already"));
  }
  if (error && fs::exists(status)) return ErrorOf(path, error);
  if (fs::exists(partial, error)) {
    return absl::AlreadyExistsError(absl::StrCat(
        partial.string(), ": is being written, or was left behind; remove it if nothing does"));
  }
  const fs::path parent = partial.has_parent_path() ? partial.parent_path() : fs::path(".");
  if (fs::is_directory(parent, error)) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat(path, ": the folder that is to hold it, ", parent.string(), ", does not exist"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<NewFolder>> NewFolder::Create(const std::string& path) {
  const fs::path partial(Named(path).string() + ".partial");
  if (absl::Status free = CheckFree(path, partial); !free.ok()) return free;
  std::error_code error;
  fs::create_directory(partial, error);
  if (error) return ErrorOf(partial.string(), error);
  return std::unique_ptr<NewFolder>(new NewFolder(path, partial));
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  if (!published_) fs::remove_all(partial_, ignored);
}

absl::Status NewFolder::CheckSpace(uint64_t num_bytes) const {
  std::error_code error;
  const fs::space_info space = fs::space(partial_, error);
  if (error || space.available >= num_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(partial_.string(), ": needs ", num_bytes,
                                                   " bytes, the disk has ", space.available));
}

absl::Status NewFolder::WriteText(std::string_view name, std::string_view text) const {
  const std::string path = PathOf(name);
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file ? absl::OkStatus() : absl::ErrnoToStatus(errno == 0 ? EIO : errno, path);
}

absl::Status NewFolder::CopyFrom(const std::string& folder,
                                 absl::FunctionRef<bool(const std::string&)> wanted) const {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file(error) || !wanted(name)) continue;
    fs::copy_file(entry.path(), partial_ / name, error);
    if (error) return ErrorOf(entry.path().string(), error);
  }
  return error ? ErrorOf(folder, error) : absl::OkStatus();
}

// rename(2) puts a folder in the place of an empty one, never of one that holds anything.
absl::Status NewFolder::Publish() {
  std::error_code error;
  fs::rename(partial_, Named(path_), error);
  if (error) return ErrorOf(path_, error);
  published_ = true;
  return absl::OkStatus();
}

}  // namespace sluice
