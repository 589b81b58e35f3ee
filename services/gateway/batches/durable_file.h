// Files that survive the death of this process and of the host: what was written is whole, or not
// there. Pure functions; errors are what the system says, and name the path.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice::gateway {

// NOT_FOUND for a path that is not there, RESOURCE_EXHAUSTED for a full disk or quota,
// PERMISSION_DENIED, else UNAVAILABLE. `what` says what was tried: "cannot write".
absl::Status FileError(absl::string_view what, absl::string_view path, int error_number);

// Makes the folder, for its owner alone, where there is none; its parent must be there.
absl::Status MakeFolder(const std::string& path);

// Writes `content` under another name, flushes it to the disk and moves it to `path`.
absl::Status WriteDurably(const std::string& path, absl::string_view content);

// Flushes the file at `from` to the disk and moves it to `to`, in a folder of the same file system.
absl::Status MoveDurably(const std::string& from, const std::string& to);

// Removes the file; OK where there is none.
absl::Status RemoveFile(const std::string& path);

// A file that grows by whole lines. Not thread-safe.
class AppendFile {
 public:
  // Opens the file, or makes it. Appends after byte `size`, to which it is cut.
  static absl::StatusOr<AppendFile> Open(const std::string& path, int64_t size);

  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&& other) noexcept;
  ~AppendFile();

  // Appends all of `text`, or nothing where it fails. The file is whole after the death of this
  // process, and after that of the host up to the last Flush().
  absl::Status Append(absl::string_view text);
  absl::Status Flush();

  int64_t size() const { return size_; }

 private:
  AppendFile(std::string path, int descriptor, int64_t size)
      : path_(std::move(path)), descriptor_(descriptor), size_(size) {}

  std::string path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

}  // namespace sluice::gateway
