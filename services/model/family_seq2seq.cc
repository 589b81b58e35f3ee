// Encoder-decoders: the layers of a source, then those of what is written, which attend to it.
#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "services/model/families.h"
#include "services/model/family_fields.h"

namespace sluice {
namespace {

void SetSource(int num_layers, int max_positions, ModelConfig& config) {
  config.source = SourceSpec{
      .num_layers = num_layers, .max_positions = max_positions, .max_written = max_positions};
  config.max_positions = static_cast<int>(SourceSpec::Filled(max_positions)) + max_positions;
}

// The layers of both sides, which differ in what they read and in the width of their MLPs.
void SetBothSides(const LayerSpec& layer, int num_source, int num_text, ModelConfig& config) {
  config.layers.resize(num_source + num_text);
  SetLayers(layer, config);
  for (int index = 0; index < config.num_layers(); ++index) {
    LayerSpec& each = config.layers[index];
    each.reads = index < num_source ? LayerSpec::Reads::kSource : LayerSpec::Reads::kTextAndSource;
    each.attention.ahead = index < num_source ? kAllAhead : 0;
  }
}

}  // namespace

// ---- T5, flan-T5, mT5: relative positions alone, RMS norms, no biases ----

namespace {

constexpr TensorNames kT5SourceNames = {
    .layer = "encoder.block.$0.",
    .attention_norm = "layer.0.layer_norm",
    .q = "layer.0.SelfAttention.q",
    .k = "layer.0.SelfAttention.k",
    .v = "layer.0.SelfAttention.v",
    .o = "layer.0.SelfAttention.o",
    .mlp_norm = "layer.1.layer_norm",
    .gate = "layer.1.DenseReluDense.wi_0",
    .up = "layer.1.DenseReluDense.wi_1",
    .down = "layer.1.DenseReluDense.wo",
    .up_alone = "layer.1.DenseReluDense.wi",
    .relative_bias = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias",
    .leaving_norm = "encoder.final_layer_norm",
};

}  // namespace

constinit const TensorNames kT5Names = {
    .embedding = "shared",
    .final_norm = "decoder.final_layer_norm",
    .head = "lm_head",
    .source_layers = &kT5SourceNames,
    .layer = "decoder.block.$0.",
    .attention_norm = "layer.0.layer_norm",
    .q = "layer.0.SelfAttention.q",
    .k = "layer.0.SelfAttention.k",
    .v = "layer.0.SelfAttention.v",
    .o = "layer.0.SelfAttention.o",
    .mlp_norm = "layer.2.layer_norm",
    .gate = "layer.2.DenseReluDense.wi_0",
    .up = "layer.2.DenseReluDense.wi_1",
    .down = "layer.2.DenseReluDense.wo",
    .up_alone = "layer.2.DenseReluDense.wi",
    .cross_norm = "layer.1.layer_norm",
    .cross_q = "layer.1.EncDecAttention.q",
    .cross_k = "layer.1.EncDecAttention.k",
    .cross_v = "layer.1.EncDecAttention.v",
    .cross_o = "layer.1.EncDecAttention.o",
    .relative_bias = "decoder.block.0.layer.0.SelfAttention.relative_attention_bias",
};

namespace {

// "relu", "gelu" (by erf), ...; after "gated-" one that has a gate, where "gelu" is by tanh.
void MapFeedForward(JsonFields& fields, DenseMlpSpec& mlp) {
  const std::string text = fields.String("feed_forward_proj").value_or("relu");
  absl::string_view name = text;
  mlp.gated = absl::ConsumePrefix(&name, "gated-");
  if (name == "relu") {
    mlp.activation = Activation::kRelu;
  } else if (name == "gelu") {
    mlp.activation = mlp.gated ? Activation::kGeluTanh : Activation::kGelu;
  } else if (name == "gelu_new") {
    mlp.activation = Activation::kGeluTanh;
  } else if (name == "silu") {
    mlp.activation = Activation::kSilu;
  } else {
    fields.Reject("feed_forward_proj",
                  "\"relu\", \"gelu\", \"gelu_new\", \"silu\", each also after \"gated-\"",
                  absl::StatusCode::kUnimplemented);
  }
}

RelativeSpec MapRelative(JsonFields& fields) {
  RelativeSpec relative;
  relative.buckets = fields.OptionalInt("relative_attention_num_buckets", 4, 1 << 16).value_or(32);
  relative.max_distance =
      fields.OptionalInt("relative_attention_max_distance", 1, 1 << 16).value_or(128);
  if (relative.buckets % 4 != 0) {
    fields.Reject("relative_attention_num_buckets", "a multiple of 4");
  }
  if (relative.max_distance <= relative.buckets / 2) {
    fields.Reject(
        "relative_attention_max_distance",
        absl::StrCat("more than half of relative_attention_num_buckets, ", relative.buckets / 2));
  }
  return relative;
}

}  // namespace

void MapT5(JsonFields& fields, ModelConfig& config) {
  // Relative positions have no end; texts have one.
  constexpr int kLongest = 1 << 15;
  config.vocab_size = fields.Int("vocab_size", 1, kMaxVocabSize);
  config.hidden_size = fields.Int("d_model", 1, kMaxWidth);
  config.head_dim = fields.Int("d_kv", 1, kMaxHeadDim);
  config.num_heads = config.num_kv_heads = fields.Int("num_heads", 1, kMaxHeads);
  const int num_source = fields.Int("num_layers", 1, kMaxLayers);
  const int num_text = fields.OptionalInt("num_decoder_layers", 1, kMaxLayers).value_or(num_source);
  MapRmsNorm(fields, {"layer_norm_epsilon"}, 1e-6, config);
  LayerSpec layer = CheckSizes(fields, config);
  layer.attention.scale = 1;
  layer.attention.relative = MapRelative(fields);
  layer.mlp = DenseMlpSpec{.width = fields.Int("d_ff", 1, kMaxWidth)};
  MapFeedForward(fields, DenseMlpOf(layer));
  SetBothSides(layer, num_source, num_text, config);
  config.layers[num_source - 1].norms.leaving = true;
  SetSource(num_source, kLongest, config);
  config.tied_embeddings = ReadBool(fields, "tie_word_embeddings", true);
  if (config.tied_embeddings) {
    config.logit_scale = 1.0F / std::sqrt(static_cast<float>(config.hidden_size));
  }
}

// ---- BART, mBART, Marian: LayerNorms, biases, positions that are added ----

namespace {

constexpr TensorNames kBartLayerNames = {
    .layer = "model.encoder.layers.$0.",
    .attention_norm = "self_attn_layer_norm",
    .q = "self_attn.q_proj",
    .k = "self_attn.k_proj",
    .v = "self_attn.v_proj",
    .o = "self_attn.out_proj",
    .mlp_norm = "final_layer_norm",
    .up = "fc1",
    .down = "fc2",
    .attention_post_norm = "self_attn_layer_norm",
    .mlp_post_norm = "final_layer_norm",
    .leaving_norm = "model.encoder.layer_norm",
};

enum class Norms { kBefore, kAfter };

void MapBartLike(JsonFields& fields, Norms norms, int start_token, ModelConfig& config) {
  config.vocab_size = fields.Int("vocab_size", 1, kMaxVocabSize);
  config.hidden_size = fields.Int("d_model", 1, kMaxWidth);
  config.num_heads = config.num_kv_heads = fields.Int("encoder_attention_heads", 1, kMaxHeads);
  if (fields.Int("decoder_attention_heads", 1, kMaxHeads) != config.num_heads) {
    fields.Reject("decoder_attention_heads",
                  absl::StrCat("encoder_attention_heads, ", config.num_heads),
                  absl::StatusCode::kUnimplemented);
  }
  if (config.hidden_size % config.num_heads != 0) {
    fields.Reject("d_model",
                  absl::StrCat("a multiple of encoder_attention_heads, ", config.num_heads));
  }
  config.head_dim = config.hidden_size / config.num_heads;
  const int num_source = fields.Int("encoder_layers", 1, kMaxLayers);
  const int num_text = fields.Int("decoder_layers", 1, kMaxLayers);
  const int longest = fields.Int("max_position_embeddings", 1, kMaxPositions / 4);
  config.norm = NormKind::kLayerNorm;
  config.norm_bias = true;
  config.norm_eps = 1e-5F;
  LayerSpec layer = CheckSizes(fields, config);
  layer.attention.qkv_bias = layer.attention.o_bias = true;
  DenseMlpSpec mlp{.width = fields.Int("encoder_ffn_dim", 1, kMaxWidth)};
  mlp.activation = ReadActivation(fields, "activation_function", Activation::kGelu);
  mlp.gated = false;
  mlp.bias = true;
  layer.mlp = mlp;
  const bool after = norms == Norms::kAfter;
  layer.norms = {.before_attention = !after,
                 .before_mlp = !after,
                 .after_attention = after,
                 .after_mlp = after,
                 .of_sum = after};
  SetBothSides(layer, num_source, num_text, config);
  const int text_width = fields.Int("decoder_ffn_dim", 1, kMaxWidth);
  for (int index = num_source; index < config.num_layers(); ++index) {
    DenseMlpOf(config.layers[index]).width = text_width;
  }
  config.layers[num_source - 1].norms.leaving = !after;
  config.final_norm = !after;
  SetSource(num_source, longest, config);
  config.source->start_token_id = start_token;
  config.position = PositionKind::kLearned;
  config.position_offset = 2;
  config.embedding_norm = true;
  config.tied_embeddings = true;
  config.head_bias = true;
  if (ReadBool(fields, "scale_embedding", false)) {
    config.embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
  }
}

}  // namespace

constinit const TensorNames kBartNames = [] {
  TensorNames names = kBartLayerNames;
  names.embedding = "model.shared";
  names.positions = "model.decoder.embed_positions";
  names.final_norm = "model.decoder.layer_norm";
  names.head = "lm_head";
  names.embedding_norm = "model.decoder.layernorm_embedding";
  names.source_positions = "model.encoder.embed_positions";
  names.source_embedding_norm = "model.encoder.layernorm_embedding";
  names.source_layers = &kBartLayerNames;
  names.head_bias = "final_logits_bias";
  names.layer = "model.decoder.layers.$0.";
  names.cross_norm = "encoder_attn_layer_norm";
  names.cross_post_norm = "encoder_attn_layer_norm";
  names.cross_q = "encoder_attn.q_proj";
  names.cross_k = "encoder_attn.k_proj";
  names.cross_v = "encoder_attn.v_proj";
  names.cross_o = "encoder_attn.out_proj";
  return names;
}();

void MapBart(JsonFields& fields, ModelConfig& config) {
  MapBartLike(fields, Norms::kAfter, /*start_token=*/2, config);
}

void MapMbart(JsonFields& fields, ModelConfig& config) {
  MapBartLike(fields, Norms::kBefore, /*start_token=*/2, config);
}

void MapMarian(JsonFields& fields, ModelConfig& config) {
  MapBartLike(fields, Norms::kAfter, /*start_token=*/0, config);
  const int last = std::max(config.vocab_size - 1, 0);
  config.source->start_token_id = fields.OptionalInt("pad_token_id", 0, last).value_or(last);
  config.position = PositionKind::kSplitSinusoidal;
  config.position_offset = 0;
  config.embedding_norm = false;
  for (const char* name : {"normalize_before", "normalize_embedding"}) {
    if (ReadBool(fields, name, false))
      fields.Reject(name, "false", absl::StatusCode::kUnimplemented);
  }
  if (!ReadBool(fields, "share_encoder_decoder_embeddings", true)) {
    fields.Reject("share_encoder_decoder_embeddings", "true", absl::StatusCode::kUnimplemented);
  }
}

}  // namespace sluice
