#include "services/common/chosen_tokens.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {

// ---- The sampler's end ----

void ChosenTokensPublisher::Open(uint64_t epoch) {
  std::shared_ptr<Stream> old;
  {
    absl::MutexLock lock(&mutex_);
    epoch_ = epoch;
    open_ = true;
    old = std::move(stream_);
  }
  if (old != nullptr) old->Close(absl::AbortedError(absl::StrCat("replaced by epoch ", epoch)));
}

void ChosenTokensPublisher::Close(uint64_t epoch, const absl::Status& reason) {
  std::shared_ptr<Stream> old;
  {
    absl::MutexLock lock(&mutex_);
    if (epoch != epoch_) return;
    open_ = false;
    old = std::move(stream_);
  }
  if (old != nullptr) old->Close(reason);
}

void ChosenTokensPublisher::Publish(uint64_t epoch, v1::Chosen chosen) {
  std::shared_ptr<Stream> stream;
  {
    absl::MutexLock lock(&mutex_);
    if (epoch != epoch_ || stream_ == nullptr) return;
    stream = stream_;
  }
  v1::FollowResponse response;
  *response.mutable_chosen() = std::move(chosen);
  stream->Send(std::move(response));
}

grpc::ServerBidiReactor<v1::FollowRequest, v1::FollowResponse>* ChosenTokensPublisher::Follow(
    grpc::CallbackServerContext*) {
  return Stream::Start({.on_request =
                            [this](Stream& stream, const v1::FollowRequest& request) {
                              if (absl::Status status = Accept(request.epoch(), stream);
                                  !status.ok()) {
                                stream.Close(status);
                              }
                            },
                        .on_requests_end = [](Stream& stream) { stream.Close(absl::OkStatus()); }});
}

absl::Status ChosenTokensPublisher::Accept(uint64_t epoch, Stream& stream) {
  absl::MutexLock lock(&mutex_);
  if (!open_ || epoch != epoch_) {
    return absl::AbortedError(
        absl::StrCat("not wired into epoch ", epoch, "; the current epoch is ", epoch_));
  }
  stream_ = stream.shared_from_this();
  v1::FollowResponse response;
  response.mutable_following()->set_epoch(epoch);
  stream.Send(std::move(response));
  return absl::OkStatus();
}

// ---- The embedding's end ----

ChosenTokensFollower::ChosenTokensFollower(std::shared_ptr<grpc::Channel> sampler, uint64_t epoch,
                                           std::function<void(absl::Status)> on_lost)
    : stub_(v1::ChosenTokensService::NewStub(std::move(sampler))),
      shared_(std::make_shared<Shared>()) {
  shared_->on_lost = std::move(on_lost);
  stream_ = Stream::Start(
      [this](grpc::ClientContext* context, Stream* stream) {
        stub_->async()->Follow(context, stream);
      },
      {.on_response = [shared = shared_](
                          v1::FollowResponse response) { shared->OnResponse(std::move(response)); },
       .on_done = [shared = shared_](const absl::Status& status) { shared->OnDone(status); }});
  v1::FollowRequest request;
  request.set_epoch(epoch);
  stream_->Send(std::move(request));
}

ChosenTokensFollower::~ChosenTokensFollower() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->on_lost = nullptr;
  }
  stream_->Cancel();
}

void ChosenTokensFollower::Shared::OnResponse(v1::FollowResponse response) {
  const std::lock_guard lock(mutex);
  following = following || response.has_following();
  if (response.has_chosen()) {
    newest = response.chosen().step_id();
    chosen[newest] = std::move(*response.mutable_chosen());
    while (chosen.begin()->first + kRemembered < newest) chosen.erase(chosen.begin());
  }
  changed.notify_all();
}

void ChosenTokensFollower::Shared::OnDone(const absl::Status& status) {
  // Held during the call, so that the follower's destructor waits for it.
  const std::lock_guard lock(mutex);
  ended = status.ok() ? absl::UnavailableError("the sampler ended the stream") : status;
  changed.notify_all();
  if (on_lost != nullptr) on_lost(*ended);
}

absl::Status ChosenTokensFollower::WaitUntilOpen(SteadyTime deadline) {
  std::unique_lock lock(shared_->mutex);
  if (!shared_->changed.wait_until(lock, deadline.ToChrono(), [this] {
        return shared_->following || shared_->ended.has_value();
      })) {
    return absl::DeadlineExceededError("the sampler did not accept the epoch in time");
  }
  return shared_->ended.value_or(absl::OkStatus());
}

absl::Status ChosenTokensFollower::TokensOf(uint64_t step_id, int32_t first_row,
                                            absl::Span<int32_t> tokens) {
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait(lock,
                        [&] { return shared_->newest >= step_id || shared_->ended.has_value(); });
  if (shared_->ended.has_value()) return *shared_->ended;
  const auto found = shared_->chosen.find(step_id);
  const auto num_rows = static_cast<int64_t>(tokens.size());
  if (found == shared_->chosen.end() || first_row < 0 ||
      first_row + num_rows > found->second.token_ids_size()) {
    return absl::InvalidArgumentError(absl::StrCat("the sampler has chosen nothing in row ",
                                                   first_row + num_rows - 1, " of step ", step_id));
  }
  std::copy_n(found->second.token_ids().begin() + first_row, num_rows, tokens.begin());
  return absl::OkStatus();
}

std::vector<uint64_t> ChosenTokensFollower::ComputedFor(uint64_t step_id) {
  const std::lock_guard lock(shared_->mutex);
  const auto found = shared_->chosen.find(step_id == 0 ? shared_->newest : step_id);
  if (found == shared_->chosen.end()) return {};
  return {found->second.computed_ns().begin(), found->second.computed_ns().end()};
}

}  // namespace sluice
