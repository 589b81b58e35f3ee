#include "services/inspector/inspector.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/cpu/cpu_backend.h"
#include "services/embedding/embedding_table.h"
#include "services/sampler/lm_head.h"
#include "services/shard/shard_model.h"

namespace sluice {
namespace {

constexpr int kBlockSize = 16;
// Rows whose logits are held at a time.
constexpr int64_t kLensRows = 16;

std::vector<int> AttentionLayersOf(const ModelConfig& config) {
  std::vector<int> layers;
  for (int layer = 0; layer < config.num_layers(); ++layer) {
    if (config.layers[layer].attention.has_keys()) layers.push_back(layer);
  }
  return layers;
}

// One layer after another, but for those that share keys and values, which belong together.
std::vector<IndexRange> RunsOf(const ModelConfig& config) {
  const int shared = FirstSharedLayer(config);
  std::vector<IndexRange> runs;
  for (int layer = 0; layer < shared; ++layer) runs.push_back({layer, layer + 1});
  if (shared < config.num_layers()) runs.push_back({shared, config.num_layers()});
  return runs;
}

absl::Status OutOfRange(const std::string& what, int64_t value, const std::string& accepted) {
  return absl::InvalidArgumentError(absl::StrCat(what, " is ", value, "; accepted: ", accepted));
}

// "0 to 3", or the numbers that there are.
std::string Listed(const std::vector<int>& numbers) {
  if (numbers.back() - numbers.front() + 1 == static_cast<int>(numbers.size())) {
    return absl::StrCat(numbers.front(), " to ", numbers.back());
  }
  return absl::StrJoin(numbers, ", ");
}

absl::Status CheckStopped(const std::stop_token& stop) {
  return stop.stop_requested() ? absl::CancelledError("the caller left") : absl::OkStatus();
}

// One position of one layer, of its log-probabilities.
v1::LensPosition LensPositionOf(absl::Span<const float> values, absl::Span<const int32_t> ids,
                                std::optional<float> next_logprob) {
  v1::LensPosition position;
  for (size_t i = 0; i < ids.size(); ++i) {
    v1::TokenLogprob& token = *position.add_top();
    token.set_token_id(ids[i]);
    token.set_logprob(values[i]);
  }
  if (next_logprob.has_value()) position.set_next_logprob(*next_logprob);
  return position;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Inspector>> Inspector::Open(const InspectorOptions& options) {
  absl::StatusOr<ModelConfig> config = LoadModelConfig(options.model, options.overrides);
  if (!config.ok()) return config.status();
  if (config->source.has_value()) {
    return absl::UnimplementedError(absl::StrCat("model_type \"", config->model_type,
                                                 "\" reads a source, into which nothing looks yet; "
                                                 "accepted: decoders and encoders"));
  }
  absl::StatusOr<WeightSource> source = WeightSource::Open(options.model, *config);
  if (!source.ok()) return source.status();
  if (const auto format = source->Resolve(options.weights); !format.ok()) return format.status();
  return std::unique_ptr<Inspector>(new Inspector(options, *std::move(config), *std::move(source)));
}

Inspector::Inspector(const InspectorOptions& options, ModelConfig config, WeightSource source)
    : options_(options),
      config_(std::move(config)),
      source_(std::move(source)),
      attention_layers_(AttentionLayersOf(config_)),
      backend_(MakeObservedBackend(
          MakeCpuBackend({.num_threads = options.num_threads, .cpus = options.cpus}), recorder_)) {}

absl::Status Inspector::Check(const v1::InspectRequest& request) const {
  const auto& ids = request.token_ids().token_ids();
  if (!request.weights() && !request.rollout() && request.lens() == 0) {
    return absl::InvalidArgumentError("nothing is asked for: set weights, rollout or lens");
  }
  if (request.lens() < 0 || request.lens() > kMostLensTokens) {
    return OutOfRange("lens", request.lens(), absl::StrCat("0 to ", kMostLensTokens));
  }
  const int64_t most = std::min<int64_t>(kMostTokens, config_.max_positions);
  if (ids.empty() || ids.size() > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("the text has ", ids.size(), " tokens; accepted: 1 to ", most,
                     most < kMostTokens ? ", the model's context" : ""));
  }
  for (int i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < config_.vocab_size) continue;
    return OutOfRange(absl::StrCat("token_ids[", i, "]"), ids[i],
                      absl::StrCat("0 to ", config_.vocab_size - 1));
  }
  if (attention_layers_.empty() && (request.weights() || request.rollout())) {
    return absl::InvalidArgumentError("no layer of this model has attention; accepted: lens");
  }
  for (const int layer : request.layers()) {
    if (layer < 0 || layer >= config_.num_layers()) {
      return OutOfRange("layer", layer, Listed(attention_layers_));
    }
    if (!std::binary_search(attention_layers_.begin(), attention_layers_.end(), layer)) {
      return absl::InvalidArgumentError(
          absl::StrCat("layer is ", layer,
                       ", which has no attention weights; accepted: ", Listed(attention_layers_)));
    }
  }
  for (const int head : request.heads()) {
    if (head < 0 || head >= config_.num_heads) {
      return OutOfRange("head", head, absl::StrCat("0 to ", config_.num_heads - 1));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::InspectResponse> Inspector::Inspect(const v1::InspectRequest& request,
                                                       const std::stop_token& stop) {
  if (absl::Status checked = Check(request); !checked.ok()) return checked;
  const auto& ids = request.token_ids().token_ids();
  const int64_t n = ids.size();
  AttentionRecorder::Wish wish = {.rollout = request.rollout(), .num_positions = n};
  if (request.weights()) {
    wish.layers.insert(request.layers().begin(), request.layers().end());
    if (wish.layers.empty()) wish.layers.insert(attention_layers_.begin(), attention_layers_.end());
    wish.heads.insert(request.heads().begin(), request.heads().end());
    for (int head = 0; request.heads().empty() && head < config_.num_heads; ++head) {
      wish.heads.insert(head);
    }
  }
  const auto maps = static_cast<int64_t>(wish.layers.size() * wish.heads.size());
  if (maps * (n * (n + 1) / 2) > kMostWeights) {
    return absl::InvalidArgumentError(
        absl::StrCat("the weights of ", n, " tokens in ", wish.layers.size(), " layers of ",
                     wish.heads.size(), " heads are ", maps * (n * (n + 1) / 2),
                     " numbers; accepted: up to ", kMostWeights, ": name layers or heads"));
  }
  recorder_.Begin(wish, attention_layers_);

  absl::StatusOr<std::unique_ptr<Buffer>> memory = Embed(ids);
  if (!memory.ok()) return memory.status();
  const int64_t width = config_.row_width();
  const MatrixView rows{(*memory)->data(), DType::kF32, n, width, width};
  std::vector<std::vector<float>> rows_of_layers;
  const auto keep_rows = [&](int, MatrixView hidden) {
    std::vector<float>& kept = rows_of_layers.emplace_back(n * config_.hidden_size);
    for (int64_t t = 0; t < n; ++t) {
      std::copy_n(hidden.Row(t), config_.hidden_size, kept.data() + t * config_.hidden_size);
    }
  };
  const bool wants_all = request.rollout() || request.lens() > 0;
  for (const IndexRange& run : RunsOf(config_)) {
    if (!wants_all && run.begin > *wish.layers.rbegin()) break;
    absl::Status status = CheckStopped(stop);
    if (status.ok()) {
      status = RunLayers(run, rows, request.lens() > 0 ? keep_rows : OnLayer());
    }
    if (!status.ok()) return status;
  }

  v1::InspectResponse response;
  *response.mutable_token_ids() = ids;
  response.set_num_layers(config_.num_layers());
  response.set_num_heads(config_.num_heads);
  response.mutable_attention_layers()->Add(attention_layers_.begin(), attention_layers_.end());
  recorder_.End(response);
  if (request.lens() == 0) return response;
  const absl::Status looked = LookThroughLens(rows_of_layers, request, stop, response);
  if (!looked.ok()) return looked;
  return response;
}

absl::StatusOr<std::unique_ptr<Buffer>> Inspector::Embed(absl::Span<const int32_t> ids) {
  absl::StatusOr<EmbeddingTable> table =
      EmbeddingTable::Load(config_, source_, options_.weights, *backend_);
  if (!table.ok()) return table.status();
  const auto n = static_cast<int64_t>(ids.size());
  const int64_t width = config_.row_width();
  auto memory = backend_->Allocate(n * width * sizeof(float));
  if (!memory.ok()) return memory.status();
  std::vector<int32_t> positions(n);
  std::iota(positions.begin(), positions.end(), 0);
  const absl::Status embedded =
      table->Embed(ids, positions, {(*memory)->data(), DType::kF32, n, width, width});
  if (!embedded.ok()) return embedded;
  return memory;
}

absl::Status Inspector::RunLayers(IndexRange layers, MatrixView rows, const OnLayer& on_layer) {
  absl::StatusOr<ShardPlan> plan = MakeShardPlan(config_, {});
  if (!plan.ok()) return plan.status();
  plan->layers = layers;
  ModelConfig config = config_;
  config.max_positions = static_cast<int>(rows.rows);  // angles of no more are computed
  const auto blocks = static_cast<int>((rows.rows + kBlockSize - 1) / kBlockSize);
  const absl::StatusOr<std::unique_ptr<ShardModel>> model =
      ShardModel::Load(config, *plan, source_,
                       {.weights = options_.weights,
                        .block_size = kBlockSize,
                        .max_step_rows = static_cast<int>(rows.rows),
                        .num_kv_blocks = blocks,
                        .on_layer = on_layer},
                       *backend_);
  if (!model.ok()) return model.status();
  std::vector<int32_t> block_table(blocks);
  std::iota(block_table.begin(), block_table.end(), 0);
  const ShardSegment segment = {.num_positions = static_cast<int32_t>(rows.rows),
                                .block_table = block_table};
  return (*model)->Forward({&segment, 1}, rows);
}

absl::Status Inspector::LookThroughLens(const std::vector<std::vector<float>>& rows_of_layers,
                                        const v1::InspectRequest& request,
                                        const std::stop_token& stop,
                                        v1::InspectResponse& response) {
  absl::StatusOr<LmHead> head =
      LmHead::Load(config_, source_, options_.weights, kLensRows, *backend_);
  if (!head.ok()) return head.status();
  const int64_t hidden = config_.hidden_size, vocabulary = config_.vocab_size;
  auto memory = backend_->Allocate(kLensRows * (hidden + vocabulary) * sizeof(float));
  if (!memory.ok()) return memory.status();
  auto* const first = static_cast<float*>((*memory)->data());
  const auto& ids = request.token_ids().token_ids();
  const int k = std::min<int>(request.lens(), config_.vocab_size);
  for (size_t layer = 0; layer < rows_of_layers.size(); ++layer) {
    v1::LensLayer& seen = *response.add_lens();
    seen.set_layer(static_cast<int>(layer));
    for (int64_t begin = 0; begin < ids.size(); begin += kLensRows) {
      if (absl::Status status = CheckStopped(stop); !status.ok()) return status;
      const int64_t count = std::min<int64_t>(kLensRows, ids.size() - begin);
      const MatrixView rows{first, DType::kF32, count, hidden, hidden};
      const MatrixView logits{first + kLensRows * hidden, DType::kF32, count, vocabulary,
                              vocabulary};
      const auto part =
          absl::MakeConstSpan(rows_of_layers[layer]).subspan(begin * hidden, count * hidden);
      backend_->CopyIn(
          {reinterpret_cast<const std::byte*>(part.data()), part.size() * sizeof(float)},
          rows.data);
      head->Logits(rows, logits);
      backend_->LogSoftmax(logits, logits);
      std::vector<MatrixElement> next;
      for (int64_t t = 0; t < count && begin + t + 1 < ids.size(); ++t) {
        next.push_back({.row = t, .col = ids[static_cast<int>(begin + t + 1)]});
      }
      std::vector<float> next_logprobs(next.size()), values(count * k);
      std::vector<int32_t> top(count * k);
      absl::Status status = backend_->GatherElements(logits, next, absl::MakeSpan(next_logprobs));
      status.Update(backend_->TopK(logits, k, absl::MakeSpan(values), absl::MakeSpan(top)));
      if (!status.ok()) return status;
      for (int64_t t = 0; t < count; ++t) {
        const bool has_next = t < static_cast<int64_t>(next_logprobs.size());
        *seen.add_positions() =
            LensPositionOf(absl::MakeConstSpan(values).subspan(t * k, k),
                           absl::MakeConstSpan(top).subspan(t * k, k),
                           has_next ? std::optional<float>(next_logprobs[t]) : std::nullopt);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace sluice
