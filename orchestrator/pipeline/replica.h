// Keeps a replica wired: waits for its processes with growing pauses, checks that they fit
// together, opens them under a new epoch, and does so again whenever told that the wiring was lost.
//
// Thread-safe. Works on a thread of its own; callbacks come from there or from gRPC and must not
// block.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "orchestrator/pipeline/topology.h"
#include "orchestrator/pipeline/wiring.h"
#include "services/common/transport.h"

namespace sluice {

struct ReplicaOptions {
  Topology topology;
  // Of the model folder that the orchestrator describes to its clients; processes with another one
  // are not wired.
  std::string model_fingerprint;
  RankTransport rank_transport = RankTransport::kSharedMemory;
};

// What the shards agree on.
struct KvGeometry {
  int32_t block_size = 0;
  int32_t num_blocks = 0;  // the smallest budget of all shards
};

// One process behind the orchestrator.
struct ReplicaProcess {
  std::string service;  // "embedding", "shard", "sampler"
  std::string address;
  int stage = 0;
  int rank = 0;
  bool ready = false;
  std::string detail;  // why it is not ready
  // In memory, as the process last told; 0: it has not yet.
  uint64_t weight_bytes = 0;
  uint64_t kv_bytes = 0;   // shards alone
  std::string arithmetic;  // what its bits depend on besides the model; shards and sampler
};

class Replica {
 public:
  struct Handler {
    // The replica is wired under `epoch`. Its blocks are empty.
    std::function<void(uint64_t epoch, std::unique_ptr<Wiring> wiring, KvGeometry geometry)>
        on_ready;
    std::function<void(uint64_t epoch, StepId step, std::vector<RowResult> rows)> on_executed;
    // Wiring is lost; Connect() mends it. May come before the epoch's on_ready, from another
    // thread, where the loss is that quick.
    std::function<void(uint64_t epoch, absl::Status status)> on_lost;
  };

  Replica(ReplicaOptions options, Dialer* dialer, Handler handler);
  // Stops. REQUIRES: every wiring handed over is gone.
  ~Replica();

  // Stops trying and waits for the thread: on_ready is not called any more.
  void Stop();

  // Tries until it succeeds: on_ready follows.
  void Connect();

  std::vector<ReplicaProcess> processes() const;
  const Topology& topology() const { return options_.topology; }

 private:
  void Loop();
  // One attempt. Afterwards processes() says what is missing.
  absl::Status TryConnect();
  absl::Status Probe(KvGeometry& geometry);
  // Fill in the sizes of the process.
  template <class Service, class Request, class Response>
  absl::Status ProbeEnd(ReplicaProcess& process) const;
  absl::Status ProbeShard(ReplicaProcess& process, KvGeometry& geometry) const;
  // Whether the bits of process `index` will be those of its former incarnations and of the other
  // shards.
  absl::Status CheckArithmetic(absl::Span<const ReplicaProcess> processes, size_t index) const;
  absl::Status CheckFingerprint(const ReplicaProcess& process,
                                const std::string& fingerprint) const;
  bool WaitForWork(absl::Duration pause);

  const ReplicaOptions options_;
  Dialer* const dialer_;
  const Handler handler_;

  // Touched by the thread alone.
  uint64_t epoch_ = 0;
  KvGeometry geometry_;  // of the first success; later incarnations must offer as much
  // By process, of the first success: with another, open streams would go on with other bits.
  std::vector<std::string> arithmetic_;

  mutable absl::Mutex mutex_;
  bool connecting_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<ReplicaProcess> processes_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace sluice
