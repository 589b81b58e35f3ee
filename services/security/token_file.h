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

struct ParsedTokens {
  std::vector<TokenEntry> entries;  // of the lines that can be read
  std::vector<std::string> faults;  // what is wrong with the others, by line number
};

// Names of tenants are 1 to 64 letters, digits, '-', '_' or '.'. The hash of the empty token is
// refused: callers without a token would match it.
ParsedTokens ParseTokens(absl::string_view text);

// "HASH TENANT", without the line's end. INVALID_ARGUMENT for what is no tenant's name.
absl::StatusOr<std::string> TokenLine(absl::string_view token, absl::string_view tenant);

// Appends a line to a token file in one write; makes the file, for its owner alone, where there is none.
// What the system says where it can't be written; the message names the path.
absl::Status AppendTokenLine(const std::string& path, absl::string_view line);

class TokenFile {
 public:
  // INVALID_ARGUMENT naming the first line that is wrong; errors of ReadRegularFile. `on_fault` is
  // called once for each later change after which lines are wrong or the file can't be read; may be
  // null.
  static absl::StatusOr<std::unique_ptr<TokenFile>> Open(
      const std::string& path, std::function<void(const absl::Status&)> on_fault);

  // Who holds the token. Reads the file first where it has changed. A token counts only while a
  // line that can be read names it: wrong lines are left out, and a file that is gone, or that this
  // process may not read, holds none. Only where the process lacks descriptors or memory to read it
  // do the tokens stay, until the next call. Takes the same time wherever in the file the token is.
  // UNAUTHENTICATED for a token that is not there, and for the empty one.
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
  // Reads the file, which has changed.
  void Reread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Version Look() const;

  const std::string path_;
  const std::function<void(const absl::Status&)> on_fault_;
  absl::Mutex mutex_;
  Version version_ ABSL_GUARDED_BY(mutex_);
  std::vector<TokenEntry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice
