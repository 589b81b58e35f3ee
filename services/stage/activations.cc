#include "services/stage/activations.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/messages/wiring_message.h"
#include "services/stage/lane_offer.h"
#include "services/stage/row_intake.h"

namespace sluice {

void ActivationsReceiver::Open(const WiringIdentity& wiring, std::shared_ptr<Inbox> inbox,
                               RingUse ring) {
  std::shared_ptr<Stream> old;
  {
    absl::MutexLock lock(&mutex_);
    wiring_ = wiring;
    inbox_ = std::move(inbox);
    ring_use_ = ring;
    asks_for_ring_ = false;
    ring_offer_.reset();
    old = std::move(stream_);
  }
  if (old != nullptr) {
    old->Close(absl::AbortedError(absl::StrCat("replaced by epoch ", wiring.epoch)));
  }
}

void ActivationsReceiver::Close(uint64_t epoch, const absl::Status& reason) {
  std::shared_ptr<Stream> old;
  {
    absl::MutexLock lock(&mutex_);
    if (epoch != wiring_.epoch) return;
    inbox_ = nullptr;
    old = std::move(stream_);
  }
  if (old != nullptr) old->Close(reason);
}

grpc::ServerBidiReactor<v1::PushRequest, v1::PushResponse>* ActivationsReceiver::Serve(
    grpc::CallbackServerContext* context) {
  return Stream::Start(
      {.on_request = [this](Stream& stream,
                            v1::PushRequest request) { OnRequest(stream, std::move(request)); },
       .on_requests_end = [](Stream& stream) { stream.Close(absl::OkStatus()); },
       .on_this_host = IsOnThisHost(*context),
       .in_this_process = IsInThisProcess(*context)});
}

void ActivationsReceiver::OnRequest(Stream& stream, v1::PushRequest request) {
  absl::Status status;
  switch (request.request_case()) {
    case v1::PushRequest::kOpen:
      status = Accept(request.open(), stream);
      break;
    case v1::PushRequest::kStep:
      status = Deliver(stream, std::move(request));
      break;
    case v1::PushRequest::kRing:
      status = KeepRingOffer(stream, std::move(*request.mutable_ring()));
      break;
    case v1::PushRequest::REQUEST_NOT_SET:
      status = absl::InvalidArgumentError("PushRequest without open, step or ring");
      break;
  }
  if (!status.ok()) stream.Close(status);
}

absl::Status ActivationsReceiver::Accept(const v1::PushOpen& open, Stream& stream) {
  absl::MutexLock lock(&mutex_);
  if (inbox_ == nullptr) {
    return absl::AbortedError(absl::StrCat("not wired into epoch ", open.epoch(),
                                           "; the latest epoch was ", wiring_.epoch));
  }
  if (absl::Status same = CheckWiring(open, wiring_); !same.ok()) return same;
  if (stream_ != nullptr) {
    return absl::AbortedError(absl::StrCat("epoch ", open.epoch(), " has its stream already"));
  }
  stream_ = stream.shared_from_this();
  v1::PushResponse response;
  SetWiring(wiring_, *response.mutable_opened());
  OfferLane(stream, *inbox_, wiring_, *response.mutable_opened());
  asks_for_ring_ =
      ring_use_ == RingUse::kTaken && (stream.on_this_host() || stream.in_this_process());
  response.mutable_opened()->set_takes_ring(asks_for_ring_);
  stream.Send(std::move(response));
  return absl::OkStatus();
}

absl::Status ActivationsReceiver::KeepRingOffer(Stream& stream, v1::RowRingOffer offer) {
  absl::MutexLock lock(&mutex_);
  if (stream_.get() != &stream || !std::exchange(asks_for_ring_, false)) {
    return absl::FailedPreconditionError("a ring that was not asked for");
  }
  ring_offer_ = std::move(offer);
  return absl::OkStatus();
}

std::optional<v1::RowRingOffer> ActivationsReceiver::TakeRingOffer(uint64_t epoch) {
  absl::MutexLock lock(&mutex_);
  if (epoch != wiring_.epoch) return std::nullopt;
  return std::exchange(ring_offer_, std::nullopt);
}

void ActivationsReceiver::TellRingTaken(uint64_t epoch, uint64_t position) {
  std::shared_ptr<Stream> stream;
  {
    absl::MutexLock lock(&mutex_);
    if (epoch != wiring_.epoch || stream_ == nullptr) return;
    stream = stream_;
  }
  v1::PushResponse response;
  response.mutable_ring_taken()->set_position(position);
  stream->Send(std::move(response));
}

absl::Status ActivationsReceiver::Deliver(const Stream& stream, v1::PushRequest request) {
  std::shared_ptr<Inbox> inbox;
  {
    absl::MutexLock lock(&mutex_);
    const v1::PushStep& step = request.step();
    if (inbox_ == nullptr || step.epoch() != wiring_.epoch) {
      return absl::AbortedError(
          absl::StrCat("step ", step.step_id(), " of epoch ", step.epoch(), ", which is over"));
    }
    if (stream_.get() != &stream) {
      return absl::FailedPreconditionError(
          absl::StrCat("step ", step.step_id(), " before an accepted Open of this stream"));
    }
    inbox = inbox_;
  }
  inbox->Add(std::move(request));
  return absl::OkStatus();
}

ActivationsSender::ActivationsSender(std::shared_ptr<grpc::Channel> channel,
                                     const WiringIdentity& wiring,
                                     std::function<void(absl::Status)> on_lost, RowRing* ring)
    : ring_(ring),
      stub_(v1::StageService::NewStub(std::move(channel))),
      shared_(std::make_shared<Shared>(wiring, ring)) {
  shared_->on_lost = std::move(on_lost);
  stream_ = Stream::Start(
      [this](grpc::ClientContext* context, Stream* stream) {
        stub_->async()->Push(context, stream);
      },
      {.on_response =
           [shared = shared_](const v1::PushResponse& response) { shared->OnResponse(response); },
       .on_done =
           [shared = shared_](const absl::Status& status) {
             shared->Decide(status.ok() ? absl::UnavailableError("the next stage ended the stream")
                                        : status);
           }});
  v1::PushRequest request;
  SetWiring(wiring, *request.mutable_open());
  stream_->Send(std::move(request));
}

void ActivationsSender::Shared::OnResponse(const v1::PushResponse& response) {
  if (response.has_ring_taken()) {
    const absl::Status taken =
        offers_ring ? ring.Taken(response.ring_taken().position())
                    : absl::InvalidArgumentError("a ring was taken that was not offered");
    if (!taken.ok()) Decide(taken);
    return;
  }
  if (const absl::Status same = CheckWiring(response.opened(), wiring); !same.ok()) {
    return Decide(same);
  }
  if (response.opened().has_lane()) {
    NoteUnused("next stage", outbox.Open(response.opened().lane(), wiring));
  }
  takes_ring = response.opened().takes_ring();
  Decide(absl::OkStatus());
}

// The lock is held during the call, so that the sender's destructor waits for it.
void ActivationsSender::Shared::Decide(const absl::Status& status) {
  const std::lock_guard lock(mutex);
  if (!opened.has_value() || opened->ok()) opened = status;
  changed.notify_all();
  if (!status.ok() && on_lost != nullptr) std::exchange(on_lost, nullptr)(status);
}

ActivationsSender::~ActivationsSender() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->on_lost = nullptr;
  }
  stream_->Cancel();
}

absl::Status ActivationsSender::WaitUntilOpen(SteadyTime deadline) {
  std::unique_lock lock(shared_->mutex);
  if (!shared_->changed.wait_until(lock, deadline.ToChrono(),
                                   [this] { return shared_->opened.has_value(); })) {
    return absl::DeadlineExceededError("the next stage did not accept the epoch in time");
  }
  return *shared_->opened;
}

void ActivationsSender::OfferRing() {
  if (ring_ == nullptr || !shared_->takes_ring) return;
  absl::StatusOr<v1::RowRingOffer> offer = ring_->Offer(shared_->wiring);
  if (!offer.ok()) return NoteRingUnused(offer.status());
  v1::PushRequest request;
  *request.mutable_ring() = *std::move(offer);
  shared_->offers_ring = true;
  stream_->Send(std::move(request));
}

absl::Status ActivationsSender::Store(StepRows& rows,
                                      std::optional<absl::Span<const int32_t>> indices,
                                      v1::PushStep& step) {
  return shared_->ring.Store(rows, indices, step);
}

void ActivationsSender::Send(v1::PushStep step) {
  v1::PushRequest request;
  *request.mutable_step() = std::move(step);
  request.mutable_step()->set_epoch(shared_->wiring.epoch);
  shared_->outbox.Send(std::move(request),
                       [this](v1::PushRequest&& unsent) { stream_->Send(std::move(unsent)); });
}

}  // namespace sluice
