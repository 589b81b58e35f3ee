#include "services/model/model_families.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/model/family_fields.h"

namespace sluice {
namespace {

// ---- Llama, and families whose files are called alike ----

constexpr TensorNames kLlamaNames = {
    .embedding = "model.embed_tokens",
    .positions = "model.embed_positions",
    .final_norm = "model.norm",
    .head = "lm_head",
    .layer = "model.layers.$0.",
    .attention_norm = "input_layernorm",
    .q = "self_attn.q_proj",
    .k = "self_attn.k_proj",
    .v = "self_attn.v_proj",
    .q_norm = "self_attn.q_norm",
    .k_norm = "self_attn.k_norm",
    .o = "self_attn.o_proj",
    .mlp_norm = "post_attention_layernorm",
    .gate = "mlp.gate_proj",
    .up = "mlp.up_proj",
    .down = "mlp.down_proj",
};

// Everything but biases and windows. `head_dim` as in MapSizes.
void MapLlamaLike(JsonFields& fields, ModelConfig& config, int head_dim = 0) {
  MapSizes(fields, config, head_dim);
  MapRmsNorm(fields, {"rms_norm_eps"}, 1e-6, config);
  config.activation = ReadActivation(fields, "hidden_act", Activation::kSilu);
  config.tied_embeddings = ReadBool(fields, "tie_word_embeddings", false);
}

void MapLlama(JsonFields& fields, ModelConfig& config) {
  MapLlamaLike(fields, config);
  config.qkv_bias = config.o_bias = ReadBool(fields, "attention_bias", false);
  config.mlp_bias = ReadBool(fields, "mlp_bias", false);
}

void MapMistral(JsonFields& fields, ModelConfig& config) {
  MapLlamaLike(fields, config);
  MapWindow(fields, 4096, config);
}

void MapQwen2(JsonFields& fields, ModelConfig& config) {
  MapLlamaLike(fields, config);
  MapWindowOfSomeLayers(fields, config);
  config.qkv_bias = true;
}

void MapQwen3(JsonFields& fields, ModelConfig& config) {
  MapLlamaLike(fields, config, /*head_dim=*/128);
  MapWindowOfSomeLayers(fields, config);
  config.qkv_bias = config.o_bias = ReadBool(fields, "attention_bias", false);
  config.qk_norm = true;
}

void MapGemma(JsonFields& fields, ModelConfig& config) {
  MapLlamaLike(fields, config, /*head_dim=*/256);
  // Its files' hidden_act is what the first ones said by mistake.
  config.activation = ReadActivation(fields, "hidden_activation", Activation::kGeluTanh);
  config.qkv_bias = config.o_bias = ReadBool(fields, "attention_bias", false);
  config.tied_embeddings = ReadBool(fields, "tie_word_embeddings", true);
  config.norm_weight_offset = 1;
  config.embedding_scale = static_cast<float>(std::sqrt(double{1} * config.hidden_size));
}

// ---- Phi-3: Llama with fused projections ----

constexpr TensorNames kPhi3Names = [] {
  TensorNames names = kLlamaNames;
  names.q = names.k = names.v = "self_attn.qkv_proj";
  names.gate = names.up = "mlp.gate_up_proj";
  names.qkv = names.gate_up = Fusion::kStacked;
  return names;
}();

void MapPhi3(JsonFields& fields, ModelConfig& config) {
  MapSizes(fields, config);
  MapRmsNorm(fields, {"rms_norm_eps"}, 1e-5, config);
  MapWindow(fields, 0, config);
  config.activation = ReadActivation(fields, "hidden_act", Activation::kSilu);
  config.tied_embeddings = ReadBool(fields, "tie_word_embeddings", false);
}

// ---- GPT-2 ----

constexpr TensorNames kGpt2Names = {
    .embedding = "transformer.wte",
    .positions = "transformer.wpe",
    .final_norm = "transformer.ln_f",
    .head = "lm_head",
    .layer = "transformer.h.$0.",
    .attention_norm = "ln_1",
    .q = "attn.c_attn",
    .k = "attn.c_attn",
    .v = "attn.c_attn",
    .o = "attn.c_proj",
    .mlp_norm = "ln_2",
    .up = "mlp.c_fc",
    .down = "mlp.c_proj",
    .qkv = Fusion::kStacked,
    .transposed = true,
    .optional_prefix = "transformer.",
};

void MapGpt2Sizes(JsonFields& fields, ModelConfig& config) {
  config.vocab_size = fields.Int("vocab_size", 1, kMaxVocabSize);
  config.hidden_size = fields.Int("n_embd", 1, kMaxWidth / 4);
  config.intermediate_size =
      fields.OptionalInt("n_inner", 1, kMaxWidth).value_or(4 * config.hidden_size);
  config.num_layers = fields.Int("n_layer", 1, kMaxLayers);
  config.max_positions = fields.Int("n_positions", 1, kMaxPositions);
  config.num_heads = config.num_kv_heads = fields.Int("n_head", 1, kMaxHeads);
  if (config.hidden_size % config.num_heads != 0) {
    fields.Reject("n_embd", absl::StrCat("a multiple of n_head, ", config.num_heads));
  }
  config.head_dim = config.hidden_size / config.num_heads;
  CheckSizes(fields, config);
}

void MapGpt2(JsonFields& fields, ModelConfig& config) {
  MapGpt2Sizes(fields, config);
  MapLayerNorm(fields, {"layer_norm_epsilon"}, 1e-5, config);
  config.activation = ReadActivation(fields, "activation_function", Activation::kGeluTanh);
  config.gated_mlp = false;
  config.position = PositionKind::kLearned;
  config.qkv_bias = config.o_bias = config.mlp_bias = true;
  config.tied_embeddings = ReadBool(fields, "tie_word_embeddings", true);
  if (!ReadBool(fields, "scale_attn_weights", true)) config.attention_scale = 1;
  config.scale_by_layer = ReadBool(fields, "scale_attn_by_inverse_layer_idx", false);
}

// ---- GPT-NeoX ----

constexpr TensorNames kGptNeoxNames = {
    .embedding = "gpt_neox.embed_in",
    .final_norm = "gpt_neox.final_layer_norm",
    .head = "embed_out",
    .layer = "gpt_neox.layers.$0.",
    .attention_norm = "input_layernorm",
    .q = "attention.query_key_value",
    .k = "attention.query_key_value",
    .v = "attention.query_key_value",
    .o = "attention.dense",
    .mlp_norm = "post_attention_layernorm",
    .up = "mlp.dense_h_to_4h",
    .down = "mlp.dense_4h_to_h",
    .qkv = Fusion::kByHead,
};

void MapGptNeox(JsonFields& fields, ModelConfig& config) {
  MapSizes(fields, config);
  if (config.num_kv_heads != config.num_heads) {
    fields.Reject("num_key_value_heads", "none: every head has keys and values of its own");
  }
  MapLayerNorm(fields, {"layer_norm_eps"}, 1e-5, config);
  config.activation = ReadActivation(fields, "hidden_act", Activation::kGelu);
  config.gated_mlp = false;
  config.parallel_residual = ReadBool(fields, "use_parallel_residual", true);
  config.qkv_bias = config.o_bias = ReadBool(fields, "attention_bias", true);
  config.mlp_bias = true;
  config.tied_embeddings = ReadBool(fields, "tie_word_embeddings", false);
}

// ---- The textbook family: every switch by name, tensors called as Llama's ----

template <typename Value, size_t kCount>
Value ReadChoice(JsonFields& fields, const char* name,
                 const std::pair<const char*, Value> (&choices)[kCount], Value otherwise) {
  if (!fields.Has(name)) return otherwise;
  const std::string given = fields.String(name).value_or("");
  for (const auto& [choice, value] : choices) {
    if (given == choice) return value;
  }
  fields.Reject(name, absl::StrJoin(choices, ", ", [](std::string* out, const auto& choice) {
                  absl::StrAppend(out, "\"", choice.first, "\"");
                }));
  return otherwise;
}

void MapSluiceDecoder(JsonFields& fields, ModelConfig& config) {
  constexpr std::pair<const char*, PositionKind> kPositions[] = {
      {"rope_interleaved", PositionKind::kRopeInterleaved},
      {"rope_half", PositionKind::kRopeHalfSplit},
      {"learned", PositionKind::kLearned},
      {"sinusoidal", PositionKind::kSinusoidal},
      {"none", PositionKind::kNone}};
  constexpr std::pair<const char*, NormKind> kNorms[] = {{"rmsnorm", NormKind::kRmsNorm},
                                                         {"layernorm", NormKind::kLayerNorm}};
  constexpr std::pair<const char*, Activation> kMlps[] = {
      {"relu", Activation::kRelu}, {"gelu", Activation::kGelu}, {"swiglu", Activation::kSilu}};
  MapSizes(fields, config);
  MapRmsNorm(fields, {"norm_eps", "rms_norm_eps", "layer_norm_eps"}, 1e-5, config);
  config.position = ReadChoice(fields, "position", kPositions, PositionKind::kRopeHalfSplit);
  config.norm = ReadChoice(fields, "norm", kNorms, NormKind::kRmsNorm);
  config.activation = ReadChoice(fields, "mlp", kMlps, Activation::kSilu);
  config.gated_mlp = config.activation == Activation::kSilu;
  const bool with_bias = ReadBool(fields, "with_bias", false);
  config.qkv_bias = config.o_bias = config.mlp_bias = with_bias;
  config.norm_bias = with_bias && config.norm == NormKind::kLayerNorm;
  config.tied_embeddings = ReadBool(fields, "tie_word_embeddings", false);
}

constexpr ModelFamily kFamilies[] = {
    {"llama", MapLlama, &kLlamaNames, {}},
    {"mistral", MapMistral, &kLlamaNames, {}},
    {"qwen2", MapQwen2, &kLlamaNames, {}},
    {"qwen3", MapQwen3, &kLlamaNames, {}},
    {"gemma", MapGemma, &kLlamaNames, {}},
    {"phi3", MapPhi3, &kPhi3Names, {.original_positions = 4096, .every_list_long = true}},
    {"gpt2", MapGpt2, &kGpt2Names, {}},
    {"gpt_neox", MapGptNeox, &kGptNeoxNames, {.turned_fraction = 0.25}},
    {"sluice_decoder", MapSluiceDecoder, &kLlamaNames, {}},
};

}  // namespace

const ModelFamily* FindModelFamily(const std::string& model_type) {
  for (const ModelFamily& family : kFamilies) {
    if (family.model_type == model_type) return &family;
  }
  return nullptr;
}

std::string KnownModelTypes() {
  return absl::StrJoin(kFamilies, ", ", [](std::string* out, const ModelFamily& family) {
    absl::StrAppend(out, "\"", family.model_type, "\"");
  });
}

}  // namespace sluice
