// Post-processors: what is put around a text's tokens. Immutable and thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "services/tokenizer/text/token.h"

namespace sluice {

struct JsonPlace;

class PostProcessor {
 public:
  // The text of a token that covers these bytes of the original text: an added token's is what
  // was found there, any other's what the vocabulary spells.
  using TokenText = absl::FunctionRef<std::string_view(TokenId, ByteRange)>;

  struct Input {
    std::string_view text;    // the original one
    bool add_special = true;  // otherwise no special tokens are added
    bool has_offsets = false;
    TokenText token_text;
  };

  virtual ~PostProcessor() = default;

  // Rewrites the tokens of one text; encoding->offsets is empty where it was not asked for.
  virtual void Process(const Input& input, Encoding* encoding) const = 0;

  // Joins the tokens of a pair of texts, to which `second` is added. Returns where the tokens of type
  // 1 begin, as models with token types read them: the number of all tokens where there are none.
  // Without `add_special` no special tokens are added. By default the second text's follow the first's.
  virtual size_t JoinPair(bool add_special, const std::vector<TokenId>& second,
                          std::vector<TokenId>* first) const;
};

// A post-processor as tokenizer.json describes it, for a single text; nullptr for null.
// INVALID_ARGUMENT or UNIMPLEMENTED naming file, path and value.
absl::StatusOr<std::unique_ptr<PostProcessor>> PostProcessorFromJson(const JsonPlace& place);

}  // namespace sluice
