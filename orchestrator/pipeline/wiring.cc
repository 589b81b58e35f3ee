#include "orchestrator/pipeline/wiring.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "orchestrator/pipeline/step_messages.h"
#include "services/common/status.h"
#include "services/messages/wiring_message.h"

namespace sluice {
namespace {

constexpr int64_t kMostOpenTimeout = std::numeric_limits<uint32_t>::max();  // of the messages

std::string RandomHexDigits() {
  const WiringNonce bits = DrawWiringNonce();
  return absl::BytesToHexString({reinterpret_cast<const char*>(bits.data()), bits.size()});
}

}  // namespace

Wiring::Wiring(const Topology* topology, StageNetwork* network, const WiringOptions& options)
    : topology_(*topology),
      network_(*network),
      options_(options),
      communicator_suffix_(RandomHexDigits()),
      answers_(options.vocabulary_size),
      next_to_open_(topology->num_stages()) {}

Wiring::~Wiring() = default;

void Wiring::Advance(SteadyTime now) {
  while (lost_.ok() && opening_.empty() && next_to_open_ >= -1) {
    const int stage = next_to_open_--;
    const absl::Status status = stage == topology_.num_stages() ? OpenSampler(now)
                                : stage >= 0                    ? OpenStage(stage, now)
                                                                : OpenEmbedding(now);
    if (!status.ok()) lost_ = status;
  }
}

std::string Wiring::Unanswered() const { return absl::StrJoin(opening_, ", "); }

template <class Open>
void Wiring::SetOpen(SteadyTime now, Open& open) const {
  SetWiring(options_.identity, open);
  // 0 would stand for no limit.
  const absl::Duration left = std::max(options_.open_deadline - now, absl::Milliseconds(1));
  open.set_open_timeout_ms(
      static_cast<uint32_t>(std::min<int64_t>(absl::ToInt64Milliseconds(left), kMostOpenTimeout)));
}

template <class Stream>
typename Stream::Handler Wiring::HandlerFor(const std::string& who) {
  opening_.insert(who);
  return {.on_response = [this, who](const auto& response) { OnResponse(who, response); },
          .on_done = [this, who](const absl::Status& status) { Lose(who, status); }};
}

template <class Opened>
void Wiring::OnOpened(const std::string& who, const Opened& opened) {
  const absl::Status same = CheckWiring(opened, options_.identity);
  if (!same.ok()) return Lose(who, same);
  if (opening_.erase(who) == 0) {
    return Lose(who, absl::InternalError("it answered Open twice"));
  }
  ++num_opened_;
}

void Wiring::OnResponse(const std::string& who, const v1::EmbeddingRunResponse& response) {
  if (response.has_opened()) OnOpened(who, response.opened());
}

void Wiring::OnShardResponse(const std::string& who, int stage, int rank,
                             const v1::ShardRunResponse& response) {
  if (response.has_opened()) OnOpened(who, response.opened());
  if (response.has_times()) {
    times_.push_back({.stage = stage, .rank = rank, .times = response.times()});
  }
}

void Wiring::OnResponse(const std::string& who, const v1::SamplerRunResponse& response) {
  if (response.has_opened()) OnOpened(who, response.opened());
  if (!response.has_executed() || !lost_.ok()) return;
  if (!opened() || response.executed().epoch() != options_.identity.epoch) {
    return Lose(who, absl::AbortedError(absl::StrCat(
                         "it answered step ", response.executed().step_id(), " of epoch ",
                         response.executed().epoch(), ", which was not sent")));
  }
  absl::StatusOr<StepExecuted> executed = answers_.Take(response.executed());
  if (!executed.ok()) return Lose("the sampler", executed.status());
  executed_.push_back(*std::move(executed));
}

void Wiring::Lose(const std::string& who, const absl::Status& status) {
  if (!lost_.ok()) return;
  lost_ = status.ok() ? absl::UnavailableError(absl::StrCat(who, " ended its stream"))
                      : Annotate(status, who);
}

absl::Status Wiring::OpenSampler(SteadyTime now) {
  const std::string& address = topology_.sampler;
  auto stream = network_.RunSampler(
      address, HandlerFor<StageNetwork::SamplerStream>(absl::StrCat("sampler at ", address)));
  if (!stream.ok()) return stream.status();
  sampler_ = *std::move(stream);
  v1::SamplerRunRequest request;
  SetOpen(now, *request.mutable_open());
  sampler_->Send(std::move(request));
  return absl::OkStatus();
}

v1::ShardRunRequest Wiring::ShardOpenFor(int stage, SteadyTime now) const {
  const bool is_last = stage + 1 == topology_.num_stages();
  v1::ShardRunRequest request;
  v1::ShardOpen& open = *request.mutable_open();
  SetOpen(now, open);
  open.set_next_stage(is_last ? topology_.sampler : topology_.shards[stage + 1].front());
  open.set_num_kv_blocks(options_.num_kv_blocks);
  open.set_num_state_slots(options_.num_state_slots);
  open.set_communicator(options_.rank_transport == RankTransport::kSharedMemory
                            ? v1::COMMUNICATOR_KIND_SHM
                            : v1::COMMUNICATOR_KIND_TCP);
  open.set_communicator_name(
      absl::StrCat("sluice-", options_.identity.epoch, "-", stage, "-", communicator_suffix_));
  open.set_rendezvous_address(topology_.shards[stage].front());
  return request;
}

// All ranks at once: joining their communicator, each waits for the others.
absl::Status Wiring::OpenStage(int stage, SteadyTime now) {
  const v1::ShardRunRequest request = ShardOpenFor(stage, now);
  absl::Status status;
  for (int rank = 0; status.ok() && rank < topology_.num_ranks(); ++rank) {
    status = OpenRank(stage, rank, request);
  }
  return status;
}

absl::Status Wiring::OpenRank(int stage, int rank, const v1::ShardRunRequest& request) {
  const std::string& address = topology_.shards[stage][rank];
  const std::string who = absl::StrCat("shard ", stage, "/", rank, " at ", address);
  opening_.insert(who);
  auto stream = network_.RunShard(
      address, {.on_response =
                    [this, who, stage, rank](const v1::ShardRunResponse& response) {
                      OnShardResponse(who, stage, rank, response);
                    },
                .on_done = [this, who](const absl::Status& status) { Lose(who, status); }});
  if (!stream.ok()) return stream.status();
  (*stream)->Send(v1::ShardRunRequest(request));
  (rank == 0 ? rank_zero_ : other_ranks_).push_back(*std::move(stream));
  return absl::OkStatus();
}

absl::Status Wiring::OpenEmbedding(SteadyTime now) {
  const std::string& address = topology_.embedding;
  auto stream = network_.RunEmbedding(
      address, HandlerFor<StageNetwork::EmbeddingStream>(absl::StrCat("embedding at ", address)));
  if (!stream.ok()) return stream.status();
  embedding_ = *std::move(stream);
  v1::EmbeddingRunRequest request;
  SetOpen(now, *request.mutable_open());
  request.mutable_open()->set_next_stage(topology_.shards.front().front());
  request.mutable_open()->set_sampler(topology_.sampler);
  embedding_->Send(std::move(request));
  return absl::OkStatus();
}

void Wiring::Execute(const Step& step, absl::Span<const RowRequest> rows) {
  // The embedding has the least to prepare and the longest way to go: first.
  SetMessage(options_.identity.epoch, step, embedding_message_);
  embedding_->Send(std::move(embedding_message_));
  SetMessage(options_.identity.epoch, step, shard_message_);
  for (size_t i = 1; i < rank_zero_.size(); ++i) {
    rank_zero_[i]->Send(v1::ShardRunRequest(shard_message_));
  }
  rank_zero_.front()->Send(std::move(shard_message_));
  sampler_plans_.SetMessage(options_.identity.epoch, step, rows, sampler_message_);
  sampler_->Send(std::move(sampler_message_));
  answers_.Add(step.id, rows);
}

std::vector<StepExecuted> Wiring::TakeExecuted() { return std::exchange(executed_, {}); }

}  // namespace sluice
