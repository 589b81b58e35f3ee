// Digests of files that have not changed since, kept from one start of a process to the next: a file
// is known by device, inode, size and the times of its last changes. What can't be kept or read is
// computed again; nothing here fails.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>

namespace sluice {

class DigestCache {
 public:
  // Keeps them in `folder`, which is made where it is missing. Empty: nothing is kept.
  explicit DigestCache(std::string folder) : folder_(std::move(folder)) {}

  std::optional<std::string> Find(const struct stat& file) const;
  void Keep(const struct stat& file, const std::string& digest) const;

  // $XDG_CACHE_HOME/sluice/digests, else that in $HOME/.cache; empty where neither is set.
  static std::string DefaultFolder();

 private:
  std::string PathOf(const struct stat& file) const;

  const std::string folder_;
};

}  // namespace sluice
