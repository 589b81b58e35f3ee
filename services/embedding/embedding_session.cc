#include "services/embedding/embedding_session.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "services/common/status.h"

namespace sluice {
namespace {

constexpr absl::Duration kOpenTimeout = absl::Seconds(10);

}  // namespace

EmbeddingSession::EmbeddingSession(uint64_t epoch, std::shared_ptr<grpc::Channel> next_stage,
                                   std::shared_ptr<grpc::Channel> sampler,
                                   std::shared_ptr<Stream> stream, EmbeddingTable& table,
                                   Backend& backend, std::function<void()> on_step)
    : epoch_(epoch),
      stream_(std::move(stream)),
      table_(table),
      on_step_(std::move(on_step)),
      rows_(backend, table.hidden_size()),
      chosen_(std::move(sampler), epoch,
              [this](const absl::Status& status) { Stop(Annotate(status, "sampler")); }),
      sender_(std::move(next_stage), epoch, [this](const absl::Status& status) {
        Stop(Annotate(status, "next stage"));
        chosen_.Cancel();  // a plan may wait for a token
      }) {}

void EmbeddingSession::Run() {
  const absl::Status status = Serve();
  if (!status.ok()) Close(status);
}

void EmbeddingSession::Close(const absl::Status& reason) {
  Stop(reason);
  sender_.Cancel();
  chosen_.Cancel();
}

void EmbeddingSession::Stop(const absl::Status& reason) {
  stream_->Close(reason);
  plans_.Close();
}

absl::Status EmbeddingSession::Open() {
  const absl::Time deadline = absl::Now() + kOpenTimeout;
  absl::Status status = Annotate(sender_.WaitUntilOpen(deadline), "next stage");
  if (status.ok()) status = Annotate(chosen_.WaitUntilOpen(deadline), "sampler");
  if (!status.ok()) return status;
  v1::EmbeddingRunResponse response;
  response.mutable_opened()->set_epoch(epoch_);
  stream_->Send(std::move(response));
  return absl::OkStatus();
}

absl::Status EmbeddingSession::Serve() {
  absl::Status status = Open();
  while (status.ok()) {
    std::optional<v1::EmbeddingExecute> plan = plans_.Next();
    if (!plan.has_value()) break;
    status = Annotate(Execute(*plan), absl::StrCat("step ", plan->step_id()));
  }
  return status;
}

absl::Status EmbeddingSession::FillIn(v1::EmbeddingExecute& plan) {
  for (const v1::ChosenToken& named : plan.chosen_tokens()) {
    if (named.index() < 0 || named.index() >= plan.token_ids_size()) {
      return absl::InvalidArgumentError(absl::StrCat("a chosen token has index ", named.index(),
                                                     "; the plan has ", plan.token_ids_size()));
    }
    if (named.step_id() >= plan.step_id()) {
      return absl::InvalidArgumentError(absl::StrCat("a token is to be chosen by step ",
                                                     named.step_id(), ", which is no earlier"));
    }
    const absl::StatusOr<int32_t> token = chosen_.TokenOf(named.step_id(), named.row());
    if (!token.ok()) return token.status();
    plan.set_token_ids(named.index(), *token);
  }
  return absl::OkStatus();
}

absl::Status EmbeddingSession::Execute(v1::EmbeddingExecute& plan) {
  if (plan.token_ids_size() != plan.positions_size()) {
    return absl::InvalidArgumentError(absl::StrCat(plan.token_ids_size(), " token ids with ",
                                                   plan.positions_size(), " positions"));
  }
  absl::Status status = FillIn(plan);
  if (!status.ok()) return status;
  const ProgressWatch::Work work(progress(), "step", plan.token_ids_size());
  status = rows_.Resize(plan.token_ids_size());
  if (!status.ok()) return status;
  status = table_.Embed(plan.token_ids(), plan.positions(), rows_.view());
  if (!status.ok()) return status;
  absl::StatusOr<v1::Tensor> hidden = rows_.Store();
  if (!hidden.ok()) return hidden.status();
  sender_.Send(plan.step_id(), *std::move(hidden));
  on_step_();
  return absl::OkStatus();
}

}  // namespace sluice
