#include "services/model/digest/vocabulary_check.h"

#include <filesystem>
#include <system_error>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "kernels/usable_cpus.h"
#include "services/model/digest/file_digest.h"
#include "services/model/gguf_model.h"

namespace sluice {
namespace {

// The first that a folder has is the one that its tokenizer is made of.
constexpr const char* kVocabularyFiles[] = {"tokenizer.json", "tokenizer.model", "spiece.model",
                                            "sentencepiece.bpe.model"};

constexpr char kGgufVocabulary[] = "tokenizer.ggml.tokens";

std::string VocabularyFile(const std::string& folder) {
  if (IsGgufPath(folder)) return kGgufVocabulary;
  std::error_code error;
  for (const char* name : kVocabularyFiles) {
    if (std::filesystem::exists(absl::StrCat(folder, "/", name), error)) return name;
  }
  return "";
}

absl::StatusOr<std::string> DigestOfGguf(const std::string& path) {
  const absl::StatusOr<GgufModel> model = GgufModel::Open(path);
  if (!model.ok()) return model.status();
  const auto found = model->metadata().find(kGgufVocabulary);
  if (found == model->metadata().end()) return "";
  const absl::Span<const std::byte> bytes = found->second.bytes();
  return TextDigest(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

absl::StatusOr<std::string> DigestOf(const std::string& folder, const std::string& file) {
  if (file == kGgufVocabulary) return DigestOfGguf(folder);
  return FileDigest(absl::StrCat(folder, "/", file), UsableCpus(), [](uint64_t) {});
}

}  // namespace

absl::Status CheckSameVocabulary(const VocabularyOwner& model, const VocabularyOwner& draft_model) {
  const std::string refusal =
      absl::StrCat("the draft model ", draft_model.folder, " has other tokens than ", model.folder);
  if (model.size != draft_model.size) {
    return absl::InvalidArgumentError(absl::StrCat(refusal, ": ", draft_model.size, " against ",
                                                   model.size, " in the vocabulary"));
  }
  const std::string file = VocabularyFile(model.folder);
  if (file.empty() || file != VocabularyFile(draft_model.folder)) return absl::OkStatus();
  const absl::StatusOr<std::string> expected = DigestOf(model.folder, file);
  if (!expected.ok()) return expected.status();
  const absl::StatusOr<std::string> actual = DigestOf(draft_model.folder, file);
  if (!actual.ok()) return actual.status();
  if (*expected == *actual) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(refusal, ": their ", file, " differ"));
}

}  // namespace sluice
