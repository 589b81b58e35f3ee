#include "services/model/digest/vocabulary_check.h"

#include <filesystem>
#include <system_error>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "kernels/usable_cpus.h"
#include "services/model/digest/file_digest.h"

namespace sluice {
namespace {

// The first that a folder has is the one that its tokenizer is made of.
constexpr const char* kVocabularyFiles[] = {"tokenizer.json", "tokenizer.model", "spiece.model",
                                            "sentencepiece.bpe.model"};

std::string VocabularyFile(const std::string& folder) {
  std::error_code error;
  for (const char* name : kVocabularyFiles) {
    if (std::filesystem::exists(absl::StrCat(folder, "/", name), error)) return name;
  }
  return "";
}

absl::StatusOr<std::string> DigestOf(const std::string& path) {
  return FileDigest(path, UsableCpus(), [](uint64_t) {});
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
  const absl::StatusOr<std::string> expected = DigestOf(absl::StrCat(model.folder, "/", file));
  if (!expected.ok()) return expected.status();
  const absl::StatusOr<std::string> actual = DigestOf(absl::StrCat(draft_model.folder, "/", file));
  if (!actual.ok()) return actual.status();
  if (*expected == *actual) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(refusal, ": their ", file, " differ"));
}

}  // namespace sluice
