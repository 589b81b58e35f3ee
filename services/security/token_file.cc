#include "services/security/token_file.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "services/security/read_file.h"

namespace sluice {
namespace {

constexpr size_t kMaxName = 64;
constexpr char kNoName[] = "the tenant is not 1 to 64 letters, digits, '-', '_' or '.'";
constexpr size_t kMostFaults = 8;  // named in one message

bool IsName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxName &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' ||
                  c == '.';
         });
}

using Hash = std::array<uint8_t, SHA256_DIGEST_LENGTH>;

Hash HashOf(absl::string_view token) {
  Hash hash;
  SHA256(reinterpret_cast<const uint8_t*>(token.data()), token.size(), hash.data());
  return hash;
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

// Empty where the line is right.
std::string ParseLine(absl::string_view text, TokenEntry& entry) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(text, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  if (words.size() < 2) return "expected HASH TENANT";
  if (words.size() > 2) {
    return "expected HASH TENANT and nothing else: what a tenant is granted is in the file of "
           "--tenants";
  }
  if (!ParseHash(words[0], &entry.hash)) {
    return "the hash is not the 64 hexadecimal digits of a SHA-256";
  }
  if (entry.hash == HashOf("")) return "the hash is that of the empty token";
  entry.caller.tenant = std::string(words[1]);
  if (IsName(entry.caller.tenant)) return "";
  return kNoName;
}

// The first ones, and how many there are besides.
std::string Summary(const std::vector<std::string>& faults) {
  const size_t shown = std::min(faults.size(), kMostFaults);
  const std::string first = absl::StrJoin(absl::MakeConstSpan(faults).first(shown), "; ");
  return shown == faults.size() ? first
                                : absl::StrCat(first, "; and ", faults.size() - shown, " more");
}

}  // namespace

absl::StatusOr<std::string> TokenLine(absl::string_view token, absl::string_view tenant) {
  if (!IsName(tenant)) return absl::InvalidArgumentError(kNoName);
  const Hash hash = HashOf(token);
  const absl::string_view bytes(reinterpret_cast<const char*>(hash.data()), hash.size());
  return absl::StrCat(absl::BytesToHexString(bytes), " ", tenant);
}

absl::Status AppendTokenLine(const std::string& path, absl::string_view line) {
  const auto failed = [&path] {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot add to ", path));
  };
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (fd < 0) return failed();
  // The line before it may lack its end.
  char last = '\n';
  const off_t size = lseek(fd, 0, SEEK_END);
  if (size > 0 && pread(fd, &last, 1, size - 1) != 1) last = '\0';
  const std::string text = absl::StrCat(last == '\n' ? "" : "\n", line, "\n");
  const ssize_t written = write(fd, text.data(), text.size());
  absl::Status status = absl::OkStatus();
  if (written < 0) {
    status = failed();
  } else if (static_cast<size_t>(written) < text.size()) {
    status =
        absl::ResourceExhaustedError(absl::StrCat("cannot add to ", path, ": the disk is full"));
  }
  close(fd);
  return status;
}

ParsedTokens ParseTokens(absl::string_view text) {
  ParsedTokens parsed;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    TokenEntry entry;
    const std::string fault = ParseLine(line, entry);
    if (fault.empty()) {
      parsed.entries.push_back(std::move(entry));
    } else {
      parsed.faults.push_back(absl::StrCat("line ", number, ": ", fault));
    }
  }
  return parsed;
}

absl::StatusOr<std::unique_ptr<TokenFile>> TokenFile::Open(
    const std::string& path, std::function<void(const absl::Status&)> on_fault) {
  auto file = std::unique_ptr<TokenFile>(new TokenFile(path, std::move(on_fault)));
  absl::MutexLock lock(&file->mutex_);
  file->version_ = file->Look();
  const absl::StatusOr<std::string> text = ReadRegularFile(path);
  if (!text.ok()) {
    return absl::Status(text.status().code(), absl::StrCat("cannot read the tokens in ", path, ": ",
                                                           text.status().message()));
  }
  ParsedTokens parsed = ParseTokens(*text);
  if (!parsed.faults.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", parsed.faults.front()));
  }
  file->entries_ = std::move(parsed.entries);
  return file;
}

TokenFile::Version TokenFile::Look() const {
  struct stat seen {};
  if (stat(path_.c_str(), &seen) != 0) return {};
  return {.inode = seen.st_ino,
          .size = seen.st_size,
          .modified_ns = seen.st_mtim.tv_sec * int64_t{1'000'000'000} + seen.st_mtim.tv_nsec};
}

void TokenFile::Reread() {
  const Version now = Look();
  const absl::StatusOr<std::string> text = ReadRegularFile(path_);
  // This process lacks descriptors or memory: once more with the next call.
  if (absl::IsResourceExhausted(text.status())) return;
  version_ = now;
  ParsedTokens parsed;
  if (text.ok()) {
    parsed = ParseTokens(*text);
  } else {
    parsed.faults.push_back(std::string(text.status().message()));
  }
  entries_ = std::move(parsed.entries);
  if (parsed.faults.empty() || on_fault_ == nullptr) return;
  on_fault_(absl::InvalidArgumentError(absl::StrCat(path_, ": ", Summary(parsed.faults), "; ",
                                                    entries_.size(), " tokens are accepted")));
}

absl::StatusOr<Caller> TokenFile::Find(absl::string_view token) {
  if (token.empty()) return absl::UnauthenticatedError("the bearer token is empty");
  const Hash hash = HashOf(token);
  absl::MutexLock lock(&mutex_);
  if (Look() != version_) Reread();
  const TokenEntry* found = nullptr;
  for (const TokenEntry& entry : entries_) {
    if (CRYPTO_memcmp(entry.hash.data(), hash.data(), hash.size()) == 0) found = &entry;
  }
  if (found == nullptr) return absl::UnauthenticatedError("the bearer token is not known here");
  return found->caller;
}

}  // namespace sluice
