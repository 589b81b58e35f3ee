#include "services/stage/chosen_tokens.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/messages/wiring_message.h"
#include "services/stage/lane_offer.h"

namespace sluice {

// ---- The sampler's end ----

void ChosenTokensPublisher::End(const std::shared_ptr<Follower>& follower,
                                const absl::Status& reason) {
  if (follower != nullptr) follower->stream->Close(reason);
}

void ChosenTokensPublisher::Open(const WiringIdentity& wiring) {
  std::shared_ptr<Follower> old;
  {
    absl::MutexLock lock(&mutex_);
    wiring_ = wiring;
    open_ = true;
    old = std::move(follower_);
  }
  End(old, absl::AbortedError(absl::StrCat("replaced by epoch ", wiring.epoch)));
}

void ChosenTokensPublisher::Close(uint64_t epoch, const absl::Status& reason) {
  std::shared_ptr<Follower> old;
  {
    absl::MutexLock lock(&mutex_);
    if (epoch != wiring_.epoch) return;
    open_ = false;
    old = std::move(follower_);
  }
  End(old, reason);
}

void ChosenTokensPublisher::Publish(uint64_t epoch, v1::Chosen chosen) {
  std::shared_ptr<Follower> follower;
  {
    absl::MutexLock lock(&mutex_);
    if (epoch != wiring_.epoch || follower_ == nullptr) return;
    follower = follower_;
  }
  v1::FollowResponse response;
  *response.mutable_chosen() = std::move(chosen);
  follower->outbox.Send(std::move(response), [&](v1::FollowResponse&& unsent) {
    follower->stream->Send(std::move(unsent));
  });
}

grpc::ServerBidiReactor<v1::FollowRequest, v1::FollowResponse>* ChosenTokensPublisher::Follow(
    grpc::CallbackServerContext* context) {
  return Stream::Start({.on_request =
                            [this](Stream& stream, const v1::FollowRequest& request) {
                              if (absl::Status status = Accept(request, stream); !status.ok())
                                stream.Close(status);
                            },
                        .on_requests_end = [](Stream& stream) { stream.Close(absl::OkStatus()); },
                        .on_this_host = IsOnThisHost(*context)});
}

absl::Status ChosenTokensPublisher::Accept(const v1::FollowRequest& request, Stream& stream) {
  absl::MutexLock lock(&mutex_);
  if (!open_) {
    return absl::AbortedError(absl::StrCat("not wired into epoch ", request.epoch(),
                                           "; the latest epoch was ", wiring_.epoch));
  }
  if (absl::Status same = CheckWiring(request, wiring_); !same.ok()) return same;
  if (follower_ != nullptr) {
    return absl::AbortedError(absl::StrCat("epoch ", request.epoch(), " has its follower already"));
  }
  follower_ = std::make_shared<Follower>();
  follower_->stream = stream.shared_from_this();
  if (request.has_lane() && stream.on_this_host()) {
    NoteUnused("embedding", follower_->outbox.Open(request.lane(), wiring_));
  }
  v1::FollowResponse response;
  SetWiring(wiring_, *response.mutable_following());
  stream.Send(std::move(response));
  return absl::OkStatus();
}

// ---- The embedding's end ----

ChosenTokensFollower::ChosenTokensFollower(std::shared_ptr<grpc::Channel> sampler,
                                           const WiringIdentity& wiring,
                                           std::function<void(absl::Status)> on_lost, LaneUse lane)
    : stub_(v1::ChosenTokensService::NewStub(std::move(sampler))),
      shared_(std::make_shared<Shared>(wiring)) {
  shared_->on_lost = std::move(on_lost);
  stream_ = Stream::Start(
      [this](grpc::ClientContext* context, Stream* stream) {
        stub_->async()->Follow(context, stream);
      },
      {.on_response = [shared = shared_](
                          v1::FollowResponse response) { shared->OnResponse(std::move(response)); },
       .on_done = [shared = shared_](const absl::Status& status) { shared->OnDone(status); }});
  v1::FollowRequest request;
  SetWiring(wiring, request);
  const std::optional<v1::LaneOffer> offer = shared_->inbox.Offer(wiring);
  if (lane == LaneUse::kOffered && offer.has_value()) *request.mutable_lane() = *offer;
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
  if (response.has_chosen()) {
    if (following) return inbox.Add(std::move(response));
    return OnDone(absl::FailedPreconditionError("tokens were chosen before Following"));
  }
  const absl::Status same = CheckWiring(response.following(), wiring);
  if (!same.ok()) return OnDone(same);
  const std::lock_guard lock(mutex);
  following = true;
  changed.notify_all();
}

// The stream is over, or not believed; the first reason counts.
void ChosenTokensFollower::Shared::OnDone(const absl::Status& status) {
  // Held during the call, so that the follower's destructor waits for it.
  const std::lock_guard lock(mutex);
  if (ended.has_value()) return;
  ended = status.ok() ? absl::UnavailableError("the sampler ended the stream") : status;
  inbox.Close(*ended);
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

absl::Status ChosenTokensFollower::Remember(v1::FollowResponse response) {
  const uint64_t step_id = response.chosen().step_id();
  if (step_id <= newest_) {
    return absl::InvalidArgumentError(
        absl::StrCat("the sampler has chosen in step ", step_id, " after step ", newest_));
  }
  newest_ = step_id;
  chosen_[newest_] = std::move(*response.mutable_chosen());
  while (newest_ - chosen_.begin()->first > kRemembered) chosen_.erase(chosen_.begin());
  return absl::OkStatus();
}

absl::Status ChosenTokensFollower::TokensOf(uint64_t step_id, int32_t first_row,
                                            absl::Span<int32_t> tokens) {
  while (newest_ < step_id) {
    absl::StatusOr<v1::FollowResponse> response = shared_->inbox.Next();
    if (!response.ok()) return response.status();
    const absl::Status remembered = Remember(*std::move(response));
    if (!remembered.ok()) return remembered;
  }
  const auto found = chosen_.find(step_id);
  const auto num_rows = static_cast<int64_t>(tokens.size());
  if (found == chosen_.end() || first_row < 0 ||
      first_row + num_rows > found->second.token_ids_size()) {
    return absl::InvalidArgumentError(absl::StrCat("the sampler has chosen nothing in row ",
                                                   first_row + num_rows - 1, " of step ", step_id));
  }
  std::copy_n(found->second.token_ids().begin() + first_row, num_rows, tokens.begin());
  return absl::OkStatus();
}

// Takes what has come, so that nothing gathers where plans name no tokens for long.
std::vector<uint64_t> ChosenTokensFollower::ComputedFor(uint64_t step_id) {
  while (true) {
    absl::StatusOr<std::optional<v1::FollowResponse>> response = shared_->inbox.TakeIfThere();
    if (!response.ok() || !response->has_value()) break;
    if (!Remember(**std::move(response)).ok()) break;
  }
  const auto found = chosen_.find(step_id == 0 ? newest_ : step_id);
  if (found == chosen_.end()) return {};
  return {found->second.computed_ns().begin(), found->second.computed_ns().end()};
}

}  // namespace sluice
