// Encoders: every query sees the whole text, or a window to both sides.
#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/model/families.h"
#include "services/model/family_fields.h"

namespace sluice {
namespace {

// Below a layer's name.
constexpr TensorNames kBertLayerNames = {
    .q = "attention.self.query",
    .k = "attention.self.key",
    .v = "attention.self.value",
    .o = "attention.output.dense",
    .up = "intermediate.dense",
    .down = "output.dense",
    .attention_post_norm = "attention.output.LayerNorm",
    .mlp_post_norm = "output.LayerNorm",
};

void RefuseOtherEncoders(JsonFields& fields) {
  if (fields.String("position_embedding_type").value_or("absolute") != "absolute") {
    fields.Reject("position_embedding_type", "\"absolute\"", absl::StatusCode::kUnimplemented);
  }
  if (ReadBool(fields, "is_decoder", false)) {
    fields.Reject("is_decoder", "false", absl::StatusCode::kUnimplemented);
  }
}

// What encoders with norms of sums have in common: biases everywhere, an MLP without a gate, a norm
// of the embedding and none at the end.
void SetBertLayers(LayerSpec layer, Activation activation, ModelConfig& config) {
  DenseMlpSpec& mlp = DenseMlpOf(layer);
  mlp.activation = activation;
  mlp.gated = false;
  mlp.bias = true;
  layer.attention.qkv_bias = layer.attention.o_bias = true;
  layer.attention.ahead = kAllAhead;
  layer.norms = {.before_attention = false,
                 .before_mlp = false,
                 .after_attention = true,
                 .after_mlp = true,
                 .of_sum = true};
  SetLayers(layer, config);
  config.position = PositionKind::kLearned;
  config.embedding_norm = true;
  config.final_norm = false;
  config.has_head = false;
}

void MapBertLike(JsonFields& fields, int token_types, ModelConfig& config) {
  const LayerSpec layer = MapSizes(fields, config);
  MapLayerNorm(fields, {"layer_norm_eps"}, 1e-12, config);
  config.num_token_types = fields.OptionalInt("type_vocab_size", 0, 1 << 16).value_or(token_types);
  SetBertLayers(layer, ReadActivation(fields, "hidden_act", Activation::kGelu), config);
  RefuseOtherEncoders(fields);
}

}  // namespace

// ---- BERT ----

constinit const TensorNames kBertNames = [] {
  TensorNames names = kBertLayerNames;
  names.embedding = "bert.embeddings.word_embeddings";
  names.positions = "bert.embeddings.position_embeddings";
  names.token_types = "bert.embeddings.token_type_embeddings";
  names.embedding_norm = "bert.embeddings.LayerNorm";
  names.layer = "bert.encoder.layer.$0.";
  names.optional_prefix = "bert.";
  return names;
}();

void MapBert(JsonFields& fields, ModelConfig& config) { MapBertLike(fields, 2, config); }

// ---- RoBERTa, XLM-R: positions begin behind that of padding ----

constinit const TensorNames kRobertaNames = [] {
  TensorNames names = kBertLayerNames;
  names.embedding = "roberta.embeddings.word_embeddings";
  names.positions = "roberta.embeddings.position_embeddings";
  names.token_types = "roberta.embeddings.token_type_embeddings";
  names.embedding_norm = "roberta.embeddings.LayerNorm";
  names.layer = "roberta.encoder.layer.$0.";
  names.optional_prefix = "roberta.";
  return names;
}();

void MapRoberta(JsonFields& fields, ModelConfig& config) {
  MapBertLike(fields, 2, config);
  const int padding =
      fields.OptionalInt("pad_token_id", 0, std::max(config.vocab_size - 1, 0)).value_or(1);
  config.position_offset = padding + 1;
  if (config.position_offset >= config.max_positions) {
    fields.Reject("max_position_embeddings",
                  absl::StrCat("more than pad_token_id + 1, ", config.position_offset));
    return;
  }
  config.max_positions -= config.position_offset;
}

// ---- DistilBERT: names of its own, no token types ----

constinit const TensorNames kDistilBertNames = {
    .embedding = "distilbert.embeddings.word_embeddings",
    .positions = "distilbert.embeddings.position_embeddings",
    .embedding_norm = "distilbert.embeddings.LayerNorm",
    .layer = "distilbert.transformer.layer.$0.",
    .q = "attention.q_lin",
    .k = "attention.k_lin",
    .v = "attention.v_lin",
    .o = "attention.out_lin",
    .up = "ffn.lin1",
    .down = "ffn.lin2",
    .attention_post_norm = "sa_layer_norm",
    .mlp_post_norm = "output_layer_norm",
    .optional_prefix = "distilbert.",
};

void MapDistilBert(JsonFields& fields, ModelConfig& config) {
  config.vocab_size = fields.Int("vocab_size", 1, kMaxVocabSize);
  config.hidden_size = fields.Int("dim", 1, kMaxWidth);
  const int width = fields.Int("hidden_dim", 1, kMaxWidth);
  config.layers.resize(fields.Int("n_layers", 1, kMaxLayers));
  config.max_positions = fields.Int("max_position_embeddings", 1, kMaxPositions);
  config.num_heads = config.num_kv_heads = fields.Int("n_heads", 1, kMaxHeads);
  if (config.hidden_size % config.num_heads != 0) {
    fields.Reject("dim", absl::StrCat("a multiple of n_heads, ", config.num_heads));
  }
  config.head_dim = config.hidden_size / config.num_heads;
  LayerSpec layer = CheckSizes(fields, config);
  layer.mlp = DenseMlpSpec{.width = width};
  config.norm = NormKind::kLayerNorm;
  config.norm_bias = true;
  config.norm_eps = 1e-12F;
  SetBertLayers(layer, ReadActivation(fields, "activation", Activation::kGelu), config);
}

// ---- ModernBERT: norms before branches, rotary positions, gated MLPs, windows in most layers ----

constinit const TensorNames kModernBertNames = {
    .embedding = "model.embeddings.tok_embeddings",
    .final_norm = "model.final_norm",
    .embedding_norm = "model.embeddings.norm",
    .layer = "model.layers.$0.",
    .attention_norm = "attn_norm",
    .q = "attn.Wqkv",
    .k = "attn.Wqkv",
    .v = "attn.Wqkv",
    .o = "attn.Wo",
    .mlp_norm = "mlp_norm",
    .gate = "mlp.Wi",
    .up = "mlp.Wi",
    .down = "mlp.Wo",
    .qkv = Fusion::kStacked,
    .gate_up = Fusion::kStacked,
    .optional_prefix = "model.",
};

void MapModernBert(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapSizes(fields, config);
  MapLayerNorm(fields, {"norm_eps"}, 1e-5, config);
  config.norm_bias = ReadBool(fields, "norm_bias", false);
  MapAttentionBias(fields, false, layer);
  DenseMlpSpec& mlp = DenseMlpOf(layer);
  mlp.activation = ReadActivation(fields, "hidden_activation", Activation::kGelu);
  mlp.bias = ReadBool(fields, "mlp_bias", false);
  layer.attention.rope = AddRope(config);
  layer.attention.ahead = kAllAhead;
  SetLayers(layer, config);
  config.layers.front().norms.before_attention = false;  // the embedding's norm is its norm
  const int local = AddRope(config);
  config.ropes[0].theta = fields.NumberAbove("global_rope_theta", 0, 1e15).value_or(160000);
  config.ropes[1].theta = fields.IsNull("local_rope_theta") ? config.ropes[0].theta : 10000;
  const int every = fields.OptionalInt("global_attn_every_n_layers", 1, kMaxLayers).value_or(3);
  const int sides = fields.OptionalInt("local_attention", 1, kMaxPositions).value_or(128) / 2;
  const std::vector<bool> windowed = ReadWindowedLayers(
      fields, [&](int index) { return index % every != 0; }, config);
  for (int index = 0; index < config.num_layers(); ++index) {
    if (windowed[index]) SetWindowToBothSides(sides, config.layers[index].attention);
    if (windowed[index]) config.layers[index].attention.rope = local;
  }
  config.embedding_norm = true;
  config.has_head = false;
}

}  // namespace sluice
