#include "orchestrator/text/text_streams.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "services/process/log.h"

namespace sluice {
namespace {

constexpr absl::Duration kReconnectPause = absl::Milliseconds(100);
// A sequence whose tokens end the tokenizer every time must not keep it from serving the others.
constexpr int kMaxLosses = 5;

}  // namespace

TextStreams::TextStreams(OpenDetokenizeStream open) : open_(std::move(open)) {}

TextStreams::~TextStreams() = default;

void TextStreams::Open(uint64_t id, const TextOptions& options) {
  Sequence& sequence = sequences_[id];
  sequence.open.set_skip_special_tokens(options.skip_special_tokens);
  sequence.open.set_include_stop_string(options.include_stop_string);
  sequence.open.set_min_tokens(static_cast<uint32_t>(options.min_tokens));
  for (const std::string& token : options.kept_special_tokens) {
    sequence.open.add_kept_special_tokens(token);
  }
  for (const std::string& stop : options.stop_strings) sequence.open.add_stop_strings(stop);
  sequence.open.mutable_context_token_ids()->Add(options.context_tokens.begin(),
                                                 options.context_tokens.end());
  sequence.resumed = options.resumed_tokens;
  if (stream_ == nullptr) {
    if (reconnect_at_ == SteadyTime::InfiniteFuture()) Connect();  // opens this sequence too
  } else {
    sequence.live = true;
    SendOpen(id, sequence);
  }
}

void TextStreams::Append(uint64_t id, absl::Span<const int32_t> token_ids) {
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) return;
  found->second.tokens.insert(found->second.tokens.end(), token_ids.begin(), token_ids.end());
  if (found->second.live) SendAppend(id, found->second, token_ids);
}

void TextStreams::Finish(uint64_t id) {
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) return;
  found->second.finish = true;
  if (found->second.live) SendFinish(id, found->second);
}

void TextStreams::Drop(uint64_t id) {
  std::erase_if(answers_, [id](const Answer& answer) { return answer.sequence == id; });
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) return;
  // Lets the tokenizer forget it; nobody hears the answer.
  if (found->second.live && !found->second.finish) SendFinish(id, found->second);
  sequences_.erase(found);
  ReplayNext();
}

void TextStreams::SendOpen(uint64_t id, Sequence& sequence) {
  v1::DetokenizeStreamRequest request;
  request.set_sequence_id(id);
  *request.mutable_open() = sequence.open;
  stream_->Send(std::move(request));
  sequence.resuming = !sequence.resumed.empty();
  if (sequence.resuming) SendAppend(id, sequence, sequence.resumed);
}

void TextStreams::SendAppend(uint64_t id, Sequence& sequence, absl::Span<const int32_t> tokens) {
  v1::DetokenizeStreamRequest request;
  request.set_sequence_id(id);
  request.mutable_append()->mutable_token_ids()->Add(tokens.begin(), tokens.end());
  stream_->Send(std::move(request));
  ++sequence.num_unanswered;
}

void TextStreams::SendFinish(uint64_t id, Sequence& sequence) {
  v1::DetokenizeStreamRequest request;
  request.set_sequence_id(id);
  request.mutable_finish();
  stream_->Send(std::move(request));
  ++sequence.num_unanswered;
}

void TextStreams::Connect() {
  reconnect_at_ = SteadyTime::InfiniteFuture();
  stream_ = open_({.on_response = [this](const auto& response) { OnResponse(response); },
                   .on_done = [this](const absl::Status& status) { ended_ = status; }});
  to_replay_.clear();
  for (const auto& [id, sequence] : sequences_) to_replay_.push_back(id);
  ReplayNext();
}

void TextStreams::ReplayNext() {
  for (; !to_replay_.empty(); to_replay_.pop_front()) {
    const auto found = sequences_.find(to_replay_.front());
    if (found == sequences_.end()) continue;
    if (!found->second.live) Replay(found->first, found->second);
    if (found->second.num_replaying > 0) return;
  }
}

void TextStreams::Replay(uint64_t id, Sequence& sequence) {
  sequence.live = true;
  sequence.skip_bytes = sequence.delivered_bytes;
  SendOpen(id, sequence);
  if (!sequence.tokens.empty()) SendAppend(id, sequence, sequence.tokens);
  if (sequence.finish) SendFinish(id, sequence);
  sequence.num_replaying = sequence.num_unanswered;
}

absl::Status TextStreams::Check(const Sequence& sequence,
                                const v1::DetokenizeStreamResponse& response) {
  const uint64_t num_sent = sequence.resumed.size() + sequence.tokens.size();
  const int num_stop_strings = sequence.open.stop_strings_size();
  if (sequence.num_unanswered == 0) {
    return absl::InternalError("the tokenizer answered more than it was asked");
  }
  if (response.num_tokens() > num_sent) {
    return absl::InternalError(absl::StrCat("the tokenizer counts ", response.num_tokens(),
                                            " tokens of ", num_sent, " that it was sent"));
  }
  if (response.has_stop_string_index() &&
      (response.stop_string_index() < 0 || response.stop_string_index() >= num_stop_strings)) {
    return absl::InternalError(absl::StrCat("the tokenizer found stop string ",
                                            response.stop_string_index(), " of ",
                                            num_stop_strings));
  }
  return absl::OkStatus();
}

std::optional<absl::StatusOr<TextPiece>> TextStreams::PieceOf(
    Sequence& sequence, const v1::DetokenizeStreamResponse& response) {
  if (response.error_code() != 0) {
    return absl::Status(static_cast<absl::StatusCode>(response.error_code()),
                        response.error_message());
  }
  if (absl::Status possible = Check(sequence, response); !possible.ok()) return possible;
  if (sequence.num_replaying > 0) --sequence.num_replaying;
  if (--sequence.num_unanswered == 0) sequence.num_losses = 0;
  const auto num_resumed = static_cast<int64_t>(sequence.resumed.size());
  TextPiece piece;
  if (std::exchange(sequence.resuming, false)) {
    if (!response.has_stop_string_index()) return std::nullopt;
    piece.stop_string_index = response.stop_string_index();  // the caller has all there will be
    return piece;
  }
  const size_t skipped = std::min<uint64_t>(sequence.skip_bytes, response.text().size());
  sequence.skip_bytes -= skipped;
  piece.text = response.text().substr(skipped);
  sequence.delivered_bytes += piece.text.size();
  piece.num_tokens = static_cast<int64_t>(response.num_tokens()) - num_resumed;
  if (response.has_stop_string_index()) piece.stop_string_index = response.stop_string_index();
  piece.finished = response.finished();
  return piece;
}

void TextStreams::OnResponse(const v1::DetokenizeStreamResponse& response) {
  refused_ = false;
  const auto found = sequences_.find(response.sequence_id());
  if (found == sequences_.end()) return;
  std::optional<absl::StatusOr<TextPiece>> piece = PieceOf(found->second, response);
  if (piece.has_value()) {
    const bool over = !piece->ok() || (*piece)->finished || (*piece)->stop_string_index.has_value();
    if (over) sequences_.erase(found);
    answers_.push_back({response.sequence_id(), *std::move(piece)});
  }
  ReplayNext();
}

std::vector<TextStreams::Answer> TextStreams::TakeAnswers() { return std::exchange(answers_, {}); }

void TextStreams::Advance(SteadyTime now) {
  if (ended_.has_value()) Lose(*std::exchange(ended_, std::nullopt), now);
  if (now < reconnect_at_) return;
  reconnect_at_ = SteadyTime::InfiniteFuture();
  if (!sequences_.empty()) Connect();
}

void TextStreams::Lose(const absl::Status& status, SteadyTime now) {
  // A tokenizer of another model has refused the stream: no text is to blame.
  const bool is_refusal = absl::IsAborted(status);
  stream_ = nullptr;
  to_replay_.clear();
  for (auto it = sequences_.begin(); it != sequences_.end();) {
    Sequence& sequence = it->second;
    sequence.live = false;
    sequence.num_replaying = 0;
    const bool suspect = std::exchange(sequence.num_unanswered, 0) > 0 && !is_refusal;
    if (suspect && ++sequence.num_losses > kMaxLosses) {
      answers_.push_back({it->first, absl::InternalError("the tokenizer was lost again and again "
                                                         "over this text")});
      it = sequences_.erase(it);
    } else {
      ++it;
    }
  }
  if (!is_refusal || !refused_) {
    Log(LogLevel::kWarning, "orchestrator", "tokenizer-lost",
        {{"status", status.ToString()}, {"sequences", sequences_.size()}});
  }
  refused_ = is_refusal;
  reconnect_at_ = now + kReconnectPause;
}

}  // namespace sluice
