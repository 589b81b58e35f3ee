// Keeps a replica wired: waits for its processes with growing pauses, checks that they fit
// together, opens them under a new epoch, and does so again whenever the wiring is lost.
//
//   pausing ─► asking ─► opening ─► confirming ─► wired    asking: every process for its GetStageInfo
//      ▲          │         │                       │      opening: a Wiring
//      └──────────┴─────────┴───────────────────────┘      whatever fails
//
// Where the embedding or the sampler was lost, or a connection, the shards still have their keys
// and values, and the wiring that follows says so. That a shard is the process it was, and that no
// other orchestrator has opened it meanwhile, is known by its tenure (services/stage/stage_tenure.h).
// Every process is asked before it is opened and again after, because it may be replaced or taken
// by another orchestrator in between.
//
// Processes that come back with fewer blocks or other arithmetic are wired too: ReplicaReady says
// what has changed. Stages that belong to another orchestrator are tried again now and then:
// ReplicaStandby says that this one stands by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/communicator/wiring_identity.h"
#include "orchestrator/pipeline/replica.h"
#include "orchestrator/pipeline/stage_network.h"
#include "orchestrator/pipeline/topology.h"
#include "orchestrator/pipeline/wiring.h"

namespace sluice {

struct ReplicaOptions {
  // The name by which stages know whose they are (GrpcStageNetwork).
  std::string orchestrator;
  Topology topology;
  // Of the model folder that the orchestrator describes to its clients; processes with another one
  // are not wired.
  std::string model_fingerprint;
  RankTransport rank_transport = RankTransport::kSharedMemory;
  int max_step_tokens = 1;  // of the steps that will be sent; shards that take fewer are not wired
  // How long an orchestrator that has never been wired leaves processes that it could open to the
  // one that it succeeds, which wires them anew after they were replaced.
  absl::Duration yield_time = absl::ZeroDuration();
  // Of the model; default: any token that is not negative is one.
  int32_t vocabulary_size = std::numeric_limits<int32_t>::max();
};

class ConnectedReplica final : public Replica {
 public:
  // Borrows the network. The first Advance() begins to connect.
  ConnectedReplica(ReplicaOptions options, StageNetwork* network);
  ~ConnectedReplica() override;

  void Advance(SteadyTime now) override;
  SteadyTime NextWake() const override;
  std::vector<ReplicaEvent> TakeEvents() override;
  void Execute(const Step& step, absl::Span<const RowRequest> rows) override;
  void MarkFailed(const absl::Status& status) override;
  const Topology& topology() const override { return options_.topology; }
  std::shared_ptr<const std::vector<ReplicaProcess>> processes() const override {
    return processes_;
  }

 private:
  enum class Phase { kPausing, kAsking, kOpening, kConfirming, kWired };

  // One round of questions: what each process has answered.
  struct Round {
    int num_unanswered = 0;
    uint64_t newest_epoch = 0;  // that a process has heard of
    std::vector<ReplicaProcess> processes;
    std::vector<std::optional<absl::Status>> fits;
    std::vector<v1::GetStageInfoResponse> infos;  // by process
  };

  // Does what the phase does next; false where that is to wait.
  bool Proceed(SteadyTime now);
  void Ask(SteadyTime now);
  bool AwaitAnswers(SteadyTime now);
  StageNetwork::InfoCallback Answer(size_t index);
  // Publishes what the round found, and says what the replica lacks.
  absl::Status Conclude(Round& round, KvGeometry& geometry) const;
  // What open streams could not go on with, against the last wiring; "" where they can.
  std::string ChangeTo(const KvGeometry& geometry,
                       const std::vector<ReplicaProcess>& processes) const;
  bool HasItsBlocks(const v1::GetStageInfoResponse& info, size_t index) const;
  // Whether it leaves processes that all answer to a predecessor for now.
  bool Yields(SteadyTime now);
  void Open(const KvGeometry& geometry, SteadyTime now);
  bool AwaitOpened(SteadyTime now);
  // UNAVAILABLE where the processes are not those that were asked before they were opened.
  absl::Status CheckSame(const std::vector<ReplicaProcess>& now, const KvGeometry& geometry) const;
  bool AwaitConfirmed(SteadyTime now);
  void BeWired(bool kept_blocks);
  // Whether `reason` has not been told since the replica was last ready.
  bool IsNew(const absl::Status& reason);
  void Pause(const absl::Status& reason, SteadyTime now);
  void StandBy(const absl::Status& reason, SteadyTime now);
  bool Watch(SteadyTime now);
  // Publishes what shards have told of their time.
  void TakeTimes();

  const ReplicaOptions options_;
  StageNetwork* const network_;
  const WiringNonce nonce_ = DrawWiringNonce();  // sent with every Open

  Phase phase_ = Phase::kPausing;
  SteadyTime wake_;  // when the phase has lasted long enough; not in kWired
  absl::Duration pause_;
  // For all stages to open; more after an attempt that took longer.
  absl::Duration open_timeout_;
  // Why it was not ready since it last was: each is logged once.
  std::set<std::string> logged_reasons_;
  SteadyTime unready_since_;        // its default while wired
  SteadyTime complete_since_;       // that all processes fit; its default where they do not
  std::shared_ptr<Round> round_;    // in kAsking and kConfirming; answers to others are late
  std::unique_ptr<Wiring> wiring_;  // from kOpening on
  absl::Status given_up_;           // in kWired
  std::vector<ReplicaEvent> events_;

  // Whether the shards have the blocks of the last wiring, as far as is known; and by process, the
  // tenure under which a shard had its part in it.
  bool keeps_blocks_ = false;
  uint64_t wired_epoch_ = 0;
  std::vector<uint64_t> tenures_;

  uint64_t epoch_ = 0;  // the newest known; the next is larger
  KvGeometry opening_geometry_;
  std::string opening_change_;
  // What streams that are open were begun with: of the first wiring, or of that after the last
  // change.
  KvGeometry geometry_;
  std::vector<std::string> arithmetic_;  // by process
  std::string weights_digest_;           // of all of them
  std::shared_ptr<const std::vector<ReplicaProcess>> processes_;
};

}  // namespace sluice
