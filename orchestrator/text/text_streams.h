// The text of growing sequences: token ids go to the tokenizer over one multiplexed stream, text
// comes back piece by piece. Outlives the tokenizer: when the stream is lost it opens another,
// replays every sequence's tokens and leaves out what has been delivered, so that callers see a
// pause and never a lost or repeated character.
//
// Lives on one event loop. It never calls back: pieces are taken.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "services/common/steady_time.h"
#include "services/streams/message_stream.h"
#include "sluice/v1/tokenizer.pb.h"

namespace sluice {

using DetokenizeStream = MessageStream<v1::DetokenizeStreamRequest, v1::DetokenizeStreamResponse>;

// Opens a stream to the tokenizer, which need not be there yet. No call of the handler comes from
// within the call.
using OpenDetokenizeStream =
    std::function<std::unique_ptr<DetokenizeStream>(DetokenizeStream::Handler handler)>;

struct TextOptions {
  bool skip_special_tokens = true;
  std::vector<std::string> stop_strings;
  bool include_stop_string = false;
  int32_t min_tokens = 0;  // stop strings are text until there are more, resumed ones included
  std::vector<std::string> kept_special_tokens;  // that skip_special_tokens does not leave out
  std::vector<int32_t> context_tokens;           // the prompt's last ones
  // Tokens that an earlier call delivered, as if appended first; neither they nor their text come
  // back.
  std::vector<int32_t> resumed_tokens;
};

struct TextPiece {
  std::string text;  // new since the last piece, whole UTF-8 characters
  // Tokens consumed since the sequence was opened, without resumed ones. The one that completed a
  // stop string is the last one counted.
  int64_t num_tokens = 0;
  std::optional<int> stop_string_index;  // the sequence ended with it; no more pieces follow
  bool finished = false;                 // the answer to Finish; no more pieces follow
};

class TextStreams {
 public:
  // A status in place of a piece ends the sequence.
  struct Answer {
    uint64_t sequence = 0;
    absl::StatusOr<TextPiece> piece;
  };

  explicit TextStreams(OpenDetokenizeStream open);
  ~TextStreams();

  // `sequence` is the caller's name for it, unique among those open. Every Append and Finish is
  // answered by a piece, though a piece may answer several of them.
  void Open(uint64_t sequence, const TextOptions& options);
  void Append(uint64_t sequence, absl::Span<const int32_t> token_ids);
  void Finish(uint64_t sequence);
  // The caller is no longer interested: no answer follows.
  void Drop(uint64_t sequence);

  // Works on what has come and what is due.
  void Advance(SteadyTime now);
  // When Advance() has something to do even if nothing comes.
  SteadyTime NextWake() const { return reconnect_at_; }

  // What has come since the last call, in order for each sequence.
  std::vector<Answer> TakeAnswers();

 private:
  struct Sequence {
    v1::DetokenizeOpen open;
    std::vector<int32_t> resumed;
    std::vector<int32_t> tokens;  // everything appended since
    bool finish = false;
    bool live = false;             // its requests go to the stream; else they wait for its replay
    int num_unanswered = 0;        // requests on the stream that owe an answer
    int num_replaying = 0;         // those of its replay
    bool resuming = false;         // the answer to the resumed tokens is still to come
    uint64_t delivered_bytes = 0;  // of text, to callers
    uint64_t skip_bytes = 0;       // of text still to come that callers have
    int num_losses = 0;            // of the stream over its requests, since all were answered
  };

  void Connect();
  // Replays sequences one at a time, each once the one before has been answered: what the tokenizer
  // is lost over is then known to be that one's.
  void ReplayNext();
  void Replay(uint64_t id, Sequence& sequence);
  void OnResponse(const v1::DetokenizeStreamResponse& response);
  void Lose(const absl::Status& status, SteadyTime now);
  void SendOpen(uint64_t id, Sequence& sequence);
  void SendAppend(uint64_t id, Sequence& sequence, absl::Span<const int32_t> tokens);
  void SendFinish(uint64_t id, Sequence& sequence);
  // INTERNAL where the tokenizer answers what it can't have found in what it was sent.
  static absl::Status Check(const Sequence& sequence, const v1::DetokenizeStreamResponse& response);
  // The piece that a response means for its sequence; nothing where there is nothing to tell.
  static std::optional<absl::StatusOr<TextPiece>> PieceOf(
      Sequence& sequence, const v1::DetokenizeStreamResponse& response);

  const OpenDetokenizeStream open_;

  std::map<uint64_t, Sequence> sequences_;
  std::unique_ptr<DetokenizeStream> stream_;
  std::optional<absl::Status> ended_;  // the stream has, for Advance() to see
  bool refused_ = false;               // the last stream was, which is logged once
  SteadyTime reconnect_at_ = SteadyTime::InfiniteFuture();
  std::deque<uint64_t> to_replay_;
  std::vector<Answer> answers_;
};

}  // namespace sluice
