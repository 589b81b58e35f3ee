// The text of one generated sequence, as it is shown: tokens decoded as they come, up to a stop
// string. Not thread-safe; the tokenizer and the stop strings must outlive it. Movable.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "services/tokenizer/incremental_decoder.h"
#include "services/tokenizer/stop_strings.h"
#include "services/tokenizer/tokenizer.h"

namespace sluice {

class TextStream {
 public:
  struct Options {
    DecodeOptions decode;
    StopMatcherOptions stop;
    // A stop string ends the text only where the token that completes it comes behind so many
    // others.
    size_t min_tokens = 0;
  };

  TextStream(const Tokenizer& tokenizer, const StopStrings& stop_strings, const Options& options)
      : decoder_(tokenizer, options.decode),
        matcher_(stop_strings, options.stop),
        min_tokens_(options.min_tokens) {}

  // Tokens before the first Append, such as a prompt's. Stop strings are not looked for in their
  // text.
  absl::Status Prime(absl::Span<const TokenId> ids) { return decoder_.Prime(ids); }

  struct Result {
    std::string text;  // that can be shown
    // How many of the ids were taken: all, or up to the one whose text completed a stop string.
    size_t num_tokens = 0;
    int stop_index = -1;  // of the stop string that ended the text; -1 for none
    bool stopped() const { return stop_index >= 0; }
  };

  // INVALID_ARGUMENT naming an id that is no token's, which ends the stream. FAILED_PRECONDITION
  // after a stop string or Finish.
  absl::StatusOr<Result> Append(absl::Span<const TokenId> ids);

  // No more tokens follow: the rest of the text. num_tokens is 0; text that comes only now may
  // still complete a stop string. FAILED_PRECONDITION after Finish; after a stop string there is no
  // more text.
  absl::StatusOr<Result> Finish();

  // Tokens taken so far.
  size_t num_tokens() const { return num_tokens_; }

 private:
  enum class State { kOpen, kStopped, kEnded };

  // Adds a piece to a result. True if it completes a stop string.
  bool Show(std::string_view piece, Result* result);

  IncrementalDecoder decoder_;
  StopMatcher matcher_;
  size_t min_tokens_;
  State state_ = State::kOpen;
  size_t num_tokens_ = 0;
};

}  // namespace sluice
