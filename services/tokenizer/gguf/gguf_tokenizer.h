// The tokenizer of a GGUF file in the form of the Hugging Face files that it was made from, so that
// one pipeline reads both. Pure functions of the metadata.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "services/model/gguf/gguf_fields.h"
#include "services/tokenizer/gguf/gguf_vocabulary.h"
#include "services/tokenizer/tokenizer_config.h"

namespace sluice {

// The text of a tokenizer.json: of byte-level BPE ("gpt2"), or of a SentencePiece model's BPE over
// characters with bytes for those that are unknown ("llama"). UNIMPLEMENTED, naming file, key and
// value, where text is split in a way that is not known.
absl::StatusOr<std::string> GgufTokenizerJson(const GgufVocabulary& vocabulary,
                                              const std::string& source);

// BOS, EOS, special tokens and chat templates. NOT_FOUND and the other errors as
// ReadGgufVocabulary.
absl::StatusOr<TokenizerConfig> GgufTokenizerConfig(const GgufView& view);

}  // namespace sluice
