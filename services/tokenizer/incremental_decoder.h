// The text of one sequence of tokens while it grows. Emitted text never changes, is valid UTF-8,
// and joined up is what Tokenizer::Decode gives for all ids; it is held back only while later
// tokens may still change it. The work is proportional to the new tokens. Not thread-safe; the
// tokenizer must outlive it. Movable.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "services/tokenizer/decoders/decoder.h"
#include "services/tokenizer/tokenizer.h"

namespace sluice {

class IncrementalDecoder {
 public:
  explicit IncrementalDecoder(const Tokenizer& tokenizer, const DecodeOptions& options = {});

  // Takes tokens that come before the first Append, such as a prompt's, without returning their
  // text: what follows is decoded as their continuation. A character that they leave unfinished is
  // returned once it is certain. Errors as Append.
  absl::Status Prime(absl::Span<const TokenId> ids);

  // The text that `ids` make certain. INVALID_ARGUMENT naming the first id that is no token's; none
  // of `ids` is taken then. REQUIRES: Finish was not called.
  absl::StatusOr<std::string> Append(absl::Span<const TokenId> ids);

  // The rest of the text. Called once, last.
  std::string Finish();

 private:
  bool IsKept(TokenId id) const;

  const Tokenizer* tokenizer_;
  DecodeOptions options_;
  std::unique_ptr<std::string> out_;  // where the last stage writes
  std::unique_ptr<DecodeStage> stage_;
};

}  // namespace sluice
