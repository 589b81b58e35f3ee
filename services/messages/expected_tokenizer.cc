#include "services/messages/expected_tokenizer.h"

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

// Enough of a digest to tell two apart.
constexpr size_t kShown = 16;

std::string Shown(absl::string_view digest) {
  return digest.empty() ? "of none" : std::string(digest.substr(0, kShown));
}

}  // namespace

void ExpectTokenizer(grpc::ClientContext& context, const std::string& digest) {
  if (!digest.empty()) context.AddMetadata(kExpectedTokenizerKey, digest);
}

absl::Status CheckExpectedTokenizer(const grpc::ServerContextBase& context,
                                    const std::string& digest) {
  const auto found = context.client_metadata().find(kExpectedTokenizerKey);
  if (found == context.client_metadata().end()) return absl::OkStatus();
  const absl::string_view expected(found->second.data(), found->second.size());
  if (expected == digest) return absl::OkStatus();
  return absl::AbortedError(
      absl::StrCat("the tokenizer is that of another model: its files' "
                   "SHA-256 is ",
                   Shown(digest), ", expected ", Shown(expected)));
}

}  // namespace sluice
