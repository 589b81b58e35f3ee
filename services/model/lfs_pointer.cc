#include "services/model/lfs_pointer.h"

#include "absl/strings/str_cat.h"

namespace sluice {

absl::Status CheckNoLfsPointer(std::string_view contents, const std::string& path) {
  constexpr std::string_view kPointer = "version https://git-lfs.github.com/spec/";
  if (contents.substr(0, kPointer.size()) != kPointer) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      path, ": is a Git LFS pointer in place of the file: fetch it with `git lfs pull`"));
}

}  // namespace sluice
