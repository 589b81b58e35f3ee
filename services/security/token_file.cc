#include "services/security/token_file.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace sluice {
namespace {

constexpr size_t kMaxName = 64;

bool IsName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxName &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' ||
                  c == '.';
         });
}

bool ParseHash(absl::string_view text, std::array<uint8_t, 32>* into) {
  const bool is_hex = std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isxdigit(static_cast<unsigned char>(c));
  });
  if (text.size() != 2 * into->size() || !is_hex) return false;
  const std::string bytes = absl::HexStringToBytes(text);
  std::copy(bytes.begin(), bytes.end(), into->begin());
  return true;
}

absl::Status Wrong(int line, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("line ", line, ": ", what));
}

absl::StatusOr<TokenEntry> ParseLine(absl::string_view text, int line) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(text, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  TokenEntry entry;
  if (words.size() != 2) {
    return Wrong(line, words.size() < 2 ? "expected HASH TENANT"
                                        : "expected HASH TENANT and nothing else: what a tenant is "
                                          "granted is in the file of --tenants");
  }
  if (!ParseHash(words[0], &entry.hash)) {
    return Wrong(line, "the hash is not the 64 hexadecimal digits of a SHA-256");
  }
  entry.caller.tenant = std::string(words[1]);
  if (!IsName(entry.caller.tenant)) {
    return Wrong(line, "the tenant is not 1 to 64 letters, digits, '-', '_' or '.'");
  }
  return entry;
}

}  // namespace

absl::StatusOr<std::vector<TokenEntry>> ParseTokens(absl::string_view text) {
  std::vector<TokenEntry> entries;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    absl::StatusOr<TokenEntry> entry = ParseLine(line, number);
    if (!entry.ok()) return entry.status();
    entries.push_back(*std::move(entry));
  }
  return entries;
}

absl::StatusOr<std::unique_ptr<TokenFile>> TokenFile::Open(
    const std::string& path, std::function<void(const absl::Status&)> on_fault) {
  auto file = std::unique_ptr<TokenFile>(new TokenFile(path, std::move(on_fault)));
  absl::MutexLock lock(&file->mutex_);
  file->version_ = file->Look();
  const absl::Status read = file->Read();
  if (!read.ok()) return read;
  return file;
}

TokenFile::Version TokenFile::Look() const {
  struct stat seen {};
  if (stat(path_.c_str(), &seen) != 0) return {};
  return {.inode = seen.st_ino,
          .size = seen.st_size,
          .modified_ns = seen.st_mtim.tv_sec * int64_t{1'000'000'000} + seen.st_mtim.tv_nsec};
}

absl::Status TokenFile::Read() {
  std::ifstream file(path_, std::ios::binary);
  if (!file) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read the tokens in ", path_));
  std::stringstream text;
  // An empty file is one without tokens.
  if (file && file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  const bool is_empty = file.eof() && Look() == version_ && version_.size == 0;
  if ((!file || !text) && !is_empty) {
    return absl::NotFoundError(absl::StrCat("cannot read the tokens in ", path_));
  }
  absl::StatusOr<std::vector<TokenEntry>> entries = ParseTokens(text.str());
  if (!entries.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": ", entries.status().message()));
  }
  entries_ = *std::move(entries);
  return absl::OkStatus();
}

absl::StatusOr<Caller> TokenFile::Find(absl::string_view token) {
  std::array<uint8_t, 32> hash;
  SHA256(reinterpret_cast<const uint8_t*>(token.data()), token.size(), hash.data());
  absl::MutexLock lock(&mutex_);
  if (const Version now = Look(); now != version_) {
    version_ = now;
    // A slip in a file must not lock everybody out.
    const absl::Status read = Read();
    if (!read.ok() && on_fault_ != nullptr) on_fault_(read);
  }
  const TokenEntry* found = nullptr;
  for (const TokenEntry& entry : entries_) {
    if (CRYPTO_memcmp(entry.hash.data(), hash.data(), hash.size()) == 0) found = &entry;
  }
  if (found == nullptr) return absl::UnauthenticatedError("the bearer token is not known here");
  return found->caller;
}

}  // namespace sluice
