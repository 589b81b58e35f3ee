#include "services/common/chosen_tokens.h"

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
  {
    absl::MutexLock lock(&shared_->mutex);
    shared_->on_lost = std::move(on_lost);
  }
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
    absl::MutexLock lock(&shared_->mutex);
    shared_->on_lost = nullptr;
  }
  stream_->Cancel();
}

void ChosenTokensFollower::Shared::OnResponse(v1::FollowResponse response) {
  absl::MutexLock lock(&mutex);
  if (response.has_following()) following = true;
  if (!response.has_chosen()) return;
  const v1::Chosen& chosen = response.chosen();
  newest = chosen.step_id();
  tokens[newest].assign(chosen.token_ids().begin(), chosen.token_ids().end());
  while (tokens.begin()->first + kRemembered < newest) tokens.erase(tokens.begin());
}

void ChosenTokensFollower::Shared::OnDone(const absl::Status& status) {
  // Held during the call, so that the follower's destructor waits for it.
  absl::MutexLock lock(&mutex);
  ended = status.ok() ? absl::UnavailableError("the sampler ended the stream") : status;
  if (on_lost != nullptr) on_lost(*ended);
}

absl::Status ChosenTokensFollower::WaitUntilOpen(absl::Time deadline) {
  absl::MutexLock lock(&shared_->mutex);
  if (!shared_->mutex.AwaitWithDeadline(absl::Condition(shared_.get(), &Shared::DecidedOrEnded),
                                        deadline)) {
    return absl::DeadlineExceededError("the sampler did not accept the epoch in time");
  }
  return shared_->ended.value_or(absl::OkStatus());
}

absl::StatusOr<int32_t> ChosenTokensFollower::TokenOf(uint64_t step_id, int32_t row) {
  absl::MutexLock lock(&shared_->mutex);
  shared_->wanted = step_id;
  shared_->mutex.Await(absl::Condition(shared_.get(), &Shared::HasWantedOrEnded));
  if (shared_->ended.has_value()) return *shared_->ended;
  const auto found = shared_->tokens.find(step_id);
  if (found == shared_->tokens.end() || row < 0 ||
      row >= static_cast<int32_t>(found->second.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("the sampler has chosen nothing in row ", row, " of step ", step_id));
  }
  return found->second[row];
}

}  // namespace sluice
