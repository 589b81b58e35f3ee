#include "services/gateway/backend/generation.h"

#include <grpcpp/support/client_callback.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "services/common/num_returned.h"
#include "services/common/status.h"
#include "services/gateway/backend/random.h"

namespace sluice::gateway {
// One call. Kept alive by gRPC until it is done; tells its generation, on the loop, while there is
// one.
class Generation::Attempt final : public grpc::ClientReadReactor<v1::GenerateResponse>,
                                  public std::enable_shared_from_this<Attempt> {
 public:
  static std::shared_ptr<Attempt> Start(Backend& backend, const Caller& caller,
                                        v1::GenerateRequest request,
                                        std::weak_ptr<Generation> generation) {
    auto attempt = std::shared_ptr<Attempt>(
        new Attempt(backend, *caller.loop, std::move(request), std::move(generation)));
    attempt->self_ = attempt;
    if (!backend.CallBegins(&attempt->context_)) {
      attempt->self_ = nullptr;
      return nullptr;
    }
    Backend::Prepare(attempt->context_, caller);
    backend.PickStub().async()->Generate(&attempt->context_, &attempt->request_, attempt.get());
    attempt->AddHold();  // reads start from the loop
    attempt->StartRead(&attempt->event_);
    attempt->StartCall();
    return attempt;
  }

  // Reads the next event. On the loop, after the one before was handled.
  void ReadNext() {
    if (!released_) StartRead(&event_);
  }
  // No more reads.
  void Release() {
    if (!released_.exchange(true)) RemoveHold();
  }
  void Cancel() {
    context_.TryCancel();
    Release();
  }

 private:
  Attempt(Backend& backend, http::Loop& loop, v1::GenerateRequest request,
          std::weak_ptr<Generation> generation)
      : backend_(backend),
        loop_(loop),
        request_(std::move(request)),
        generation_(std::move(generation)) {}

  void OnReadDone(bool ok) override {
    if (!ok) return Release();
    loop_.Post([self = shared_from_this()] {
      const std::shared_ptr<Generation> generation = self->generation_.lock();
      if (generation == nullptr) return self->Release();
      generation->OnEvent(self->event_);
    });
  }

  void OnDone(const grpc::Status& status) override {
    const std::shared_ptr<Attempt> self = std::move(self_);
    loop_.Post([self, status = FromGrpc(status)] {
      const std::shared_ptr<Generation> generation = self->generation_.lock();
      if (generation != nullptr && generation->attempt_ == self) generation->OnEnd(status);
    });
    backend_.CallEnds(&context_);
  }

  Backend& backend_;
  http::Loop& loop_;
  const v1::GenerateRequest request_;
  const std::weak_ptr<Generation> generation_;
  grpc::ClientContext context_;
  v1::GenerateResponse event_;
  std::atomic<bool> released_{false};
  std::shared_ptr<Attempt> self_;
};

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
      give_up_(SteadyTime::Now() + backend.options().connect_timeout),
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
  attempt_ = Attempt::Start(backend_, caller_, request_, weak_from_this());
  if (attempt_ == nullptr) OnEnd(absl::CancelledError("shutting down"));
}

void Generation::OnEvent(const v1::GenerateResponse& event) {
  if (over_) return;
  give_up_ = SteadyTime::InfiniteFuture();
  if (event.has_finished()) {
    over_ = true;
    attempt_->ReadNext();  // nothing but the call's end
    return handler_.on_finished(event.finished());
  }
  NoteTokens(event.chunk());
  NoteTimes(event.chunk());
  handler_.on_chunk(event.chunk());
  if (over_) return;
  if (paused_) {
    wants_read_ = true;
  } else {
    attempt_->ReadNext();
  }
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
  wants_read_ = false;
  // A call that reaches a server as it shuts down is cancelled by it; whoever cancels here is over.
  if (absl::IsUnavailable(status) || (absl::IsCancelled(status) && attempt_ != nullptr)) {
    const SteadyTime now = SteadyTime::Now();
    if (give_up_ == SteadyTime::InfiniteFuture()) {
      give_up_ = now + backend_.options().resume_timeout;
      ++backend_.meter().num_resumed;
    }
    if (now < give_up_) {
      attempt_ = nullptr;
      return caller_.loop->After(kRetryPause, [self = shared_from_this()] { self->Try(); });
    }
  }
  over_ = true;
  handler_.on_failed(status.ok() ? absl::InternalError("the stream ended before its last event")
                                 : status);
}

void Generation::Resume() {
  paused_ = false;
  if (std::exchange(wants_read_, false) && attempt_ != nullptr) attempt_->ReadNext();
}

void Generation::Cancel() {
  if (std::exchange(over_, true)) return;
  if (attempt_ != nullptr) attempt_->Cancel();
}

}  // namespace sluice::gateway
