#include "tests/simulation/world.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tests/simulation/fake_model.h"

namespace sluice::simulation {
namespace {

constexpr TokenId kPoison = kVocabulary + 1;
constexpr absl::Duration kFaultPeriod = absl::Seconds(3);
constexpr absl::Duration kLongestFault = absl::Seconds(4);
// Everything must have healed, and every request ended, so long after the last fault is over.
constexpr absl::Duration kHealingBound = absl::Seconds(40);

EngineOptions OptionsOfEngine(Chance& chance, int max_positions, bool with_poison) {
  EngineOptions options;
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

World::World(const SimulationOptions& options)
    : options_(options),
      chance_(options.seed),
      history_(options.history),
      network_(&timeline_, &chance_, &history_) {
  stages_.timeline = &timeline_;
  stages_.chance = &chance_;
  stages_.network = &network_;
  stages_.history = &history_;
  stages_.options = {.num_stages = chance_.Pick(1, 3),
                     .num_ranks = chance_.Pick(1, 2),
                     .block_size = chance_.Pick(2, 5),
                     .num_blocks = chance_.Pick(10, 32)};
  stages_.find = [this](const std::string& address) {
    const auto found = processes_.find(address);
    return found == processes_.end() ? nullptr : found->second.get();
  };
  stages_.host = [this](const std::string& address) { return hosts_.at(address); };
  max_positions_ = std::min(48, stages_.options.num_blocks * stages_.options.block_size);
  orchestrator_host_ = network_.AddHost("orchestrator", [this] { HasNews(orchestrator_); });
  rival_host_ = network_.AddHost("rival", [this] { HasNews(rival_); });
  tokenizer_host_ = network_.AddHost("tokenizer");
  AddProcesses();
  if (chance_.Percent(50)) AddDraftModel();
}

// ---- Processes ----

// The same fake model. Where the served one has several stages or ranks, its tokens are others: then
// the drafts are wrong.
void World::AddDraftModel() {
  draft_stages_ = stages_;
  draft_stages_->options = {.num_stages = 1,
                            .num_ranks = 1,
                            .block_size = chance_.Pick(2, 5),
                            .num_blocks = chance_.Pick(4, 32)};
  draft_stages_->find = [find = stages_.find](const std::string& address) {
    return find("draft-" + address);
  };
  draft_stages_->host = [host = stages_.host](const std::string& address) {
    return host("draft-" + address);
  };
  for (const char* address : {"draft-embedding", "draft-sampler", "draft-shard-0-0"}) {
    addresses_.emplace_back(address);
    AddProcess(address);
  }
}

void World::AddProcesses() {
  addresses_ = {"embedding", "sampler"};
  for (int stage = 0; stage < stages_.options.num_stages; ++stage) {
    for (int rank = 0; rank < stages_.options.num_ranks; ++rank) {
      addresses_.push_back(absl::StrCat("shard-", stage, "-", rank));
    }
  }
  for (const std::string& address : addresses_) AddProcess(address);
}

void World::AddProcess(const std::string& address) {
  hosts_[address] = network_.AddHost(address);
  StartProcess(address);
}

void World::StartProcess(const std::string& address) {
  using Kind = StageProcess::Kind;
  const bool drafts = absl::StartsWith(address, "draft-");
  const std::string name(absl::StripPrefix(address, "draft-"));
  const Kind kind = name == "embedding" ? Kind::kEmbedding
                    : name == "sampler" ? Kind::kSampler
                                        : Kind::kShard;
  const int stage = kind == Kind::kShard ? name[6] - '0' : 0;
  const int rank = kind == Kind::kShard ? name[8] - '0' : 0;
  processes_[address] =
      std::make_shared<StageProcess>(drafts ? &*draft_stages_ : &stages_, kind, name, stage, rank);
}

void World::CrashProcess(const std::string& address, absl::Duration downtime) {
  const HostId host = hosts_.at(address);
  if (!network_.up(host)) return;
  network_.Crash(host);
  processes_.erase(address);
  if (options_.planted == Planted::kDeadProcess) return;
  timeline_.After(downtime, [this, address, host] {
    network_.Restart(host);
    StartProcess(address);
  });
}

// ---- The orchestrator ----

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
      OptionsOfEngine(chance_, max_positions_, poison_.has_value()), std::move(replica));
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
    EngineRequest request = Client::RandomRequest(chance_, max_positions_);
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
  result_.num_steps += static_cast<int64_t>(status.num_steps);
  result_.num_recoveries += static_cast<int64_t>(status.num_recoveries);
  result_.num_kept += static_cast<int64_t>(status.num_recoveries_with_blocks);
  result_.num_right_drafts += static_cast<int64_t>(status.scheduler.accepted_drafts);
  if (!status.draft_model.has_value()) return;
  result_.num_proposed += static_cast<int64_t>(status.draft_model->num_proposed_tokens);
  result_.num_draft_losses += static_cast<int64_t>(status.draft_model->num_recoveries);
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

// ---- Clients ----

void World::PlanRequests() {
  const int count = chance_.Pick(1, 10);
  if (chance_.Percent(10)) AddPoison(chance_.Pick(0, count - 1));
  for (int i = 0; i < count; ++i) {
    const SteadyTime start = timeline_.now() + chance_.Between(absl::ZeroDuration(), kFaultPeriod);
    EngineRequest request = Client::RandomRequest(chance_, max_positions_);
    request.name = absl::StrCat("request ", i);
    if (poison_ == i) request.prompt[chance_.Number() % request.prompt.size()] = kPoison;
    if (chance_.Percent(10)) {
      request.deadline = start + chance_.Between(absl::ZeroDuration(), absl::Seconds(2));
    }
    served_.push_back({std::make_shared<Client>(std::move(request), stages_.options.num_stages,
                                                stages_.options.num_ranks),
                       std::nullopt});
    const size_t index = served_.size() - 1;
    served_.back().client->OnLost([this, index] {
      served_[index].id.reset();
      timeline_.After(absl::Milliseconds(50), [this, index] { Submit(index); });
    });
    timeline_.At(start, [this, index] { Submit(index); });
    if (!chance_.Percent(10)) continue;
    timeline_.At(start + chance_.Between(absl::ZeroDuration(), absl::Seconds(1)),
                 [this, index] { Leave(index); });
  }
}

// A request that makes a shard crash whenever its token is computed.
void World::AddPoison(int index) {
  poison_ = index;
  stages_.on_step = [this](const v1::EmbeddingExecute& step) {
    const auto& tokens = step.token_ids();
    if (std::find(tokens.begin(), tokens.end(), kPoison) == tokens.end()) return;
    timeline_.After(absl::ZeroDuration(), [this] {
      CrashProcess("shard-0-0", chance_.Between(absl::ZeroDuration(), absl::Milliseconds(400)));
    });
  };
}

void World::Submit(size_t index) {
  Served& served = served_[index];
  if (served.client->over() || served.id.has_value()) return;
  const SteadyTime hung = network_.hung_until(orchestrator_host_);
  if (hung > timeline_.now()) return timeline_.At(hung, [this, index] { Submit(index); });
  if (orchestrator_ == nullptr) {
    return timeline_.After(absl::Milliseconds(50), [this, index] { Submit(index); });
  }
  history_.Add(timeline_, "      ", served.client->request().name, " is submitted");
  served.id = orchestrator_->next_request++;
  const std::shared_ptr<RequestSink> sink = served.client->Sink();
  orchestrator_->core.Submit(*served.id, served.client->Resumed(), sink);
  if (options_.planted == Planted::kTwoEnds) sink->OnFailed(absl::UnavailableError("planted"));
  HasNews(orchestrator_);
}

void World::Leave(size_t index) {
  Served& served = served_[index];
  if (served.client->over()) return;
  history_.Add(timeline_, "      ", served.client->request().name, " leaves");
  served.client->Leave();
  if (orchestrator_ == nullptr || !served.id.has_value()) return;
  orchestrator_->core.Cancel(*served.id);
  HasNews(orchestrator_);
}

// ---- Faults ----

void World::PlanFaults() {
  // A fifth of the runs is quiet.
  const int count = poison_.has_value() || chance_.Percent(20) ? 0 : chance_.Pick(1, 8);
  result_.num_faults = count;
  faults_end_ = timeline_.now() + kFaultPeriod + kLongestFault;
  for (int i = 0; i < count; ++i) {
    timeline_.After(chance_.Between(absl::ZeroDuration(), kFaultPeriod), [this] { OneFault(); });
  }
  timeline_.At(faults_end_, [this] {
    for (const auto& [address, host] : hosts_) network_.SlowDown(host, absl::ZeroDuration());
  });
}

void World::OneFault() {
  const std::string& address = addresses_[chance_.Pick(0, static_cast<int>(addresses_.size()) - 1)];
  const std::string& other = addresses_[chance_.Pick(0, static_cast<int>(addresses_.size()) - 1)];
  const HostId host = hosts_.at(address);
  const HostId far = address == other ? orchestrator_host_ : hosts_.at(other);
  const absl::Duration duration = chance_.Percent(50)
                                      ? chance_.Between(absl::ZeroDuration(), kLongestFault)
                                      : chance_.Between(absl::ZeroDuration(), kLongestFault / 20);
  switch (chance_.Pick(0, 10)) {
    case 0:
    case 1:
    case 2:
      return CrashProcess(address, duration);
    case 3:
      return CrashOrchestrator(duration);
    case 4:
      return network_.Hang(chance_.Percent(80) ? host : orchestrator_host_, duration);
    case 5:
      return network_.Partition(host, far, duration);
    case 6:
      return network_.Cut(host, chance_.Percent(50) ? far : orchestrator_host_);
    case 7:
      history_.Add(timeline_, "FAULT ", address, " is slow");
      return network_.SlowDown(host, chance_.Between(absl::ZeroDuration(), absl::Milliseconds(30)));
    case 8:
      return network_.Cut(orchestrator_host_, tokenizer_host_);
    case 9:
      return StartRival(duration / 4);
    default:
      return network_.Hang(tokenizer_host_, duration);
  }
}

void World::Plant() {
  if (options_.planted != Planted::kSpoiledSlot) return;
  for (int i = 0; i < 3000; ++i) {
    timeline_.After(absl::Milliseconds(i), [this] {
      const auto process = processes_.find("shard-0-0");
      if (process != processes_.end()) process->second->SpoilSlot();
    });
  }
}

// ---- The run ----

bool World::AllOver() const {
  return std::all_of(served_.begin(), served_.end(),
                     [](const Served& served) { return served.client->over(); });
}

SimulationResult World::Run() {
  PlanRequests();
  StartOrchestrator();
  PlanFaults();
  Plant();
  const SteadyTime limit = faults_end_ + kHealingBound;
  SteadyTime last_end = faults_end_;
  while (fault_.empty() && timeline_.RunNext(limit)) {
    const bool all_over = AllOver();
    if (!all_over) last_end = timeline_.now();
    if (all_over && timeline_.now() >= faults_end_) break;
  }
  result_.healed_after = std::max(absl::ZeroDuration(), last_end - faults_end_);
  result_.num_requests = static_cast<int64_t>(served_.size());
  if (orchestrator_ != nullptr) Count(orchestrator_->core.status());
  result_.fault = fault_.empty() ? FinalFault() : fault_;
  result_.history = history_.lines();
  return result_;
}

std::string World::FinalFault() const {
  for (const Served& served : served_) {
    const Client& client = *served.client;
    const std::string name = client.request().name;
    if (const std::string fault = client.Fault(); !fault.empty()) {
      return absl::StrCat(name, " ", fault);
    }
    if (!client.over()) return absl::StrCat(name, " has not ended");
    // UNAVAILABLE where the stages were not ready at the deadline, RESOURCE_EXHAUSTED where its turn
    // would have come after it.
    const bool expired = client.request().deadline.has_value() &&
                         (client.failure().code() == absl::StatusCode::kDeadlineExceeded ||
                          client.failure().code() == absl::StatusCode::kResourceExhausted ||
                          client.failure().code() == absl::StatusCode::kUnavailable);
    const bool is_poison = poison_ == static_cast<int>(&served - served_.data());
    if (is_poison && !client.left() && !expired &&
        client.failure().code() != absl::StatusCode::kInternal) {
      return absl::StrCat(name, " is poison and ended otherwise: ", client.failure().ToString());
    }
    if (!client.failure().ok() && !expired && !is_poison) {
      return absl::StrCat(name, " failed: ", client.failure().ToString());
    }
  }
  for (const std::shared_ptr<Client>& client : of_the_rival_) {
    const std::string fault = client->Fault();
    if (!fault.empty()) return absl::StrCat("a request of the rival ", fault);
  }
  const SchedulerStatistics left = orchestrator_->core.status().scheduler;
  if (left.running_sequences + left.waiting_sequences + left.kv_cache.used_blocks > 0) {
    return absl::StrCat(left.running_sequences, " sequences run, ", left.waiting_sequences,
                        " wait and ", left.kv_cache.used_blocks,
                        " blocks are used when every request has ended");
  }
  const Scheduler* scheduler = orchestrator_->core.scheduler();
  absl::Status status = scheduler == nullptr ? absl::OkStatus() : scheduler->CheckIntegrity();
  if (const DraftModel* const model = orchestrator_->core.draft_model(); model != nullptr) {
    status.Update(model->CheckIntegrity());
    const int32_t used = model->status().scheduler.kv_cache.used_blocks;
    if (used > 0) return absl::StrCat(used, " blocks of the draft model are used at the end");
  }
  return status.ok() ? "" : status.ToString();
}

SimulationResult Simulate(const SimulationOptions& options) { return World(options).Run(); }

}  // namespace sluice::simulation
