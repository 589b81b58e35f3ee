#include "services/gateway/backend/generation.h"

#include <utility>

#include "services/common/random.h"
#include "services/messages/num_returned.h"

namespace sluice::gateway {

std::shared_ptr<Generation> Generation::Start(Backend& backend, Caller caller,
                                              v1::GenerateRequest request, Handler handler) {
  if (!request.sampling().has_seed()) request.mutable_sampling()->set_seed(RandomNumber());
  auto generation = std::shared_ptr<Generation>(
      new Generation(backend, std::move(caller), std::move(request), std::move(handler)));
  generation->Try();
  return generation;
}

Generation::Generation(Backend& backend, Caller caller, v1::GenerateRequest request,
                       Handler handler)
    : backend_(backend),
      caller_(std::move(caller)),
      request_(std::move(request)),
      handler_(std::move(handler)),
      started_(SteadyTime::Now()),
      last_token_(NumReturned(request_), SteadyTime()) {
  ++backend_.meter().num_open;
}

Generation::~Generation() {
  Cancel();
  --backend_.meter().num_open;
}

void Generation::Try() {
  if (over_) return;
  call_ = backend_.StartCall(caller_, request_, route_, weak_from_this());
  if (call_ == nullptr) return OnEnd(absl::CancelledError("shutting down"));
  if (paused_) call_->SetReading(false);
}

void Generation::OnEvent(const v1::GenerateResponse& event) {
  if (over_) return;
  begun_ = true;
  give_up_.reset();
  if (event.has_started()) backend_.OnStarted(route_, event.started());
  if (event.has_started() && !std::exchange(has_started_, true) && handler_.on_started) {
    handler_.on_started(event.started());
  }
  if (event.has_finished()) {
    over_ = true;
    return handler_.on_finished(event.finished());
  }
  NoteTokens(event.chunk());
  NoteTimes(event.chunk());
  handler_.on_chunk(event.chunk());
}

void Generation::NoteTokens(const v1::Chunk& chunk) {
  if (chunk.sequence() < 0 || chunk.sequence() >= NumReturned(request_)) return;
  while (request_.resume_size() <= chunk.sequence()) request_.add_resume();
  request_.mutable_resume(chunk.sequence())->mutable_token_ids()->MergeFrom(chunk.token_ids());
}

void Generation::NoteTimes(const v1::Chunk& chunk) {
  const int count = chunk.token_ids_size();
  const auto sequence = static_cast<size_t>(chunk.sequence());
  if (count == 0 || sequence >= last_token_.size()) return;
  Meter& meter = backend_.meter();
  const SteadyTime now = SteadyTime::Now();
  const SteadyTime last = std::exchange(last_token_[sequence], now);
  meter.num_tokens += count;
  if (last == SteadyTime()) {
    meter.time_to_first_token.Add(now - started_);
  } else {
    meter.time_between_tokens.Add((now - last) / count, count);
  }
}

void Generation::OnEnd(const absl::Status& status) {
  if (over_) return;
  // A call that reaches a server as it shuts down is cancelled by it; whoever cancels here is over.
  if (absl::IsUnavailable(status) || (absl::IsCancelled(status) && call_ != nullptr)) {
    const SteadyTime now = SteadyTime::Now();
    backend_.OnLost(route_);
    // Counted from the first failure: a server may have kept the call for long before it was lost.
    if (!give_up_.has_value()) {
      const BackendOptions& options = backend_.options();
      give_up_ = now + (begun_ ? options.resume_timeout : options.connect_timeout);
      if (begun_) ++backend_.meter().num_resumed;
    }
    if (now < *give_up_) {
      call_ = nullptr;
      return caller_.loop->After(kRetryPause, [self = shared_from_this()] { self->Try(); });
    }
  }
  over_ = true;
  handler_.on_failed(status.ok() ? absl::InternalError("the stream ended before its last event")
                                 : Backend::ForClient(caller_, status));
}

void Generation::Pause() {
  if (!std::exchange(paused_, true) && call_ != nullptr) call_->SetReading(false);
}

void Generation::Resume() {
  if (std::exchange(paused_, false) && call_ != nullptr) call_->SetReading(true);
}

void Generation::Cancel() {
  if (std::exchange(over_, true)) return;
  if (call_ != nullptr) call_->Cancel();
}

}  // namespace sluice::gateway
