// Models: they turn one piece of text into tokens. Immutable and thread-safe; what they need while
// working lives in a ModelScratch, one per thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "services/tokenizer/pre_tokenizers/pre_tokenizer.h"
#include "services/tokenizer/text/token.h"

namespace sluice {

// A model's working memory, which may remember results. Not thread-safe.
class ModelScratch {
 public:
  virtual ~ModelScratch() = default;

  // Has `checkpoint`, which is borrowed, called every few hundred microseconds of work from now on;
  // null: nothing is called. It may take its time, so that others are served meanwhile.
  void set_checkpoint(const std::function<void()>* checkpoint) { checkpoint_ = checkpoint; }
  // So many bytes or symbols have been worked on.
  void Checkpoint(size_t work) {
    if (checkpoint_ == nullptr || (since_checkpoint_ += work) < kCheckpointWork) return;
    since_checkpoint_ = 0;
    (*checkpoint_)();
  }

 private:
  static constexpr size_t kCheckpointWork = 4096;

  const std::function<void()>* checkpoint_ = nullptr;
  size_t since_checkpoint_ = 0;
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
