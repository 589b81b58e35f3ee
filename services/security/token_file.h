// Bearer tokens of the public API, as a file that holds only their hashes:
//
//   # SHA-256 of the token in hexadecimal, tenant
//   9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 search
//
// `printf %s "$TOKEN" | sha256sum` gives the hash. Thread-safe.
#pragma once

#include <sys/stat.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace sluice {

// For whom a call is served.
struct Caller {
  std::string tenant;
};

struct TokenEntry {
  std::array<uint8_t, 32> hash{};
  Caller caller;
};

// INVALID_ARGUMENT naming the line that is wrong. Names of tenants are 1 to 64 letters, digits, '-',
// '_' or '.'.
absl::StatusOr<std::vector<TokenEntry>> ParseTokens(absl::string_view text);

class TokenFile {
 public:
  // NOT_FOUND where the file can't be read, errors of ParseTokens. `on_fault` is told, once for
  // each change, of a file that has become unreadable or wrong later; may be null.
  static absl::StatusOr<std::unique_ptr<TokenFile>> Open(
      const std::string& path, std::function<void(const absl::Status&)> on_fault);

  // Who holds the token. Reads the file first where it has changed: a token that was taken out is
  // refused from then on. A file at fault leaves the tokens as they were. Takes the same time
  // wherever in the file the token is. UNAUTHENTICATED for a token that is not there.
  absl::StatusOr<Caller> Find(absl::string_view token);

 private:
  // What tells one version of a file from the next, also where a link was turned to another.
  struct Version {
    ino_t inode = 0;
    off_t size = 0;
    int64_t modified_ns = 0;
    bool operator==(const Version&) const = default;
  };

  TokenFile(std::string path, std::function<void(const absl::Status&)> on_fault)
      : path_(std::move(path)), on_fault_(std::move(on_fault)) {}
  absl::Status Read() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Version Look() const;

  const std::string path_;
  const std::function<void(const absl::Status&)> on_fault_;
  absl::Mutex mutex_;
  Version version_ ABSL_GUARDED_BY(mutex_);
  std::vector<TokenEntry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice
