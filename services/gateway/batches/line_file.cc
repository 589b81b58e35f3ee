#include "services/gateway/batches/line_file.h"

#include <openssl/evp.h>

#include <array>
#include <cerrno>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "services/gateway/batches/durable_file.h"

namespace sluice::gateway {

absl::StatusOr<LineFile> LineFile::Open(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return FileError("cannot read", path, errno);
  return LineFile(std::move(file));
}

std::optional<FileLine> LineFile::Next() {
  FileLine line;
  while (std::getline(file_, line.text)) {
    line.is_whole = !file_.eof();
    offset_ += static_cast<int64_t>(line.text.size()) + (line.is_whole ? 1 : 0);
    line.number = ++num_lines_;
    line.end = offset_;
    if (!absl::StripAsciiWhitespace(line.text).empty()) return line;
  }
  return std::nullopt;
}

absl::StatusOr<std::string> ContentHash(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return FileError("cannot read", path, errno);
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
  std::array<char, 1 << 16> piece;
  while (file.read(piece.data(), piece.size()), file.gcount() > 0) {
    EVP_DigestUpdate(context.get(), piece.data(), static_cast<size_t>(file.gcount()));
  }
  std::array<char, EVP_MAX_MD_SIZE> hash = {};
  EVP_DigestFinal_ex(context.get(), reinterpret_cast<unsigned char*>(hash.data()), nullptr);
  return absl::BytesToHexString({hash.data(), 16});
}

}  // namespace sluice::gateway
