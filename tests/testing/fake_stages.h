// A replica without a model: embedding, shards and sampler as in-process servers that speak the
// real protocol. Hidden rows do not travel; a step is complete once every stage has its part of it.
//
// The "KV cache" holds token ids: a row's token is a hash of the tokens found in the blocks of its
// segment, so that steps lost, mixed up or sent to wrong blocks show as other tokens than
// FakeTokens() gives.
//
// Thread-safe. Hooks are called with a lock held: they must not call back.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "orchestrator/pipeline/topology.h"
#include "services/rpc/server.h"
#include "services/rpc/transport.h"
#include "sluice/v1/stage.grpc.pb.h"

namespace sluice::testing {

// What the fakes generate after `prompt` for a sequence of this seed and index.
std::vector<int32_t> FakeTokens(std::vector<int32_t> prompt, uint64_t seed, int sequence_index,
                                int count);

struct FakeStagesOptions {
  int num_stages = 1;
  int num_ranks = 1;
  int block_size = 4;
  int num_kv_blocks = 64;
  std::string fingerprint = "fake-model";
};

// A step that every stage has.
struct FakeStep {
  uint64_t epoch = 0;
  uint64_t step_id = 0;
  // By segment, the sequence's tokens up to the segment's end, as read from its blocks.
  std::vector<std::vector<int32_t>> sequences;
};

// "embedding", "shard-<stage>-<rank>", "sampler" name the fakes; a fake is reachable at
// "inproc:<name>" once it is up.
class FakeStages {
 public:
  enum class Verdict {
    kAnswer,
    kIgnore,  // the step never completes
    kLose,    // the first shard ends its stream
  };
  using Judge = std::function<Verdict(const FakeStep& step)>;
  // Why the row after these tokens fails, else empty.
  using RowError = std::function<std::string(const std::vector<int32_t>& tokens)>;

  FakeStages(const FakeStagesOptions& options, Dialer* dialer);
  ~FakeStages();

  Topology topology() const;
  std::vector<std::string> names() const;  // in the orchestrator's order

  // Makes a fake, or all of them, reachable.
  void BringUp(const std::string& name);
  void BringUpAll();

  void SetJudge(Judge judge);
  void SetRowError(RowError row_error);
  // Ends the next `count` streams of `name` right after they have answered Open.
  void EndAfterOpen(const std::string& name, int count);
  // Refuses the streams of `name` with a status until it is OK.
  void RefuseOpen(const std::string& name, const absl::Status& status);
  // Has `name` answer Open as a stage of another wiring, or no longer.
  void AnswerAsAnotherWiring(const std::string& name, bool another);
  // Has `name` answer plans as a sampler does, with no rows.
  void AnswerPlans(const std::string& name);
  // Ends the open stream of `name`.
  void End(const std::string& name, const absl::Status& status);
  // What `name` answers to GetStageInfo.
  void ChangeInfo(const std::string& name,
                  const std::function<void(v1::GetStageInfoResponse&)>& change);

  // The same, from the next Open of `name` on: as if another process had taken its address.
  void ReplaceOnOpen(const std::string& name,
                     std::function<void(v1::GetStageInfoResponse&)> change);

  // Epochs that a fake has opened, in order.
  std::vector<uint64_t> epochs(const std::string& name) const;
  // How often a fake was asked for its info.
  int num_probes(const std::string& name) const;
  // The last Open of a fake.
  v1::StageOpen last_open(const std::string& name) const;

 private:
  class Service;
  struct Fake;
  struct Pending {
    uint64_t step_id = 0;
    bool has_embedding = false;
    v1::EmbeddingExecute embedding;
    int num_shards = 0;
    v1::ShardExecute shard;
    std::function<void(v1::StageRunResponse)> answer;  // with the sampler's plan
    v1::SamplerExecute sampler;
  };

  // Takes up an Open; true where it is to be answered.
  bool Open(const std::string& name, const v1::StageOpen& open,
            std::function<void(const absl::Status&)> close);
  void Opened(const std::string& name);
  // What `name` answers to an Open.
  void AnswerOpen(const std::string& name, const v1::StageOpen& open, v1::StageOpened& opened);
  // Takes up a stage's part of a step; `answer` is called where it is the sampler's.
  void Add(const v1::StageExecute& execute, std::function<void(v1::StageRunResponse)> answer);
  v1::GetStageInfoResponse Probe(const std::string& name);
  bool AnswersPlans(const std::string& name) const;
  // Ends the stream of the first shard.
  void GiveUp() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Steps of this epoch are run.
  bool Runs(uint64_t epoch) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunIfComplete(uint64_t step_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Puts in the tokens that earlier steps have chosen; false where one of them never did.
  bool FillIn(v1::EmbeddingExecute& embedding) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  FakeStep Write(const Pending& step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Answer(const Pending& step, const FakeStep& written) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const FakeStagesOptions options_;
  Dialer* const dialer_;

  mutable absl::Mutex mutex_;
  Judge judge_ ABSL_GUARDED_BY(mutex_);
  RowError row_error_ ABSL_GUARDED_BY(mutex_);
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  // A step of the epoch was lost, or waits for one that never chose: none behind it is run.
  bool stands_still_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<uint64_t, Pending> pending_ ABSL_GUARDED_BY(mutex_);              // by step id
  std::vector<int32_t> memory_ ABSL_GUARDED_BY(mutex_);                      // token by slot
  std::map<uint64_t, std::vector<int32_t>> tables_ ABSL_GUARDED_BY(mutex_);  // by sequence
  std::map<uint64_t, std::vector<int32_t>> chosen_ ABSL_GUARDED_BY(mutex_);  // by step and row
  // Of sequences that the sampler was told of.
  std::map<uint64_t, uint64_t> seeds_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Fake> fakes_ ABSL_GUARDED_BY(mutex_);

  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::map<std::string, std::unique_ptr<Server>> servers_;  // last: calls use what is above
};

}  // namespace sluice::testing
