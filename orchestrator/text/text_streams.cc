#include "orchestrator/text/text_streams.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "services/common/log.h"
#include "services/common/status.h"

namespace sluice {
namespace {

constexpr absl::Duration kReconnectPause = absl::Milliseconds(100);
// A sequence whose tokens end the tokenizer every time must not keep it from serving the others.
constexpr int kMaxLosses = 5;

}  // namespace

TextStreams::TextStreams(std::shared_ptr<grpc::Channel> channel)
    : stub_(v1::TokenizerService::NewStub(std::move(channel))), link_(std::make_shared<Link>()) {
  absl::MutexLock lock(&link_->mutex);
  link_->owner = this;
}

TextStreams::~TextStreams() {
  {
    absl::MutexLock lock(&link_->mutex);
    link_->owner = nullptr;
  }
  absl::MutexLock lock(&mutex_);
  if (stream_ != nullptr) stream_->Cancel();
}

void TextStreams::Tell(const std::shared_ptr<Link>& link,
                       const std::function<void(TextStreams&)>& method) {
  // Held during the call, so that the destructor waits for a callback that is under way.
  absl::MutexLock lock(&link->mutex);
  if (link->owner != nullptr) method(*link->owner);
}

void TextStreams::Open(uint64_t id, const TextOptions& options, OnPiece on_piece) {
  absl::MutexLock lock(&mutex_);
  Sequence& sequence = sequences_[id];
  sequence.open.set_skip_special_tokens(options.skip_special_tokens);
  sequence.open.set_include_stop_string(options.include_stop_string);
  for (const std::string& stop : options.stop_strings) sequence.open.add_stop_strings(stop);
  sequence.open.mutable_context_token_ids()->Add(options.context_tokens.begin(),
                                                 options.context_tokens.end());
  sequence.resumed = options.resumed_tokens;
  sequence.on_piece = std::move(on_piece);
  if (stream_ == nullptr) {
    Connect();  // opens this sequence too
  } else {
    sequence.live = true;
    SendOpen(id, sequence);
  }
}

void TextStreams::Append(uint64_t id, absl::Span<const int32_t> token_ids) {
  absl::MutexLock lock(&mutex_);
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) return;
  found->second.tokens.insert(found->second.tokens.end(), token_ids.begin(), token_ids.end());
  if (found->second.live) SendAppend(id, found->second, token_ids);
}

void TextStreams::Finish(uint64_t id) {
  absl::MutexLock lock(&mutex_);
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) return;
  found->second.finish = true;
  if (found->second.live) SendFinish(id, found->second);
}

void TextStreams::Drop(uint64_t id) {
  absl::MutexLock callbacks(&link_->mutex);  // waits for one that is under way
  absl::MutexLock lock(&mutex_);
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
  const uint64_t generation = ++generation_;
  stream_ = Stream::Start(
      [this](grpc::ClientContext* context, Stream* stream) {
        context->set_wait_for_ready(true);
        stub_->async()->DetokenizeStream(context, stream);
      },
      {.on_response =
           [link = link_, generation](v1::DetokenizeStreamResponse response) {
             Tell(link, [&](TextStreams& streams) {
               streams.OnResponse(generation, std::move(response));
             });
           },
       .on_done =
           [link = link_, generation](const absl::Status& status) {
             Tell(link, [&](TextStreams& streams) { streams.OnStreamDone(generation, status); });
           }});
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

std::optional<absl::StatusOr<TextPiece>> TextStreams::PieceOf(
    Sequence& sequence, const v1::DetokenizeStreamResponse& response) {
  if (response.error_code() != 0) {
    return absl::Status(static_cast<absl::StatusCode>(response.error_code()),
                        response.error_message());
  }
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

void TextStreams::OnResponse(uint64_t generation, v1::DetokenizeStreamResponse response) {
  const uint64_t id = response.sequence_id();
  std::optional<absl::StatusOr<TextPiece>> piece;
  OnPiece on_piece;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = sequences_.find(id);
    if (generation != generation_ || found == sequences_.end()) return;
    piece = PieceOf(found->second, response);
    if (piece.has_value()) {
      on_piece = found->second.on_piece;
      const bool over =
          !piece->ok() || (*piece)->finished || (*piece)->stop_string_index.has_value();
      if (over) sequences_.erase(found);
    }
    ReplayNext();
  }
  if (piece.has_value()) on_piece(*std::move(piece));
}

void TextStreams::OnStreamDone(uint64_t generation, const absl::Status& status) {
  std::vector<OnPiece> given_up;
  {
    absl::MutexLock lock(&mutex_);
    if (generation != generation_) return;
    stream_ = nullptr;
    to_replay_.clear();
    for (auto it = sequences_.begin(); it != sequences_.end();) {
      Sequence& sequence = it->second;
      sequence.live = false;
      sequence.num_replaying = 0;
      const bool suspect = std::exchange(sequence.num_unanswered, 0) > 0;
      if (suspect && ++sequence.num_losses > kMaxLosses) {
        given_up.push_back(std::move(sequence.on_piece));
        it = sequences_.erase(it);
      } else {
        ++it;
      }
    }
    Log(LogLevel::kWarning, "orchestrator", "tokenizer-lost",
        {{"status", status.ToString()}, {"sequences", sequences_.size()}});
    retry_ = std::make_unique<grpc::Alarm>();
    retry_->Set(absl::ToChronoTime(absl::Now() + kReconnectPause), [link = link_](bool ok) {
      if (ok) Tell(link, [](TextStreams& streams) { streams.Reconnect(); });
    });
  }
  for (const OnPiece& on_piece : given_up) {
    on_piece(absl::InternalError("the tokenizer was lost again and again over this text"));
  }
}

void TextStreams::Reconnect() {
  absl::MutexLock lock(&mutex_);
  if (stream_ == nullptr && !sequences_.empty()) Connect();
}

}  // namespace sluice
