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

v1::StageOpen Wiring::OpenFor(SteadyTime now) const {
  v1::StageOpen open;
  SetWiring(options_.identity, open);
  open.set_orchestrator_nonce(reinterpret_cast<const char*>(options_.orchestrator_nonce.data()),
                              options_.orchestrator_nonce.size());
  // 0 would stand for no limit.
  const absl::Duration left = std::max(options_.open_deadline - now, absl::Milliseconds(1));
  open.set_open_timeout_ms(
      static_cast<uint32_t>(std::min<int64_t>(absl::ToInt64Milliseconds(left), kMostOpenTimeout)));
  return open;
}

absl::Status Wiring::OpenProcess(Place place, const std::string& address, const std::string& who,
                                 v1::StageOpen open,
                                 std::unique_ptr<StageNetwork::Stream>& stream) {
  opening_.insert(who);
  auto begun =
      network_.Run(place.role, address,
                   {.on_response =
                        [this, who, place](const v1::StageRunResponse& response) {
                          OnResponse(who, place, response);
                        },
                    .on_done = [this, who](const absl::Status& status) { Lose(who, status); }});
  if (!begun.ok()) return begun.status();
  stream = *std::move(begun);
  v1::StageRunRequest request;
  *request.mutable_open() = std::move(open);
  stream->Send(std::move(request));
  return absl::OkStatus();
}

void Wiring::OnResponse(const std::string& who, Place place, const v1::StageRunResponse& response) {
  if (response.has_opened()) OnOpened(who, response.opened());
  if (response.has_executed()) OnExecuted(who, place, response.executed());
  if (response.has_times() && place.role == Role::kShard) {
    times_.push_back({.place = place, .times = response.times()});
  }
}

void Wiring::OnOpened(const std::string& who, const v1::StageOpened& opened) {
  const absl::Status same = CheckWiring(opened, options_.identity);
  if (!same.ok()) return Lose(who, same);
  if (opening_.erase(who) == 0) {
    return Lose(who, absl::InternalError("it answered Open twice"));
  }
  ++num_opened_;
}

void Wiring::OnExecuted(const std::string& who, Place place, const v1::StageExecuted& executed) {
  if (!lost_.ok()) return;
  const bool is_answer = place.role == Role::kSampler && executed.has_sampler();
  if (!is_answer || !opened() || executed.epoch() != options_.identity.epoch) {
    return Lose(
        who, absl::AbortedError(absl::StrCat("it answered step ", executed.step_id(), " of epoch ",
                                             executed.epoch(), ", which was not sent")));
  }
  absl::StatusOr<StepExecuted> step = answers_.Take(executed);
  if (!step.ok()) return Lose("the sampler", step.status());
  executed_.push_back(*std::move(step));
}

void Wiring::Lose(const std::string& who, const absl::Status& status) {
  if (!lost_.ok()) return;
  lost_ = status.ok() ? absl::UnavailableError(absl::StrCat(who, " ended its stream"))
                      : Annotate(status, who);
}

absl::Status Wiring::OpenSampler(SteadyTime now) {
  v1::StageOpen open = OpenFor(now);
  open.mutable_sampler();
  return OpenProcess({.role = Role::kSampler}, topology_.sampler,
                     absl::StrCat("sampler at ", topology_.sampler), std::move(open), sampler_);
}

// All ranks at once: joining their communicator, each waits for the others.
absl::Status Wiring::OpenStage(int stage, SteadyTime now) {
  const std::vector<std::string>& addresses = topology_.shards[stage];
  const bool is_last = stage + 1 == topology_.num_stages();
  v1::StageOpen open = OpenFor(now);
  open.set_next_stage(is_last ? topology_.sampler : topology_.shards[stage + 1].front());
  v1::ShardOpen& shard = *open.mutable_shard();
  shard.set_num_kv_blocks(options_.num_kv_blocks);
  shard.set_num_state_slots(options_.num_state_slots);
  shard.set_communicator(options_.rank_transport == RankTransport::kSharedMemory
                             ? v1::COMMUNICATOR_KIND_SHM
                             : v1::COMMUNICATOR_KIND_TCP);
  shard.set_communicator_name(
      absl::StrCat("sluice-", options_.identity.epoch, "-", stage, "-", communicator_suffix_));
  shard.set_rendezvous_address(addresses.front());
  absl::Status status;
  for (int rank = 0; status.ok() && rank < topology_.num_ranks(); ++rank) {
    status = OpenProcess({.role = Role::kShard, .stage = stage, .rank = rank}, addresses[rank],
                         absl::StrCat("shard ", stage, "/", rank, " at ", addresses[rank]), open,
                         (rank == 0 ? rank_zero_ : other_ranks_).emplace_back());
  }
  return status;
}

absl::Status Wiring::OpenEmbedding(SteadyTime now) {
  v1::StageOpen open = OpenFor(now);
  open.set_next_stage(topology_.shards.front().front());
  open.mutable_embedding()->set_sampler(topology_.sampler);
  return OpenProcess({.role = Role::kEmbedding}, topology_.embedding,
                     absl::StrCat("embedding at ", topology_.embedding), std::move(open),
                     embedding_);
}

void Wiring::Execute(const Step& step, absl::Span<const RowRequest> rows) {
  // The embedding has the least to prepare and the longest way to go: first.
  SetEmbeddingMessage(options_.identity.epoch, step, embedding_message_);
  embedding_->Send(std::move(embedding_message_));
  SetShardMessage(options_.identity.epoch, step, shard_message_);
  for (size_t i = 1; i < rank_zero_.size(); ++i) {
    rank_zero_[i]->Send(v1::StageRunRequest(shard_message_));
  }
  rank_zero_.front()->Send(std::move(shard_message_));
  sampler_plans_.SetMessage(options_.identity.epoch, step, rows, sampler_message_);
  sampler_->Send(std::move(sampler_message_));
  answers_.Add(step.id, rows);
}

std::vector<StepExecuted> Wiring::TakeExecuted() { return std::exchange(executed_, {}); }

}  // namespace sluice
