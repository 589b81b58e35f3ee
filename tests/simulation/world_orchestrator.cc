// The orchestrators of a simulated run: their incarnations, a rival, and how each goes on.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/simulation/world.h"

namespace sluice::simulation {
namespace {

// In a quarter of the runs every draft is computed. Not drawn: what a seed once gave, it gives.
DraftPolicy PolicyOf(uint64_t seed) {
  return seed % 4 == 0 ? DraftPolicy::kAlways : DraftPolicy::kMeasured;
}

EngineOptions OptionsOfEngine(Chance& chance, int max_positions, bool with_poison,
                              DraftPolicy policy) {
  EngineOptions options;
  options.speculation.policy = policy;
  options.scheduler.max_positions = max_positions;
  options.draft_max_positions = max_positions - chance.Pick(0, 8);
  options.scheduler.max_tokens_per_step = chance.Pick(4, 24);
  options.scheduler.max_sequences_per_step = chance.Pick(1, 6);
  options.hang_timeout = absl::Milliseconds(500);
  // Without poison nobody is to blame, however often the replica is lost.
  options.max_losses = with_poison ? 2 : 1'000'000;
  return options;
}

}  // namespace

World::Orchestrator::Orchestrator(StageWorld* world, StageWorld* draft_world, HostId host,
                                  HostId tokenizer, const EngineOptions& options,
                                  ReplicaOptions replica_options)
    : host(host),
      network(world, host),
      replica(std::move(replica_options), &network),
      text(DetokenizeFrom(world->network, host, tokenizer)),
      core(options, &replica, &text,
           draft_world == nullptr ? nullptr : ConnectDraftModel(draft_world)) {}

Replica* World::Orchestrator::ConnectDraftModel(StageWorld* world) {
  ReplicaOptions options;
  options.model_fingerprint = "fake";
  options.topology = {.embedding = "embedding", .shards = {{"shard-0-0"}}, .sampler = "sampler"};
  draft_network.emplace(world, host);
  return &draft_replica.emplace(std::move(options), &*draft_network);
}
std::shared_ptr<World::Orchestrator> World::MakeOrchestrator(HostId host) {
  ReplicaOptions replica;
  replica.model_fingerprint = "fake";
  replica.topology = {.embedding = "embedding", .shards = {}, .sampler = "sampler"};
  for (int stage = 0; stage < stages_.options.num_stages; ++stage) {
    replica.topology.shards.emplace_back();
    for (int rank = 0; rank < stages_.options.num_ranks; ++rank) {
      replica.topology.shards.back().push_back(absl::StrCat("shard-", stage, "-", rank));
    }
  }
  return std::make_shared<Orchestrator>(
      &stages_, draft_stages_.has_value() ? &*draft_stages_ : nullptr, host, tokenizer_host_,
      OptionsOfEngine(chance_, max_positions_, poison_.has_value(), PolicyOf(options_.seed)),
      std::move(replica));
}

void World::StartOrchestrator() {
  orchestrator_ = MakeOrchestrator(orchestrator_host_);
  HasNews(orchestrator_);
}

void World::StartRival(absl::Duration duration) {
  if (rival_ != nullptr) return;
  history_.Add(timeline_, "FAULT a rival appears for ", absl::FormatDuration(duration));
  network_.Restart(rival_host_);
  rival_ = MakeOrchestrator(rival_host_);
  for (int i = 0; i < 3; ++i) {
    EngineRequest request = Client::RandomRequest(chance_, max_positions_, options_.beam_percent);
    auto client = std::make_shared<Client>(std::move(request), stages_.options.num_stages,
                                           stages_.options.num_ranks);
    of_the_rival_.push_back(client);
    rival_->core.Submit(rival_->next_request++, client->request(), client->Sink());
  }
  HasNews(rival_);
  timeline_.After(duration, [this] {
    network_.Crash(rival_host_);
    rival_.reset();
    for (const auto& client : of_the_rival_) client->NewConnection();
  });
}

void World::CrashOrchestrator(absl::Duration downtime) {
  if (orchestrator_ == nullptr) return;
  Count(orchestrator_->core.status());
  network_.Crash(orchestrator_host_);
  orchestrator_.reset();
  for (Served& served : served_) {
    served.id.reset();
    served.client->NewConnection();
  }
  timeline_.After(downtime, [this] {
    network_.Restart(orchestrator_host_);
    StartOrchestrator();
    for (size_t index = 0; index < served_.size(); ++index) {
      if (served_[index].client->over()) continue;
      timeline_.After(chance_.Between(absl::ZeroDuration(), absl::Milliseconds(50)),
                      [this, index] { Submit(index); });
    }
  });
}

void World::Count(const EngineStatus& status) {
  const RunnerStatus& target = status.target();
  result_.num_steps += static_cast<int64_t>(target.num_steps);
  result_.num_recoveries += static_cast<int64_t>(target.num_recoveries);
  result_.num_kept += static_cast<int64_t>(target.num_recoveries_with_blocks);
  result_.num_right_drafts += static_cast<int64_t>(target.scheduler.accepted_drafts);
  const RunnerStatus* const draft = status.draft();
  if (draft == nullptr) return;
  result_.num_proposed += static_cast<int64_t>(status.num_proposed_tokens);
  result_.num_draft_losses += static_cast<int64_t>(draft->num_recoveries);
}

void World::HasNews(const std::shared_ptr<Orchestrator>& orchestrator) {
  if (orchestrator == nullptr || orchestrator->advance_planned) return;
  orchestrator->advance_planned = true;
  // Now and then more comes before the loop gets to it.
  const absl::Duration delay = chance_.Percent(70)
                                   ? absl::ZeroDuration()
                                   : chance_.Between(absl::ZeroDuration(), absl::Milliseconds(1));
  timeline_.After(delay, [this, weak = std::weak_ptr<Orchestrator>(orchestrator)] {
    AdvanceOrchestrator(weak);
  });
}

void World::AdvanceOrchestrator(const std::weak_ptr<Orchestrator>& weak) {
  const std::shared_ptr<Orchestrator> orchestrator = weak.lock();
  if (orchestrator == nullptr) return;
  const SteadyTime hung = network_.hung_until(orchestrator->host);
  if (hung > timeline_.now()) {
    return timeline_.At(hung, [this, weak] { AdvanceOrchestrator(weak); });
  }
  orchestrator->advance_planned = false;
  const SteadyTime wake = orchestrator->core.Advance(timeline_.now());
  CheckIntegrity(*orchestrator);
  if (wake == SteadyTime::InfiniteFuture()) return;
  orchestrator->wake = wake;
  timeline_.At(wake, [this, weak, wake] {
    const std::shared_ptr<Orchestrator> orchestrator = weak.lock();
    if (orchestrator != nullptr && orchestrator->wake == wake) HasNews(orchestrator);
  });
}

void World::CheckIntegrity(Orchestrator& orchestrator) {
  const Scheduler* scheduler = orchestrator.core.scheduler();
  if (scheduler == nullptr || ++orchestrator.num_advances % 4 != 0) return;
  absl::Status status = scheduler->CheckIntegrity();
  const DraftModel* const draft_model = orchestrator.core.draft_model();
  if (draft_model != nullptr) status.Update(draft_model->CheckIntegrity());
  if (!status.ok() && fault_.empty()) fault_ = status.ToString();
}

}  // namespace sluice::simulation
