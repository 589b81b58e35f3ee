// A folder for the unix sockets of one `sluice up`, which only this user can enter.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace sluice {

// Holds a lock on its folder as long as it lives, and marks it with a file that names this process.
// Folders left behind by a process that was killed are known by their mark from those in use and from
// folders that something else has made.
class SocketFolder {
 public:
  // Makes PARENT/sluice-XXXXXX after removing this user's folders of this name that bear the mark of a
  // SocketFolder whose process no longer runs.
  // INVALID_ARGUMENT where PARENT is so long that the path of a socket in the folder would not fit
  // the 107 bytes that it may have; UNAVAILABLE where the folder cannot be made.
  static absl::StatusOr<std::unique_ptr<SocketFolder>> Make(const std::string& parent);
  SocketFolder(const SocketFolder&) = delete;
  SocketFolder& operator=(const SocketFolder&) = delete;
  // Removes the folder with what is in it.
  ~SocketFolder();

  const std::string& path() const { return path_; }

 private:
  SocketFolder(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}

  const std::string path_;
  const int lock_;  // a descriptor of the folder
};

}  // namespace sluice
