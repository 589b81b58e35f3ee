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
// Everything must have healed, and every request ended, so long after the last fault is over.
constexpr absl::Duration kHealingBound = absl::Seconds(40);

}  // namespace

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
  if (chance_.Percent(50)) stages_.options.deferred_percent = chance_.Pick(1, 30);
  max_positions_ = std::min(48, stages_.options.num_blocks * stages_.options.block_size);
  orchestrator_host_ = network_.AddHost("orchestrator", [this] { HasNews(orchestrator_); });
  rival_host_ = network_.AddHost("rival", [this] { HasNews(rival_); });
  tokenizer_host_ = network_.AddHost("tokenizer");
  foreign_host_ = network_.AddHost("foreign");
  stages_.takes_foreign_rows = options.planted == Planted::kForeignRows;
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
                            .num_blocks = chance_.Pick(4, 32),
                            .deferred_percent = stages_.options.deferred_percent};
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
// ---- Clients ----

void World::PlanRequests() {
  const int count = chance_.Pick(1, 10);
  if (chance_.Percent(10)) AddPoison(chance_.Pick(0, count - 1));
  for (int i = 0; i < count; ++i) {
    const SteadyTime start = timeline_.now() + chance_.Between(absl::ZeroDuration(), kFaultPeriod);
    EngineRequest request = Client::RandomRequest(chance_, max_positions_, options_.beam_percent);
    request.name = absl::StrCat("request ", i);
    if (poison_ == i) request.prompt[chance_.Number() % request.prompt.size()] = kPoison;
    if (chance_.Percent(10)) {
      request.deadline = start + chance_.Between(absl::ZeroDuration(), absl::Seconds(2));
    }
    if (!broken_.has_value() && poison_ != i && !request.score && !request.beams.has_value() &&
        chance_.Percent(5)) {
      broken_ = i;
      stages_.options.broken_seed = request.sampling.seed;
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
// ---- The run ----

bool World::AllOver() const {
  return std::all_of(served_.begin(), served_.end(),
                     [](const Served& served) { return served.client->over(); });
}

SimulationResult World::Run() {
  PlanRequests();
  StartOrchestrator();
  PlanFaults();
  PlanForeignPushes();
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
    const bool is_broken = broken_ == static_cast<int>(&served - served_.data());
    if (is_broken && !client.left() && !expired &&
        client.failure().code() != absl::StatusCode::kFailedPrecondition) {
      return absl::StrCat(name,
                          " has no tokens and ended otherwise: ", client.failure().ToString());
    }
    if (!client.failure().ok() && !expired && !is_poison && !is_broken) {
      return absl::StrCat(name, " failed: ", client.failure().ToString());
    }
  }
  for (const std::shared_ptr<Client>& client : of_the_rival_) {
    const std::string fault = client->Fault();
    if (!fault.empty()) return absl::StrCat("a request of the rival ", fault);
  }
  const SchedulerStatistics left = orchestrator_->core.status().target().scheduler;
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
