#include "tests/services/model/random_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "services/model/model_families.h"

namespace sluice::testing {
namespace {

using ::nlohmann::json;

class Dice {
 public:
  explicit Dice(uint32_t seed) : random_(seed) {}

  int Between(int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random_);
  }
  double Number(double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random_);
  }
  bool Chance() { return Between(0, 1) == 1; }
  template <typename Value>
  Value OneOf(const std::vector<Value>& values) {
    return values[Between(0, static_cast<int>(values.size()) - 1)];
  }
  std::string Word(const std::vector<std::string>& words) { return OneOf(words); }

 private:
  std::mt19937 random_;
};

struct Sizes {
  int heads = 0, kv_heads = 0, head_dim = 0, hidden = 0, mlp = 0, layers = 0, vocab = 0;
};

bool IsLatent(const std::string& model_type) {
  return absl::StartsWith(model_type, "deepseek") || model_type == "kimi_k2" ||
         model_type == "glm4_moe_lite";
}

bool IsRecurrent(const std::string& model_type) {
  return absl::StartsWith(model_type, "qwen3_next") || absl::StartsWith(model_type, "qwen3_5") ||
         model_type == "granitemoehybrid" || model_type == "nemotron_h";
}

bool IsMixture(const std::string& model_type) {
  return absl::StrContains(model_type, "moe") || model_type == "mixtral" ||
         model_type == "gpt_oss" || model_type == "qwen3_next" || model_type == "nemotron_h" ||
         model_type == "llama4_text" || model_type == "gemma4_text" || IsLatent(model_type);
}

// Attention's outputs are cut into runs of whole heads, the MLP's into eighths at most.
Sizes RandomSizes(const RandomModelOptions& options, Dice& dice) {
  const auto in_groups = [&] { return options.all_in_groups || dice.Chance(); };
  const bool as_wide_as_heads = options.model_type == "gpt2";
  const int widest = as_wide_as_heads ? 256 : 384;
  Sizes sizes;
  sizes.head_dim =
      in_groups() ? dice.OneOf<int>({32, 32, 64}) : dice.OneOf<int>({16, 20, 24, 40, 48});
  do {
    sizes.heads = dice.OneOf<int>({4, 4, 8, 12});
  } while (sizes.heads * sizes.head_dim > widest);
  sizes.kv_heads = dice.OneOf<int>({1, 2, 4, sizes.heads});
  sizes.hidden = in_groups() ? 32 * dice.Between(2, 4) : 2 * dice.Between(24, 60);
  sizes.mlp = in_groups() ? 256 : 4 * dice.Between(15, 60);
  // Experts of whole groups have at most as many runs as there are groups.
  if (IsMixture(options.model_type) && sizes.mlp != 256) sizes.mlp = sizes.mlp / 8 * 8 + 4;
  sizes.layers = dice.Between(2, 3);
  sizes.vocab = dice.Between(40, 150);
  if (as_wide_as_heads) sizes.hidden = sizes.heads * sizes.head_dim;
  if (as_wide_as_heads || options.model_type == "gpt_neox") {
    sizes.kv_heads = sizes.heads;
  }
  return sizes;
}

// Of the fractions of a head that files have, one that turns whole pairs, two or more.
double RandomFraction(int head_dim, Dice& dice) {
  double fraction = 0;
  do {
    fraction = dice.OneOf<double>({0.25, 0.5, 1, 1});
  } while (static_cast<int>(head_dim * fraction) % 4 != 0);
  return fraction;
}

// Lengths on both sides of the original one, where there is one, are within reach.
json RandomScaling(int pairs, Dice& dice) {
  const auto divisors = [&] {
    json list;
    for (int i = 0; i < pairs; ++i) list.push_back(dice.Number(1, 8));
    return list;
  };
  json scaling = {
      {"factor", dice.Number(2, 8)}, {"original_max_position_embeddings", dice.Between(50, 500)},
      {"low_freq_factor", 1},        {"high_freq_factor", 4},
      {"short_factor", divisors()},  {"long_factor", divisors()}};
  scaling["rope_type"] =
      dice.Word({"default", "linear", "ntk", "dynamic", "yarn", "llama3", "longrope"});
  return scaling;
}

void AddSizes(const Sizes& sizes, json& config) {
  config.update({{"vocab_size", sizes.vocab},
                 {"hidden_size", sizes.hidden},
                 {"intermediate_size", sizes.mlp},
                 {"num_hidden_layers", sizes.layers},
                 {"num_attention_heads", sizes.heads},
                 {"num_key_value_heads", sizes.kv_heads},
                 {"head_dim", sizes.head_dim},
                 {"max_position_embeddings", kRandomModelPositions}});
  // As GPT-2 calls them.
  config.update({{"n_embd", sizes.hidden},
                 {"n_inner", sizes.mlp},
                 {"n_layer", sizes.layers},
                 {"n_head", sizes.heads},
                 {"n_positions", kRandomModelPositions}});
}

// As families with latent attention call them. The first layer is dense.
void AddLatentSizes(const RandomModelOptions& options, const Sizes& sizes, Dice& dice,
                    json& config) {
  const bool in_groups = options.all_in_groups || dice.Chance();
  config.update({{"kv_lora_rank", 2 * dice.Between(8, 40)},
                 {"qk_nope_head_dim", dice.Between(5, 40)},
                 {"qk_rope_head_dim", sizes.head_dim},
                 {"v_head_dim", sizes.head_dim},
                 {"first_k_dense_replace", 1},
                 {"rope_interleave", dice.Chance()}});
  if (options.model_type == "deepseek_v2") config["norm_topk_prob"] = false;
  config["q_lora_rank"] = dice.Chance() ? json(in_groups ? 64 : 2 * dice.Between(10, 40)) : json();
}

void AddSwitches(Dice& dice, json& config) {
  for (const char* name :
       {"attention_bias", "mlp_bias", "tie_word_embeddings", "use_sliding_window",
        "scale_attn_weights", "scale_attn_by_inverse_layer_idx", "use_parallel_residual",
        "with_bias", "use_bias", "bias", "use_qkv_bias", "qk_layernorm", "use_qk_norm"}) {
    config[name] = dice.Chance();
  }
  for (const char* name : {"hidden_act", "hidden_activation", "activation_function"}) {
    config[name] = dice.Word({"silu", "gelu", "gelu_new", "relu"});
  }
  config["sliding_window"] = dice.Between(1, 100);
  config["max_window_layers"] = dice.Between(0, 1);
  config["no_rope_layer_interval"] = config["sliding_window_pattern"] = 2;
  for (const char* name : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    config[name] = dice.Number(1, 50);
  }
  for (const char* name : {"residual_multiplier", "embedding_multiplier", "scale_depth"}) {
    config[name] = dice.Number(0.5, 2);
  }
  config["attention_multiplier"] = dice.Number(0.05, 0.3);
  config["position"] =
      dice.Word({"rope_interleaved", "rope_half", "learned", "sinusoidal", "none"});
  config["norm"] = dice.Word({"rmsnorm", "layernorm"});
  config["mlp"] = dice.Word({"relu", "gelu", "swiglu"});
}

// Mixtures of experts, under the names of all families.
void AddMixture(const Sizes& sizes, Dice& dice, json& config) {
  for (const char* name :
       {"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"}) {
    config[name] = 4;
  }
  for (const char* name : {"num_experts_per_tok", "moe_k"}) config[name] = dice.Between(1, 2);
  for (const char* name : {"moe_intermediate_size", "intermediate_size_mlp"}) {
    config[name] = sizes.mlp;
  }
  config["shared_expert_intermediate_size"] = config["shared_intermediate_size"] = 2 * sizes.mlp;
  config["n_group"] = 2;
  config["topk_group"] = 1;
  config["norm_topk_prob"] = dice.Chance();
  config["routed_scaling_factor"] = dice.Number(0.5, 2);
  config["decoder_sparse_step"] = config["interleave_moe_layer_step"] = dice.Between(1, 2);
  config["attention_chunk_size"] = dice.Between(1, 100);
  config["floor_scale"] = 64;
  config["clip_qkv"] = dice.Number(1, 4);
  config["swiglu_limit"] = dice.Number(0.5, 7);
  if (IsMixture(config["model_type"].get<std::string>())) config["use_bias"] = false;
}

// Layers with states in place of keys and values beside others, under the names of all families.
void AddRecurrent(const Sizes& sizes, Dice& dice, json& config) {
  const int heads = dice.OneOf<int>({4, 8}), key_heads = dice.OneOf<int>({1, 2, 4});
  const int value_dim = dice.OneOf<int>({8, 20, 32}), key_dim = dice.OneOf<int>({8, 18, 32});
  for (const char* name : {"linear_num_value_heads", "mamba_n_heads", "mamba_num_heads"}) {
    config[name] = heads;
  }
  config["linear_num_key_heads"] = config["mamba_n_groups"] = key_heads;
  config["n_groups"] = dice.OneOf<int>({1, 4});
  for (const char* name : {"linear_key_head_dim", "mamba_d_state", "ssm_state_size"}) {
    config[name] = key_dim;
  }
  for (const char* name : {"linear_value_head_dim", "mamba_d_head", "mamba_head_dim"}) {
    config[name] = value_dim;
  }
  for (const char* name : {"linear_conv_kernel_dim", "mamba_d_conv", "conv_kernel"}) {
    config[name] = dice.Between(2, 4);
  }
  for (const char* name : {"mamba_conv_bias", "use_conv_bias"}) config[name] = dice.Chance();
  for (const char* name : {"attention_bias", "mlp_bias", "use_bias", "mamba_proj_bias"}) {
    config[name] = false;
  }
  config["full_attention_interval"] = 2;
  config["position_embedding_type"] = dice.Word({"rope", "nope"});
  const bool rotates = config["model_type"] == "granitemoehybrid"
                           ? config["position_embedding_type"] == "rope"
                           : config["model_type"] != "nemotron_h";
  if (!rotates) config["position"] = "none";
  if (config["model_type"] == "granitemoehybrid") {
    config["layer_types"] = json::array();
    for (int layer = 0; layer < sizes.layers; ++layer) {
      config["layer_types"].push_back(layer == 1 ? "attention" : "mamba");
    }
  }
  if (config["model_type"] == "nemotron_h") {
    config["moe_shared_expert_intermediate_size"] = 2 * sizes.mlp;
    config["num_hidden_layers"] = 6;
    config["hybrid_override_pattern"] = dice.Word({"M-*EM-", "*M-EMM", "EM*-M*"});
  }
}

// Gemma 4's fields: heads of two sizes, shared keys and values, embeddings for each layer or experts
// beside an MLP.
void AddGemma4(const RandomModelOptions& options, const Sizes& sizes, Dice& dice, json& config) {
  const bool has_experts = dice.Chance();
  config.update({{"global_head_dim", dice.Chance() ? sizes.head_dim : 2 * sizes.head_dim},
                 {"attention_k_eq_v", dice.Chance()},
                 {"num_global_key_value_heads", dice.Chance() ? json(1) : json()},
                 {"num_kv_shared_layers", sizes.layers > 2 && dice.Chance() ? 1 : 0},
                 {"use_double_wide_mlp", dice.Chance()},
                 {"hidden_size_per_layer_input", options.all_in_groups || dice.Chance() ? 32 : 20},
                 {"enable_moe_block", has_experts},
                 {"num_experts", 4},
                 {"top_k_experts", dice.Between(1, 2)},
                 {"moe_intermediate_size", sizes.mlp}});
  if (has_experts && dice.Chance()) config["hidden_size_per_layer_input"] = 0;
}

// Normal numbers as they are stored.
std::vector<std::byte> RandomElements(size_t count, double mean, double deviation, DType dtype,
                                      std::mt19937& random) {
  std::normal_distribution<float> normal(static_cast<float>(mean), static_cast<float>(deviation));
  std::vector<std::byte> bytes(count * SizeOf(dtype));
  for (size_t i = 0; i < count; ++i) {
    const float value = normal(random);
    const uint16_t rounded = BFloat16FromFloat(value);
    const void* from = dtype == DType::kF32 ? static_cast<const void*>(&value) : &rounded;
    std::memcpy(&bytes[i * SizeOf(dtype)], from, SizeOf(dtype));
  }
  return bytes;
}

OwnedTensor RandomTensor(const TensorPlace& place, const ModelConfig& config, DType dtype,
                         std::mt19937& random) {
  const auto count = static_cast<size_t>(place.stored.size());
  const auto columns = static_cast<double>(place.stored.columns);
  const bool is_factor =
      absl::EndsWith(place.name, "scale") || absl::EndsWith(place.name, "scalar");
  double mean = place.is_norm_weight ? 1 - config.norm_weight_offset : is_factor ? 1 : 0;
  // Or states would have forgotten what was 64 positions ago.
  if (absl::EndsWith(place.name, "A_log")) mean = -4;
  const double deviation = columns == 1 ? 0.2 : 1.5 / std::sqrt(columns);
  return {place.name, dtype, StoredShape(place),
          RandomElements(count, mean, deviation, dtype, random)};
}

constexpr absl::string_view kEncoders[] = {"bert", "roberta", "xlm-roberta", "distilbert",
                                           "modernbert"};

bool IsEncoder(const std::string& type) {
  return std::find(std::begin(kEncoders), std::end(kEncoders), type) != std::end(kEncoders);
}

constexpr const char* kEncoderDecoders[] = {"t5", "mt5", "bart", "mbart", "marian"};

bool IsEncoderDecoder(const std::string& type) {
  return std::find(std::begin(kEncoderDecoders), std::end(kEncoderDecoders), type) !=
         std::end(kEncoderDecoders);
}

}  // namespace

std::vector<std::string> ModelTypes() {
  auto types = json::parse("[" + KnownModelTypes() + "]").get<std::vector<std::string>>();
  std::erase_if(types, IsEncoder);
  std::erase_if(types, IsEncoderDecoder);
  return types;
}

std::string RandomModelConfig(const RandomModelOptions& options) {
  Dice dice(options.seed);
  const Sizes sizes = RandomSizes(options, dice);
  const double fraction = RandomFraction(sizes.head_dim, dice);
  json config = {{"model_type", options.model_type}, {"partial_rotary_factor", fraction}};
  AddSwitches(dice, config);
  json scaling = RandomScaling(static_cast<int>(sizes.head_dim * fraction) / 2, dice);
  AddSizes(sizes, config);
  config["logit_scale"] = 0.75;  // Cohere's is a sixteenth, and MiniCPM's a division by the width
  config["dim_model_base"] = sizes.hidden / 2;
  if (IsMixture(options.model_type)) AddMixture(sizes, dice, config);
  if (IsRecurrent(options.model_type)) AddRecurrent(sizes, dice, config);
  if (IsLatent(options.model_type)) AddLatentSizes(options, sizes, dice, config);
  if (options.model_type == "gemma4_text") {
    AddGemma4(options, sizes, dice, config);
    scaling = {{"rope_type", "proportional"}, {"partial_rotary_factor", fraction}};
  }
  // This kind begins at the very length that the file names, and only rotary positions go beyond.
  if (scaling["rope_type"] == "dynamic" && config["position"].get<std::string>()[0] == 'r') {
    config["max_position_embeddings"] = kRandomModelPositions / 2;
    scaling["factor"] = 2;
  }
  config["rope_scaling"] = scaling;
  return config.dump(2);
}

ModelConfig WriteRandomModel(const RandomModelOptions& options, const TempFolder& folder) {
  folder.Write("config.json", RandomModelConfig(options));
  const auto config = LoadModelConfig(folder.path());
  SLUICE_CHECK(config.ok());
  std::mt19937 random(options.seed);
  std::vector<OwnedTensor> tensors;
  for (const TensorPlace& place : StoredTensors(*config)) {
    tensors.push_back(RandomTensor(place, *config, options.stored, random));
  }
  folder.Write("model.safetensors", SafetensorsBytes(tensors));
  return *config;
}

}  // namespace sluice::testing
