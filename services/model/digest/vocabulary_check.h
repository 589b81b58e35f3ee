// Checks that two models have the same vocabulary, so that a draft model can draft for the other.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace sluice {

struct VocabularyOwner {
  std::string folder;
  int size = 0;  // ModelConfig::vocab_size
};

// OK, or INVALID_ARGUMENT naming both folders and what differs: the sizes, or the file that says
// which tokens there are, where both folders have the same kind of it. Errors of reading it.
absl::Status CheckSameVocabulary(const VocabularyOwner& model, const VocabularyOwner& draft_model);

}  // namespace sluice
