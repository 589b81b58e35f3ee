// Tokenizer's way from a GGUF file.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "services/model/gguf/gguf_fields.h"
#include "services/tokenizer/tokenizer.h"
#include "services/tokenizer/tokenizer_config.h"

namespace sluice {

// From the metadata of a GGUF file, and GgufTokenizerConfig's with what replaces parts of it. NOT_FOUND
// where the file has no vocabulary, else as Tokenizer::Load.
absl::StatusOr<std::unique_ptr<const Tokenizer>> TokenizerFromGguf(const GgufView& view,
                                                                   TokenizerConfig config);

// BOS, EOS, special tokens and chat templates. Errors likewise.
absl::StatusOr<TokenizerConfig> GgufTokenizerConfig(const GgufView& view);

}  // namespace sluice
