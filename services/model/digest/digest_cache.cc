#include "services/model/digest/digest_cache.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace sluice {
namespace {

constexpr size_t kDigestDigits = 64;

bool IsDigest(absl::string_view text) {
  if (text.size() != kDigestDigits) return false;
  for (const char c : text) {
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(c))) return false;
  }
  return true;
}

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string DigestCache::DefaultFolder() {
  std::string base = Variable("XDG_CACHE_HOME");
  if (base.empty() && !Variable("HOME").empty()) base = absl::StrCat(Variable("HOME"), "/.cache");
  return base.empty() ? "" : absl::StrCat(base, "/sluice/digests");
}

std::string DigestCache::PathOf(const struct stat& file) const {
  return absl::StrCat(folder_, "/", file.st_dev, "-", file.st_ino, "-", file.st_size, "-",
                      file.st_mtim.tv_sec, ".", file.st_mtim.tv_nsec, "-", file.st_ctim.tv_sec, ".",
                      file.st_ctim.tv_nsec);
}

std::optional<std::string> DigestCache::Find(const struct stat& file) const {
  if (folder_.empty()) return std::nullopt;
  std::ifstream in(PathOf(file));
  std::optional<std::string> digest(std::in_place);
  if (!std::getline(in, *digest) || !IsDigest(*digest)) digest.reset();
  return digest;
}

void DigestCache::Keep(const struct stat& file, const std::string& digest) const {
  if (folder_.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) return;
  // Appears whole or not at all, whoever else keeps the same one.
  const std::string path = PathOf(file);
  const std::string part = absl::StrCat(path, ".", getpid());
  std::ofstream out(part);
  out << digest << '\n';
  out.close();
  if (out.good()) std::filesystem::rename(part, path, error);
  if (!out.good() || error) std::filesystem::remove(part, error);
}

}  // namespace sluice
