// A folder that appears under its name whole or not at all: it is filled as "<name>.partial",
// renamed when it is complete, and removed where that does not happen.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sluice {

class NewFolder {
 public:
  // `path` may exist if it is an empty folder. ALREADY_EXISTS where it is anything else or
  // "<path>.partial" is there; NOT_FOUND where the folder that is to hold it is missing.
  static absl::StatusOr<std::unique_ptr<NewFolder>> Create(const std::string& path);
  // Removes what was not published.
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  // Of a file that is being written.
  std::string PathOf(std::string_view name) const { return (partial_ / name).string(); }

  // RESOURCE_EXHAUSTED where the disk has less than `num_bytes`.
  absl::Status CheckSpace(uint64_t num_bytes) const;
  absl::Status WriteText(std::string_view name, std::string_view text) const;
  // Copies the files of another folder, not those of its folders, whose names are wanted.
  absl::Status CopyFrom(const std::string& folder,
                        absl::FunctionRef<bool(const std::string& name)> wanted) const;

  // Gives the folder its name.
  absl::Status Publish();

 private:
  NewFolder(std::string path, std::filesystem::path partial)
      : path_(std::move(path)), partial_(std::move(partial)) {}

  const std::string path_;
  const std::filesystem::path partial_;
  bool published_ = false;
};

}  // namespace sluice
