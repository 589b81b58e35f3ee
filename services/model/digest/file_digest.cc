#include "services/model/digest/file_digest.h"

#include <openssl/evp.h>
#include <openssl/sha.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "services/model/regular_file.h"

namespace sluice {
namespace {

constexpr size_t kReadBytes = size_t{1} << 20;

using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

std::string Hex(const Digest& digest) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest.data()), digest.size()));
}

// The part of the file that begins at `begin`; false where it ends or fails before `end`.
bool DigestRun(int fd, int64_t begin, int64_t end, const std::function<void(uint64_t)>& report,
               Digest& digest) {
  std::vector<unsigned char> buffer(std::min<int64_t>(kReadBytes, end - begin));
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  if (EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1) return false;
  while (begin < end) {
    const size_t wanted = std::min<int64_t>(static_cast<int64_t>(buffer.size()), end - begin);
    const ssize_t got = pread(fd, buffer.data(), wanted, begin);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    EVP_DigestUpdate(context.get(), buffer.data(), static_cast<size_t>(got));
    begin += got;
    if (report) report(static_cast<uint64_t>(got));
  }
  return EVP_DigestFinal_ex(context.get(), digest.data(), nullptr) == 1;
}

}  // namespace

absl::StatusOr<std::string> FileDigest(const std::string& path, int threads,
                                       const std::function<void(uint64_t bytes)>& report) {
  const absl::StatusOr<RegularFile> file = RegularFile::Open(path);
  if (!file.ok()) return file.status();
  const auto size = static_cast<int64_t>(file->size_bytes());
  std::vector<Digest> runs((size + kDigestRunBytes - 1) / kDigestRunBytes);
  std::atomic<size_t> next = 0;
  std::atomic<bool> failed = false;
  const auto work = [&] {
    for (size_t i = next++; i < runs.size() && !failed; i = next++) {
      const int64_t begin = static_cast<int64_t>(i) * kDigestRunBytes;
      const int64_t end = std::min(begin + kDigestRunBytes, size);
      if (!DigestRun(file->fd(), begin, end, report, runs[i])) failed = true;
    }
  };
  {
    std::vector<std::jthread> helpers;
    const int64_t most = std::min<int64_t>(threads, static_cast<int64_t>(runs.size()));
    for (int64_t i = 1; i < most; ++i) helpers.emplace_back(work);
    work();
  }
  if (failed) return absl::DataLossError(absl::StrCat(path, " can't be read to its end"));
  Digest whole;
  SHA256(runs.empty() ? nullptr : runs.front().data(), runs.size() * sizeof(Digest), whole.data());
  return Hex(whole);
}

std::string TextDigest(const std::string& text) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return Hex(digest);
}

}  // namespace sluice
