#include "services/tokenizer/text_stream.h"

#include <utility>

namespace sluice {

absl::StatusOr<TextStream::Result> TextStream::Append(absl::Span<const TokenId> ids) {
  if (state_ != State::kOpen) {
    return absl::FailedPreconditionError("tokens appended to a text that has ended");
  }
  Result result;
  for (size_t i = 0; i < ids.size(); ++i) {
    absl::StatusOr<std::string> piece = decoder_.Append(ids.subspan(i, 1));
    if (!piece.ok()) {
      state_ = State::kEnded;
      return piece.status();
    }
    ++num_tokens_;
    ++result.num_tokens;
    if (Show(*piece, &result)) break;
  }
  return result;
}

absl::StatusOr<TextStream::Result> TextStream::Finish() {
  if (state_ == State::kEnded) return absl::FailedPreconditionError("the text has ended already");
  Result result;
  if (state_ == State::kOpen && !Show(decoder_.Finish(), &result)) result.text += matcher_.Finish();
  state_ = State::kEnded;
  return result;
}

bool TextStream::Show(std::string_view piece, Result* result) {
  StopMatcher::Result fed =
      num_tokens_ > min_tokens_ ? matcher_.Feed(piece) : matcher_.FeedWithoutEnd(piece);
  result->text += fed.text;
  result->stop_index = fed.stop_index;
  if (fed.stop_index >= 0) state_ = State::kStopped;
  return fed.stop_index >= 0;
}

}  // namespace sluice
