#include "clients/hub/file_hash.h"

#include <openssl/evp.h>

#include <fstream>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace sluice {
namespace {

constexpr size_t kChunk = 1 << 20;

class Digest {
 public:
  explicit Digest(const EVP_MD* kind) { EVP_DigestInit_ex(context_.get(), kind, nullptr); }

  void Add(absl::string_view bytes) {
    EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size());
    size_ += bytes.size();
  }
  uint64_t size() const { return size_; }
  std::string Hex() {
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned int length = 0;
    EVP_DigestFinal_ex(context_.get(), bytes, &length);
    return absl::BytesToHexString({reinterpret_cast<const char*>(bytes), length});
  }

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_{EVP_MD_CTX_new()};
  uint64_t size_ = 0;
};

}  // namespace

absl::Status CheckFile(const std::string& path, const HubFile& file) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::UnavailableError(absl::StrCat(path, ": cannot be read"));
  Digest digest(file.sha256.empty() ? EVP_sha1() : EVP_sha256());
  const std::string head = absl::StrCat("blob ", file.size, std::string(1, '\0'));
  if (file.sha256.empty()) digest.Add(head);
  std::vector<char> chunk(kChunk);
  while (in.read(chunk.data(), kChunk) || in.gcount() > 0) {
    digest.Add({chunk.data(), static_cast<size_t>(in.gcount())});
  }
  const uint64_t size = digest.size() - (file.sha256.empty() ? head.size() : 0);
  if (size != file.size) {
    return absl::DataLossError(
        absl::StrCat(file.name, ": ", size, " bytes came instead of ", file.size));
  }
  const std::string expected = file.sha256.empty() ? file.git_id : file.sha256;
  const std::string actual = digest.Hex();
  if (actual == expected) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(file.name, ": its digest is ", actual, ", the hub says ", expected));
}

}  // namespace sluice
