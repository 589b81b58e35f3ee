// The whole pipeline in this process: the same services as behind `sluice up`, wired over
// in-process channels.
#pragma once

#include <grpcpp/channel.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/device/make_backend.h"
#include "orchestrator/drafts/draft_mode.h"
#include "orchestrator/drafts/draft_policy.h"
#include "services/model/model_config.h"
#include "services/model/storage_type.h"
#include "services/options/option_values.h"

namespace sluice {

// A model that drafts for the served one, by the same arithmetic.
struct InProcessDraftModel {
  std::string model;  // folder
  WeightType weights = WeightType::kAuto;
  uint64_t kv_cache_bytes = 0;
};

struct InProcessOptions {
  std::string model;  // folder
  ModelOverrides overrides;
  // GuardAgainstGpuFaults' (services/model_server/gpu_faults.h); empty: of a program that can't be
  // started again for it.
  std::string program;
  int num_ranks = 1;
  int num_stages = 1;
  WeightType weights = WeightType::kAuto;
  DType kv_dtype = DType::kF32;  // of keys and values
  DeviceId device;
  int num_threads = 0;                            // for arithmetic, in all; 0: one per core
  std::vector<int> cpus;                          // for them; empty: wherever the system likes
  uint64_t kv_cache_bytes = uint64_t{512} << 20;  // of the whole replica
  int num_state_slots = 0;                        // within them; ShardModelOptions
  DraftMode draft = DraftMode::kNgram;
  DraftPolicy draft_policy = DraftPolicy::kMeasured;
  std::optional<InProcessDraftModel> draft_model;
  // The other options, and what servers are handed on to read themselves (OptionValues::ForChild).
  OptionValues values{kRun};
};

class InProcessPipeline {
 public:
  virtual ~InProcessPipeline() = default;

  // Of the orchestrator: GenerationService and health.
  virtual std::shared_ptr<grpc::Channel> channel() = 0;
};

// Loads the model and returns once the pipeline serves. Errors of loading name file, field and
// value.
absl::StatusOr<std::unique_ptr<InProcessPipeline>> StartInProcess(const InProcessOptions& options);

}  // namespace sluice
