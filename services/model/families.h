// How each family's config.json maps onto ModelConfig, and what its tensors are called: a function
// and a table for each, by kind in family_*.cc, for the table of families in model_families.cc. The
// functions are ModelFamily::map: they read `fields`, fill in `config` and report errors to
// `fields`.
#pragma once

#include "services/model/json_fields.h"
#include "services/model/model_config.h"
#include "services/model/tensor_names.h"

namespace sluice {

// ---- family_llama.cc: Llama, and families with its block and its names ----

inline constexpr TensorNames kLlamaNames = {
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
    .optional_prefix = "model.",
};

// Everything but biases and windows; the layer is for SetLayers. `head_dim` as in MapSizes.
LayerSpec MapLlamaLike(JsonFields& fields, ModelConfig& config, int head_dim = 0);

void MapLlama(JsonFields& fields, ModelConfig& config);
void MapMistral(JsonFields& fields, ModelConfig& config);
void MapQwen2(JsonFields& fields, ModelConfig& config);
void MapQwen3(JsonFields& fields, ModelConfig& config);
void MapSmolLm3(JsonFields& fields, ModelConfig& config);
void MapMinistral(JsonFields& fields, ModelConfig& config);
void MapMinistral3(JsonFields& fields, ModelConfig& config);
void MapErnie(JsonFields& fields, ModelConfig& config);
void MapGranite(JsonFields& fields, ModelConfig& config);
void MapMiniCpm(JsonFields& fields, ModelConfig& config);
extern const TensorNames kInternLm2Names;
void MapInternLm2(JsonFields& fields, ModelConfig& config);

// ---- family_olmo.cc: norms of what branches add, and of all heads at once ----

extern const TensorNames kOlmoNames;
void MapOlmo2(JsonFields& fields, ModelConfig& config);
void MapOlmo3(JsonFields& fields, ModelConfig& config);

// ---- family_glm.cc: half of a head rotated, in neighbouring pairs ----

extern const TensorNames kGlmNames;
void MapGlm(JsonFields& fields, ModelConfig& config);
extern const TensorNames kGlm4Names;
void MapGlm4(JsonFields& fields, ModelConfig& config);

// ---- family_cohere.cc: one LayerNorm without bias for two parallel branches ----

void MapCohere(JsonFields& fields, ModelConfig& config);
void MapCohere2(JsonFields& fields, ModelConfig& config);

// ---- family_layer_norm.cc: LayerNorms with biases ----

extern const TensorNames kStarCoder2Names;
void MapStarCoder2(JsonFields& fields, ModelConfig& config);
extern const TensorNames kStableLmNames;
void MapStableLm(JsonFields& fields, ModelConfig& config);

// ---- family_phi.cc ----

extern const TensorNames kPhiNames;
void MapPhi(JsonFields& fields, ModelConfig& config);
extern const TensorNames kPhi3Names;
void MapPhi3(JsonFields& fields, ModelConfig& config);

// ---- mixture_families.cc: mixtures of experts ----

extern const TensorNames kMixtralNames;
void MapMixtral(JsonFields& fields, ModelConfig& config);
extern const TensorNames kQwenMoeNames;
void MapQwen2Moe(JsonFields& fields, ModelConfig& config);
void MapQwen3Moe(JsonFields& fields, ModelConfig& config);
extern const TensorNames kErnieMoeNames;
void MapErnieMoe(JsonFields& fields, ModelConfig& config);
extern const TensorNames kDeepseekMoeNames;
void MapGlm4Moe(JsonFields& fields, ModelConfig& config);
extern const TensorNames kGptOssNames;
void MapGptOss(JsonFields& fields, ModelConfig& config);
void MapOlmoe(JsonFields& fields, ModelConfig& config);
extern const TensorNames kLlama4Names;
void MapLlama4(JsonFields& fields, ModelConfig& config);

extern const TensorNames kGraniteMoeNames;
void MapGraniteMoe(JsonFields& fields, ModelConfig& config);

// Gives every decoder_sparse_step-th layer the mixture, but for those that mlp_only_layers names.
void SetQwenMixtures(JsonFields& fields, const MixtureSpec& mixture, ModelConfig& config);

// The mixtures that DeepSeek-V2, V3 and families after them describe: groups, a bias of the choice, a
// factor, shared experts and dense first layers. Replaces the dense MLP of the layers that have one.
// REQUIRES: SetLayers.
void MapDeepseekMixtures(JsonFields& fields, ModelConfig& config);

// ---- family_latent.cc: latent attention ----

extern const TensorNames kDeepSeekNames;
void MapDeepSeek(JsonFields& fields, ModelConfig& config);  // V2 and V3, Kimi K2
void MapGlm4MoeLite(JsonFields& fields, ModelConfig& config);

// ---- recurrent_families.cc: layers with states in place of keys and values ----

extern const TensorNames kQwen3NextNames;
void MapQwen3Next(JsonFields& fields, ModelConfig& config);
extern const TensorNames kQwen35Names;  // and of Qwen3.6
void MapQwen35(JsonFields& fields, ModelConfig& config);
extern const TensorNames kQwen35MoeNames;
void MapQwen35Moe(JsonFields& fields, ModelConfig& config);
extern const TensorNames kGranite4Names;
void MapGranite4(JsonFields& fields, ModelConfig& config);
extern const TensorNames kNemotronNames;
void MapNemotronH(JsonFields& fields, ModelConfig& config);

// ---- family_gemma.cc ----

void MapGemma(JsonFields& fields, ModelConfig& config);
extern const TensorNames kGemma2Names;
void MapGemma2(JsonFields& fields, ModelConfig& config);
void MapGemma3(JsonFields& fields, ModelConfig& config);
extern const TensorNames kGemma4Names;
void MapGemma4(JsonFields& fields, ModelConfig& config);

// ---- family_gpt.cc ----

extern const TensorNames kGpt2Names;
void MapGpt2(JsonFields& fields, ModelConfig& config);
extern const TensorNames kGptNeoxNames;
void MapGptNeox(JsonFields& fields, ModelConfig& config);

// ---- family_encoder.cc: encoders ----

extern const TensorNames kBertNames;
void MapBert(JsonFields& fields, ModelConfig& config);
extern const TensorNames kRobertaNames;  // and of XLM-R
void MapRoberta(JsonFields& fields, ModelConfig& config);
extern const TensorNames kDistilBertNames;
void MapDistilBert(JsonFields& fields, ModelConfig& config);
extern const TensorNames kModernBertNames;
void MapModernBert(JsonFields& fields, ModelConfig& config);

// ---- family_seq2seq.cc: encoder-decoders ----

extern const TensorNames kT5Names;
void MapT5(JsonFields& fields, ModelConfig& config);  // and mT5
extern const TensorNames kBartNames;
void MapBart(JsonFields& fields, ModelConfig& config);
void MapMbart(JsonFields& fields, ModelConfig& config);
void MapMarian(JsonFields& fields, ModelConfig& config);

// ---- family_textbook.cc: every switch by name, tensors called as Llama's ----

void MapSluiceDecoder(JsonFields& fields, ModelConfig& config);

}  // namespace sluice
