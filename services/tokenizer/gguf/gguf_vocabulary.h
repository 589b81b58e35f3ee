// The vocabulary of a GGUF file, taken out of its metadata and checked. Borrows from the metadata.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "services/model/gguf/gguf_fields.h"
#include "services/tokenizer/text/token.h"

namespace sluice {

struct GgufVocabulary {
  // Numbered as in the file.
  enum class TokenType : int32_t {
    kNormal = 1,
    kUnknown = 2,
    kControl = 3,
    kUserDefined = 4,
    kUnused = 5,
    kByte = 6
  };

  std::string
      model;        // tokenizer.ggml.model: "gpt2" (byte-level BPE), "llama" (SentencePiece BPE) or
                    // "gemma4" (the same with merges in place of scores)
  std::string pre;  // tokenizer.ggml.pre: how text is split; empty: the file does not say
  std::vector<std::string_view> tokens;  // by id, UTF-8
  std::vector<TokenType> types;          // of each
  std::vector<double> scores;            // of each, for "llama"
  std::vector<std::string_view> merges;  // "a b", by rank, for "gpt2"
  std::optional<TokenId> bos, eos, unknown, padding;
  std::optional<bool> adds_bos, adds_eos;  // around a text
  bool adds_space = true;                  // in front of a text, for "llama"
  bool is_phi3 = false;  // whose control tokens take the whitespace behind them along
};

// NOT_FOUND where the file has no vocabulary; UNIMPLEMENTED for another kind of it;
// INVALID_ARGUMENT naming file and key where lists have other lengths than the tokens, a token is
// no UTF-8, or an id is no token's.
absl::StatusOr<GgufVocabulary> ReadGgufVocabulary(const GgufView& view);

}  // namespace sluice
