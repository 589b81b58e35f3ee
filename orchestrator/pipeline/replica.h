// Interface of a replica: a machine that executes steps in order, may be lost, and recovers by
// itself under a larger epoch. ConnectedReplica is the implementation.
//
// Lives on one event loop. It never calls back: what has happened is taken as events.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "orchestrator/pipeline/rows.h"
#include "orchestrator/pipeline/topology.h"
#include "orchestrator/scheduler/step.h"
#include "services/common/steady_time.h"
#include "services/security/role.h"

namespace sluice {

// What the shards agree on.
struct KvGeometry {
  int32_t block_size = 0;
  int32_t num_blocks = 0;  // the smallest budget of all shards
  // Likewise, of the shards that have recurrent layers; 0 where none has.
  int32_t num_state_slots = 0;
};

// One process behind the orchestrator.
struct ReplicaProcess {
  Role role = Role::kShard;  // kEmbedding, kShard or kSampler
  std::string address;
  int stage = 0;
  int rank = 0;
  bool ready = false;
  std::string detail;  // why it is not ready
  // In memory, as the process last told; 0: it has not yet.
  uint64_t weight_bytes = 0;
  uint64_t kv_bytes = 0;   // shards alone
  std::string arithmetic;  // what its bits depend on besides the model; shards and sampler
  std::string weights_digest;
  // Since it started, of shards: computing steps, and between steps with nothing to compute though
  // sequences were under way; of that, while other stages computed what it waited for.
  absl::Duration busy, gap, gap_computed;

  // "embedding", "shard", "sampler".
  const char* service() const { return Name(role); }
};

// The replica is wired: steps may be sent.
struct ReplicaReady {
  uint64_t epoch = 0;
  KvGeometry geometry;
  // The blocks hold what every step that was executed has left there: no shard was lost. Otherwise
  // they are empty.
  bool kept_blocks = false;
  // Why sequences that were begun before can't go on with the same bits: the stages came back with
  // other weights or arithmetic, or with blocks of another size. Empty where they can, though maybe
  // not all of them with as many blocks as `geometry` has now.
  std::string changed;
};

// Steps come in the order in which they were sent.
struct StepExecuted {
  StepId step = 0;
  std::vector<RowResult> rows;  // in plan order
};

// Steps that have not been executed never will be. ReplicaReady follows once it is mended.
struct ReplicaLost {
  absl::Status status;
};

// A stage belongs to another orchestrator: this one stands by, and says so again now and then,
// until ReplicaReady. Comes instead of that, so after ReplicaLost or at the start.
struct ReplicaStandby {
  absl::Status status;  // ALREADY_EXISTS, naming process and orchestrator
};

using ReplicaEvent = std::variant<ReplicaReady, StepExecuted, ReplicaLost, ReplicaStandby>;

class Replica {
 public:
  virtual ~Replica() = default;

  // Works on what has come and what is due.
  virtual void Advance(SteadyTime now) = 0;
  // When Advance() has something to do even if nothing comes.
  virtual SteadyTime NextWake() const = 0;

  // What has happened since the last call, in order.
  virtual std::vector<ReplicaEvent> TakeEvents() = 0;

  // Sends a step on its way, unless the replica is lost meanwhile. `rows` in the order of the
  // step's segments and their rows.
  virtual void Execute(const Step& step, absl::Span<const RowRequest> rows) = 0;

  // It does not do what it should: it counts as lost, with this status, at the next Advance().
  virtual void MarkFailed(const absl::Status& status) = 0;

  virtual const Topology& topology() const = 0;
  // Replaced when something in it changes; may be kept and read by other threads.
  virtual std::shared_ptr<const std::vector<ReplicaProcess>> processes() const = 0;
};

}  // namespace sluice
