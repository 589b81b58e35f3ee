// The processes of a replica as they behave behind gRPC: sessions under epochs, the chain of
// streams from stage to stage, ranks that compute together, steps that take time. What they compute
// is fake_model.h.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "kernels/communicator/wiring_identity.h"
#include "services/stage/stage_tenure.h"
#include "sluice/v1/stage.pb.h"
#include "tests/simulation/network.h"
#include "tests/simulation/timeline.h"

namespace sluice::simulation {

using Rows = std::vector<uint64_t>;

// What goes from a stage to the next: the wiring at first, then the rows of steps.
struct PushMessage {
  WiringIdentity wiring;
  uint64_t step_id = 0;  // 0: this opens the stream
  Rows rows;
};
struct PushAccepted {};
using PushStream = Duplex<PushMessage, PushAccepted>;

// What the embedding asks the sampler, and hears: that it is accepted, then what steps chose.
struct FollowMessage {
  WiringIdentity wiring;
};
struct ChosenMessage {
  uint64_t step_id = 0;  // 0: accepted
  std::vector<int32_t> tokens;
};
using FollowStream = Duplex<FollowMessage, ChosenMessage>;

using StageRun = Duplex<v1::StageRunRequest, v1::StageRunResponse>;

struct StageOptions {
  int num_stages = 1;
  int num_ranks = 1;
  int block_size = 4;
  int num_blocks = 32;
  // How often a row of the sampler has no token yet: its mask is not ready.
  int deferred_percent = 0;
  // Rows of sequences with this seed have no token at all.
  std::optional<uint64_t> broken_seed;
};

class StageProcess;

// What the stages need of the world around them.
struct StageWorld {
  Timeline* timeline = nullptr;
  Chance* chance = nullptr;
  Network* network = nullptr;
  History* history = nullptr;
  StageOptions options;
  // The process at an address, unless it is down; and its host in any case.
  std::function<StageProcess*(const std::string& address)> find;
  std::function<HostId(const std::string& address)> host;
  // Planted: rows of streams that were not accepted are taken.
  bool takes_foreign_rows = false;
  // Sees every step that the embedding computes; may be null.
  std::function<void(const v1::EmbeddingExecute& step)> on_step;
};

// One incarnation of a process; a restart makes another.
class StageProcess : public std::enable_shared_from_this<StageProcess> {
 public:
  enum class Kind { kEmbedding, kShard, kSampler };

  StageProcess(StageWorld* world, Kind kind, std::string address, int stage, int rank);
  ~StageProcess();

  // Serve a new stream.
  void Serve(const std::shared_ptr<StageRun>& run);
  void Serve(const std::shared_ptr<PushStream>& push);
  void Serve(const std::shared_ptr<FollowStream>& follow);

  uint64_t epoch() const { return epoch_; }
  v1::GetStageInfoResponse Info() const;

  // The steps whose rows it waits for, and how many rows: what a foreign process would have to
  // send.
  std::vector<std::pair<uint64_t, size_t>> AwaitedRows() const;

  // Plants a fault for the simulation to find: a slot changes by itself.
  void SpoilSlot();

 private:
  struct Session {
    WiringIdentity wiring;
    uint64_t stream = 0;  // of the tenure
    std::string communicator;
    std::function<void(const absl::Status&)> close;  // the Run stream
    std::function<void()> send_opened;
    std::function<void(v1::StageRunResponse)> answer;
    std::deque<v1::StageExecute> plans;
    std::weak_ptr<PushStream> from_before;  // the accepted stream of the stage before
    std::map<uint64_t, Rows> hidden;
    std::map<uint64_t, std::vector<int32_t>> tables;  // of a leading rank, by sequence
    std::shared_ptr<PushStream> to_next;
    std::shared_ptr<FollowStream> to_sampler;         // of an embedding
    std::map<uint64_t, std::vector<int32_t>> chosen;  // by step, what came over it
    std::map<uint64_t, uint64_t> seeds;               // of sequences that the sampler was told of
    std::map<uint64_t, int> without_token;            // of these, the position of a deferred row
    std::weak_ptr<FollowStream> follower;             // of a sampler
    int num_accepted = 0;                             // of the streams above that it dials
    bool receiving = false;
    bool computing = false;
    bool closed = false;
  };

  void OpenSession(const std::shared_ptr<StageRun>& run, const v1::StageOpen& open);
  void CloseSession(const std::shared_ptr<Session>& session, const absl::Status& status);
  void JoinRanks(const std::shared_ptr<Session>& session, const std::string& next_stage,
                 SteadyTime give_up);
  void DialNext(const std::shared_ptr<Session>& session, const std::string& next_stage);
  void DialSampler(const std::shared_ptr<Session>& session, const std::string& sampler);
  void Ready(const std::shared_ptr<Session>& session);
  void AddPlan(const std::shared_ptr<Session>& session, v1::StageExecute plan);
  void ComputeNext(const std::shared_ptr<Session>& session);
  void Compute(const std::shared_ptr<Session>& session, const v1::StageExecute& plan, Rows rows);
  // Puts in the tokens that earlier steps have chosen; false where one of them is not known yet.
  static bool FillIn(const Session& session, v1::EmbeddingExecute& plan);
  Rows Embed(const v1::EmbeddingExecute& plan) const;
  // Runs the stage on every rank. Nothing where a rank does not take part.
  std::optional<Rows> Forward(Session& session, const v1::ShardExecute& plan, const Rows& rows);
  // Whether a row has no token yet: by chance, or because one before it has none.
  bool IsDeferred(Session& session, const v1::SamplerRow& asked);
  void Sample(const std::shared_ptr<Session>& session, const v1::StageExecute& step,
              const Rows& rows);
  StageProcess* PeerOf(const Session& session, int rank) const;
  void Later(absl::Duration delay, const std::shared_ptr<Session>& session,
             std::function<void()> what);

  StageWorld& world_;
  const Kind kind_;
  const std::string address_;
  const HostId host_;
  const int stage_, rank_;
  uint64_t epoch_ = 0;
  StageTenure tenure_;
  std::shared_ptr<Session> session_;  // the current one
  std::vector<uint64_t> memory_;      // by slot
};

}  // namespace sluice::simulation
