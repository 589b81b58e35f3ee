// Fuzzes the reading of config.json and generation_config.json, separated by a zero byte: the
// answer is a status or a configuration that every later computation may rely on.
#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/check.h"
#include "services/model/model_config.h"
#include "services/model/shard_plan.h"
#include "services/model/weight_rule.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const size_t end = text.find('\0');
  const std::string generation = end == text.npos ? "" : text.substr(end + 1);
  const auto config = sluice::ParseModelConfig(text.substr(0, end), generation, "fuzzed");
  if (!config.ok()) return 0;
  SLUICE_CHECK(config->num_heads % config->num_kv_heads == 0);
  SLUICE_CHECK(config->query_width(0) > 0 && config->norm_eps > 0);
  SLUICE_CHECK(!config->layers.empty());
  for (const sluice::LayerSpec& layer : config->layers) {
    const sluice::AttentionSpec& attention = layer.attention;
    SLUICE_CHECK(attention.scale > 0 && attention.window >= 0);
    SLUICE_CHECK(attention.rope.value_or(0) >= 0);
    SLUICE_CHECK(attention.rope.value_or(-1) < static_cast<int>(config->ropes.size()));
    SLUICE_CHECK(sluice::DenseMlpOf(layer).width >= 1);
  }
  for (const sluice::RopeConfig& rope : config->ropes) {
    SLUICE_CHECK(rope.dim >= 2 && rope.dim % 2 == 0 && rope.factor >= 1);
    SLUICE_CHECK(rope.dim <= config->head_dim && rope.attention_factor > 0);
  }
  SLUICE_CHECK(sluice::MakeShardPlan(*config, {}).ok());
  if (config->quantization.has_value()) {
    const sluice::WeightFormat format = config->quantization->format;
    SLUICE_CHECK(config->quantization->published || sluice::IsQuantized(format));
    SLUICE_CHECK(config->quantization->published ||
                 config->quantization->checkpoint_id.size() == 16);
    for (const sluice::TensorId tensor : sluice::TensorsOfLayer(0, *config)) {
      if (!sluice::IsQuantized(sluice::FormatOf(tensor, *config, format))) continue;
      SLUICE_CHECK(sluice::ShapeOf(tensor, *config).columns % sluice::kWeightGroup == 0);
    }
  }
  return 0;
}
