// The tokenizer of a GGUF file in the form of the Hugging Face file that it was made from, so that
// one pipeline reads both. Pure function of the vocabulary.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "services/tokenizer/gguf/gguf_vocabulary.h"

namespace sluice {

// The text of a tokenizer.json: of byte-level BPE ("gpt2"), or of a SentencePiece model's BPE over
// characters with bytes for those that are unknown ("llama"). UNIMPLEMENTED, naming file, key and
// value, where text is split in a way that is not known.
absl::StatusOr<std::string> GgufTokenizerJson(const GgufVocabulary& vocabulary,
                                              const std::string& source);

}  // namespace sluice
