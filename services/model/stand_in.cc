#include "services/model/stand_in.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace sluice {

absl::Status CheckIsNoStandIn(std::string_view contents, const std::string& path) {
  const absl::string_view text =
      absl::StripLeadingAsciiWhitespace({contents.data(), contents.size()});
  if (absl::StartsWith(text, "version https://git-lfs.github.com/spec/")) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, ": is a Git LFS pointer in place of the file: fetch it with `git lfs pull`"));
  }
  if (absl::StartsWithIgnoreCase(text, "<!doctype html") ||
      absl::StartsWithIgnoreCase(text, "<html")) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": is a web page in place of the file: fetch the file itself"));
  }
  return absl::OkStatus();
}

}  // namespace sluice
