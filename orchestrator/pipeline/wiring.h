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

  // How a shard has spent its time, as it last told.
  struct ReportedTimes {
    int stage = 0;
    int rank = 0;
    v1::ShardTimes times;
  };
  // What shards have told since the last call.
  std::vector<ReportedTimes> TakeTimes() { return std::exchange(times_, {}); }

 private:
  absl::Status OpenSampler(SteadyTime now);
  absl::Status OpenStage(int stage, SteadyTime now);
  absl::Status OpenRank(int stage, int rank, const v1::ShardRunRequest& request);
  absl::Status OpenEmbedding(SteadyTime now);
  v1::ShardRunRequest ShardOpenFor(int stage, SteadyTime now) const;
  // Puts into an Open what every kind of stage is told.
  template <class Open>
  void SetOpen(SteadyTime now, Open& open) const;

  // What every stream's handler does. `who` names the process in errors.
  template <class Stream>
  typename Stream::Handler HandlerFor(const std::string& who);
  // Counts an Opened of this wiring; one of another is a loss.
  template <class Opened>
  void OnOpened(const std::string& who, const Opened& opened);
  void OnResponse(const std::string& who, const v1::EmbeddingRunResponse& response);
  void OnShardResponse(const std::string& who, int stage, int rank,
                       const v1::ShardRunResponse& response);
  void OnResponse(const std::string& who, const v1::SamplerRunResponse& response);
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

  std::unique_ptr<StageNetwork::EmbeddingStream> embedding_;
  std::vector<std::unique_ptr<StageNetwork::ShardStream>> rank_zero_;  // by stage, the last first
  std::vector<std::unique_ptr<StageNetwork::ShardStream>> other_ranks_;
  std::unique_ptr<StageNetwork::SamplerStream> sampler_;

  SamplerPlans sampler_plans_;
  // Made for every step out of what streams have left of earlier ones.
  v1::EmbeddingRunRequest embedding_message_;
  v1::ShardRunRequest shard_message_;
  v1::SamplerRunRequest sampler_message_;
};

}  // namespace sluice
