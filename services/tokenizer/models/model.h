// Models: they turn one piece of text into tokens. Immutable and thread-safe; what they need while
// working lives in a ModelScratch, one per thread.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "services/tokenizer/pre_tokenizers/pre_tokenizer.h"
#include "services/tokenizer/text/pace.h"
#include "services/tokenizer/text/token.h"

namespace sluice {

// A model's working memory, which may remember results. Not thread-safe.
class ModelScratch {
 public:
  virtual ~ModelScratch() = default;

  // The pace of the work from now on, which is borrowed; null: it goes on to its end.
  void set_pace(Pace* pace) { pace_ = pace; }
  // So many bytes or symbols have been worked on. False: the work ends, and what has been made of the
  // piece is of no use.
  bool Pass(size_t work) { return Passes(pace_, work); }

 private:
  Pace* pace_ = nullptr;
};

class Model {
 public:
  virtual ~Model() = default;

  virtual std::unique_ptr<ModelScratch> NewScratch() const = 0;

  // Appends the tokens of `piece` to `out`, with their offsets where piece.map is set; any tokens
  // where the pace of `scratch` stops. `scratch` is from NewScratch. Every piece that one scratch sees has the same value of byte_level.
  virtual void Tokenize(const Piece& piece, ModelScratch& scratch, Encoding* out) const = 0;
};

}  // namespace sluice
