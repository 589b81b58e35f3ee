// Models: they turn one piece of text into tokens. Immutable and thread-safe; what they need while
// working lives in a ModelScratch, one per thread.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "services/tokenizer/pre_tokenizers/pre_tokenizer.h"
#include "services/tokenizer/token.h"

namespace sluice {

// A model's working memory, which may remember results. Not thread-safe.
class ModelScratch {
 public:
  virtual ~ModelScratch() = default;
};

class Model {
 public:
  virtual ~Model() = default;

  virtual std::unique_ptr<ModelScratch> NewScratch() const = 0;

  // Appends the tokens of `piece` to `out`, with their offsets where piece.map is set. `scratch` is
  // from NewScratch. Every piece that one scratch sees has the same value of byte_level.
  virtual void Tokenize(const Piece& piece, ModelScratch& scratch, Encoding* out) const = 0;
};

}  // namespace sluice
