// The text of growing sequences: token ids go to the tokenizer over one multiplexed stream, text
// comes back piece by piece. Outlives the tokenizer: when the stream is lost it opens another,
// replays every sequence's tokens and leaves out what has been delivered, so that callers see a
// pause and never a lost or repeated character.
//
// Thread-safe. Callbacks come from gRPC's threads, in order for each sequence, and must not block.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/channel.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "services/common/client_stream.h"
#include "sluice/v1/tokenizer.grpc.pb.h"

namespace sluice {

struct TextOptions {
  bool skip_special_tokens = true;
  std::vector<std::string> stop_strings;
  bool include_stop_string = false;
  std::vector<int32_t> context_tokens;  // the prompt's last ones
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
  using OnPiece = std::function<void(absl::StatusOr<TextPiece>)>;

  explicit TextStreams(std::shared_ptr<grpc::Channel> channel);
  // No callback follows.
  ~TextStreams();

  // `sequence` is the caller's name for it, unique among those open. Every Append and Finish is
  // answered by a piece, though a piece may answer several of them.
  void Open(uint64_t sequence, const TextOptions& options, OnPiece on_piece);
  void Append(uint64_t sequence, absl::Span<const int32_t> token_ids);
  void Finish(uint64_t sequence);
  // The caller is no longer interested: no callback follows; one under way is waited for, so that a
  // callback must not call this.
  void Drop(uint64_t sequence);

 private:
  using Stream = ClientStream<v1::DetokenizeStreamRequest, v1::DetokenizeStreamResponse>;

  struct Sequence {
    v1::DetokenizeOpen open;
    std::vector<int32_t> resumed;
    std::vector<int32_t> tokens;  // everything appended since
    bool finish = false;
    OnPiece on_piece;
    bool live = false;             // its requests go to the stream; else they wait for its replay
    int num_unanswered = 0;        // requests on the stream that owe an answer
    int num_replaying = 0;         // those of its replay
    bool resuming = false;         // the answer to the resumed tokens is still to come
    uint64_t delivered_bytes = 0;  // of text, to callers
    uint64_t skip_bytes = 0;       // of text still to come that callers have
    int num_losses = 0;            // of the stream over its requests, since all were answered
  };

  // What stream callbacks share with the object; `owner` is cleared when it dies.
  struct Link {
    absl::Mutex mutex;
    TextStreams* owner ABSL_GUARDED_BY(mutex);
  };

  // Calls `method` of the object unless it is gone.
  static void Tell(const std::shared_ptr<Link>& link,
                   const std::function<void(TextStreams&)>& method);

  void Connect() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Replays sequences one at a time, each once the one before has been answered: what the tokenizer
  // is lost over is then known to be that one's.
  void ReplayNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Replay(uint64_t id, Sequence& sequence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnResponse(uint64_t generation, v1::DetokenizeStreamResponse response);
  void OnStreamDone(uint64_t generation, const absl::Status& status);
  void Reconnect();
  void SendOpen(uint64_t id, Sequence& sequence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendAppend(uint64_t id, Sequence& sequence, absl::Span<const int32_t> tokens)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendFinish(uint64_t id, Sequence& sequence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The piece that a response means for its sequence; nothing where there is nothing to tell.
  static std::optional<absl::StatusOr<TextPiece>> PieceOf(
      Sequence& sequence, const v1::DetokenizeStreamResponse& response);

  const std::unique_ptr<v1::TokenizerService::Stub> stub_;
  const std::shared_ptr<Link> link_;

  absl::Mutex mutex_;
  std::map<uint64_t, Sequence> sequences_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Stream> stream_ ABSL_GUARDED_BY(mutex_);
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;  // of stream_; answers of older ones are stale
  std::deque<uint64_t> to_replay_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Alarm> retry_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice
