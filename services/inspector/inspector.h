// Looks into a model: attention weights, their rollout, and what every layer's rows would say
// (logit lens, nostalgebraist 2020), of one text at a time. Not thread-safe.
//
// It computes with the stages' own code (ShardModel, EmbeddingTable, LmHead) on a CPU backend of its
// own, reading the model's files layer by layer: it holds one layer at a time, and nothing between
// calls but the mapped files. So it works beside a pipeline of any shape and takes nothing of it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "services/inspector/recorder.h"
#include "services/model/model_config.h"
#include "services/model/shard_plan.h"
#include "services/model/storage_type.h"
#include "services/model/weights.h"
#include "sluice/v1/inspect.pb.h"

namespace sluice {

struct InspectorOptions {
  std::string model;  // folder or GGUF file
  ModelOverrides overrides;
  WeightType weights = WeightType::kAuto;
  int num_threads = 1;    // 0: one per core
  std::vector<int> cpus;  // for them; empty: wherever the system likes
};

class Inspector {
 public:
  // Of one call.
  static constexpr int64_t kMostTokens = 1024;
  static constexpr int64_t kMostWeights = int64_t{1} << 24;
  static constexpr int kMostLensTokens = 20;

  // Reads what the files say of the model, no weights yet. Errors of configuration and WeightSource.
  static absl::StatusOr<std::unique_ptr<Inspector>> Open(const InspectorOptions& options);

  // What is asked of `request`, whose input is token ids, as inspect.proto has it. INVALID_ARGUMENT,
  // RESOURCE_EXHAUSTED where memory is short, CANCELLED between two layers once `stop` is requested.
  absl::StatusOr<v1::InspectResponse> Inspect(const v1::InspectRequest& request,
                                              const std::stop_token& stop);

  const ModelConfig& config() const { return config_; }

 private:
  Inspector(const InspectorOptions& options, ModelConfig config, WeightSource source);

  absl::Status Check(const v1::InspectRequest& request) const;
  absl::StatusOr<std::unique_ptr<Buffer>> Embed(absl::Span<const int32_t> ids);
  using OnLayer = std::function<void(int layer, MatrixView hidden)>;  // ShardModelOptions'
  // `rows` [n, row_width()] through some layers.
  absl::Status RunLayers(IndexRange layers, MatrixView rows, const OnLayer& on_layer);
  // Fills in `lens`. Of each layer the rows [n, H].
  absl::Status LookThroughLens(const std::vector<std::vector<float>>& rows_of_layers,
                               const v1::InspectRequest& request, const std::stop_token& stop,
                               v1::InspectResponse& response);

  const InspectorOptions options_;
  const ModelConfig config_;
  const WeightSource source_;
  const std::vector<int> attention_layers_;
  AttentionRecorder recorder_;
  const std::unique_ptr<Backend> backend_;  // observed by recorder_
};

}  // namespace sluice
