// One incarnation of a replica: the orchestrator's streams to every stage under one epoch. It
// either works or is lost as a whole; a lost one is replaced under a larger epoch.
//
// Thread-safe. Callbacks come from gRPC's threads and must not block.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "orchestrator/pipeline/rows.h"
#include "orchestrator/pipeline/topology.h"
#include "orchestrator/scheduler/step.h"
#include "services/common/client_stream.h"
#include "services/common/transport.h"
#include "sluice/v1/embedding.grpc.pb.h"
#include "sluice/v1/sampler.grpc.pb.h"
#include "sluice/v1/shard.grpc.pb.h"

namespace sluice {

// How the ranks of a stage talk to each other.
enum class RankTransport { kSharedMemory, kTcp };

struct WiringOptions {
  uint64_t epoch = 0;
  int32_t num_kv_blocks = 0;
  std::string model_fingerprint;
  RankTransport rank_transport = RankTransport::kSharedMemory;
  // How long a stage may take to answer Open.
  absl::Duration open_timeout = absl::Seconds(20);
};

class Wiring {
 public:
  struct Handler {
    // A step's results, row by row in plan order. Steps come in order.
    std::function<void(StepId step, std::vector<RowResult> rows)> on_executed;
    // The first stage that was lost, and why. Called at most once; nothing follows.
    std::function<void(absl::Status status)> on_lost;
  };

  // Opens every stage, from the sampler backwards, so that each finds the next one open. Blocks
  // until all have accepted the epoch or one has not: its status then says which.
  static absl::StatusOr<std::unique_ptr<Wiring>> Open(const Topology& topology, Dialer& dialer,
                                                      const WiringOptions& options,
                                                      Handler handler);
  // Ends all streams. No callback follows.
  ~Wiring();

  // Sends the step on its way. `rows` in the order of the step's segments and their rows.
  void Execute(const Step& step, absl::Span<const RowRequest> rows);

 private:
  using EmbeddingStream = ClientStream<v1::EmbeddingRunRequest, v1::EmbeddingRunResponse>;
  using ShardStream = ClientStream<v1::ShardRunRequest, v1::ShardRunResponse>;
  using SamplerStream = ClientStream<v1::SamplerRunRequest, v1::SamplerRunResponse>;

  // What the streams' callbacks share; outlives the wiring while they end.
  struct Shared {
    absl::Mutex mutex;
    int num_opened ABSL_GUARDED_BY(mutex) = 0;
    absl::Status lost ABSL_GUARDED_BY(mutex);
    Handler handler ABSL_GUARDED_BY(mutex);

    void Opened();
    void Executed(const v1::SamplerExecuted& executed);
    void Lost(const std::string& who, const absl::Status& status);
  };

  Wiring(const WiringOptions& options, Handler handler);

  absl::Status OpenSampler(const std::string& address, Dialer& dialer);
  absl::Status OpenStage(int stage, const std::vector<std::string>& addresses,
                         const std::string& next_stage, Dialer& dialer);
  absl::Status OpenEmbedding(const std::string& address, const std::string& next_stage,
                             Dialer& dialer);
  absl::Status AwaitOpened(int num_streams);

  const WiringOptions options_;
  const std::shared_ptr<Shared> shared_;

  // Constant after Open().
  std::shared_ptr<EmbeddingStream> embedding_;
  std::vector<std::shared_ptr<ShardStream>>
      rank_zero_;  // of each stage, from the last to the first
  std::vector<std::shared_ptr<ShardStream>> shards_;
  std::shared_ptr<SamplerStream> sampler_;
};

}  // namespace sluice
