// One incarnation of a replica: the orchestrator's streams to every stage under one epoch. It
// either works or is lost as a whole; a lost one is replaced under a larger epoch.
//
// Lives on one event loop. It never calls back: the owner asks after each batch of messages.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/communicator/wiring_identity.h"
#include "orchestrator/pipeline/planned_answers.h"
#include "orchestrator/pipeline/replica.h"
#include "orchestrator/pipeline/rows.h"
#include "orchestrator/pipeline/sampler_plans.h"
#include "orchestrator/pipeline/stage_network.h"
#include "orchestrator/pipeline/topology.h"
#include "orchestrator/scheduler/step.h"
#include "services/common/steady_time.h"

namespace sluice {

// How the ranks of a stage talk to each other.
enum class RankTransport { kSharedMemory, kTcp };

struct WiringOptions {
  // Epoch, model, and a nonce of this wiring alone. Every stage shows it before it counts as open.
  WiringIdentity identity;
  // Of the replica through all its wirings: tells stages that their tenure goes on (StageTenure).
  WiringNonce orchestrator_nonce{};
  int32_t num_kv_blocks = 0;
  int32_t num_state_slots = 0;
  RankTransport rank_transport = RankTransport::kSharedMemory;
  // Of the model. What stages answer with any other token ends the wiring.
  int32_t vocabulary_size = std::numeric_limits<int32_t>::max();
  // When every stage has to have opened: each is given what is left of it.
  SteadyTime open_deadline = SteadyTime::InfiniteFuture();
};

class Wiring {
 public:
  // Borrows topology and network. The first Advance() begins to open the stages.
  Wiring(const Topology* topology, StageNetwork* network, const WiringOptions& options);
  // Ends all streams.
  ~Wiring();

  Wiring(const Wiring&) = delete;
  Wiring& operator=(const Wiring&) = delete;

  // Opens what can be opened next: stages open from the sampler backwards, so that each finds the
  // next one open.
  void Advance(SteadyTime now);

  // Every stage has accepted the epoch.
  bool opened() const { return num_opened_ == topology_.num_processes(); }
  // OK, or the first stage that was lost and why.
  const absl::Status& lost() const { return lost_; }
  // The processes that have been asked to open and have not answered, such as "sampler at unix:/s".
  std::string Unanswered() const;

  // REQUIRES: opened(). `rows` in the order of the step's segments and their rows.
  void Execute(const Step& step, absl::Span<const RowRequest> rows);
  // What the sampler has answered since the last call.
  std::vector<StepExecuted> TakeExecuted();

  // A process: its kind, and the place of a shard.
  struct Place {
    Role role = Role::kShard;
    int stage = 0;
    int rank = 0;
  };
  // How a shard has spent its time, as it last told.
  struct ReportedTimes {
    Place place;
    v1::StageTimes times;
  };
  // What shards have told since the last call.
  std::vector<ReportedTimes> TakeTimes() { return std::exchange(times_, {}); }

 private:
  // What every Open of this wiring says.
  v1::StageOpen OpenFor(SteadyTime now) const;
  absl::Status OpenSampler(SteadyTime now);
  // All ranks of it.
  absl::Status OpenStage(int stage, SteadyTime now);
  absl::Status OpenEmbedding(SteadyTime now);
  // Opens the process at `address` into `stream`. `who` names it in errors.
  absl::Status OpenProcess(Place place, const std::string& address, const std::string& who,
                           v1::StageOpen open, std::unique_ptr<StageNetwork::Stream>& stream);
  void OnResponse(const std::string& who, Place place, const v1::StageRunResponse& response);
  // Counts an Opened of this wiring; one of another is a loss.
  void OnOpened(const std::string& who, const v1::StageOpened& opened);
  void OnExecuted(const std::string& who, Place place, const v1::StageExecuted& executed);
  void Lose(const std::string& who, const absl::Status& status);

  const Topology& topology_;
  StageNetwork& network_;
  const WiringOptions options_;
  // Of the ranks' communicators: random, and no secret, unlike the nonce.
  const std::string communicator_suffix_;
  PlannedAnswers answers_;

  int next_to_open_;  // -1: the embedding; num_stages: the sampler; else a stage of shards
  int num_opened_ = 0;
  std::set<std::string> opening_;  // who has been asked to open, and has not answered
  absl::Status lost_;
  std::vector<StepExecuted> executed_;
  std::vector<ReportedTimes> times_;

  std::unique_ptr<StageNetwork::Stream> embedding_;
  std::vector<std::unique_ptr<StageNetwork::Stream>> rank_zero_;  // by stage, the last first
  std::vector<std::unique_ptr<StageNetwork::Stream>> other_ranks_;
  std::unique_ptr<StageNetwork::Stream> sampler_;

  SamplerPlans sampler_plans_;
  // Made for every step out of what streams have left of earlier ones.
  v1::StageRunRequest embedding_message_;
  v1::StageRunRequest shard_message_;
  v1::StageRunRequest sampler_message_;
};

}  // namespace sluice
