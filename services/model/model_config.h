// What a decoder model is: sizes, and a LayerSpec for each layer, which one decoder block reads
// whatever the model's family. Read from a Hugging Face folder (config.json,
// generation_config.json) or a GGUF file; the mapping of each model_type is a row of
// model_families.cc. A plain value: copy it, share it read-only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/weight_format.h"
#include "services/model/embedder_spec.h"
#include "services/model/layer_spec.h"
#include "services/model/published/scheme.h"
#include "services/model/rope_config.h"
#include "services/model/tensor_id.h"

namespace sluice {

enum class NormKind : uint8_t {
  kRmsNorm,    // x / sqrt(mean(x^2) + eps) * weight (Zhang & Sennrich 2019)
  kLayerNorm,  // (x - mean) / sqrt(var + eps) * weight + bias (Ba et al. 2016)
};

// What is added to a token's embedding for its position. Rotation is a matter of layers.
enum class PositionKind : uint8_t {
  kNone,
  kLearned,          // a row of a table
  kSinusoidal,       // sines and cosines in turn (Vaswani et al. 2017)
  kSplitSinusoidal,  // all sines, then all cosines
};

// What the model's authors suggest where a request leaves a parameter out; unset: no suggestion.
struct GenerationDefaults {
  std::optional<bool> do_sample;      // false: greedy
  std::optional<double> temperature;  // >= 0
  std::optional<int> top_k;           // >= 0; 0: no limit
  std::optional<double> top_p;        // in (0, 1]
  std::optional<int> max_length;      // prompt and continuation together, in tokens, >= 1
};

// How the files of a model hold its matrices where they are quantised. Those that `sluice quantize`
// wrote: weight_rule.h says which of them, quantized_tensor.h how. Files of others, GGUF among them:
// as many as the files hold so, `scheme` says how.
struct Quantization {
  // A matrix that is kept in another format than FormatOf has for the others.
  struct Exception {
    TensorId tensor;
    WeightFormat format;
  };

  // The format that keeps weights as the files have them; F32 where others' files have a layout that
  // no quantised format holds.
  WeightFormat format = WeightFormat::kInt8;
  std::string checkpoint_id;  // of the weights that the configuration belongs to; empty for others'
  bool published = false;     // the files are others'
  PublishedScheme scheme;     // of others' files
  std::vector<Exception> exceptions;  // of others' files, ascending by tensor
};

// A second text that a model reads before it writes: of encoder-decoders. Its positions count from 0,
// and so do those of what is written.
struct SourceSpec {
  // What is written begins at a multiple of so many positions, and so at a new block; those between it
  // and the source are not computed.
  static constexpr int kUnit = 16;
  static constexpr int64_t Filled(int64_t positions) {
    return (positions + kUnit - 1) / kUnit * kUnit;
  }

  int num_layers = 0;  // of the source, the first ones of ModelConfig::layers; all others read it
  int max_positions = 0;   // of the source, in tokens, >= 1
  int max_written = 0;     // positions of what is written, its first tokens included, >= 1
  int start_token_id = 0;  // what is written begins with it
  std::optional<int> forced_bos_token_id;  // and goes on with this one
};

// A loaded config holds what the field comments promise; see LoadModelConfig.
struct ModelConfig {
  std::string model_type;  // such as "llama"

  // Sizes, all >= 1. Layers may have heads of their own (AttentionSpec).
  int vocab_size = 0;     // V
  int hidden_size = 0;    // H
  int num_heads = 0;      // Nq
  int num_kv_heads = 0;   // Nkv, divides Nq
  int head_dim = 0;       // D; Nq * D need not equal H
  int max_positions = 0;  // prompt and continuation together, in tokens

  std::vector<LayerSpec> layers;  // [L], at least one
  std::vector<RopeConfig> ropes;  // rotations that layers name by index
  // Of encoder-decoders. max_positions is that of a source, filled up to whole blocks, and of what is
  // written after it.
  std::optional<SourceSpec> source;

  // Of all norms: those in each layer and the final one.
  NormKind norm = NormKind::kRmsNorm;
  float norm_eps = 0;            // > 0
  bool norm_bias = false;        // LayerNorms have one
  float norm_weight_offset = 0;  // added to the stored weights of norms (Gemma: 1)

  PositionKind position = PositionKind::kNone;
  int position_offset = 0;  // row of position 0 in the tables of learned positions
  int num_token_types = 0;  // rows of the table of token types, which are added; 0: there is none
  bool embedding_norm = false;  // a norm of what leaves the embedding
  bool final_norm = true;       // a norm before the head
  // An LM head. Without one the model embeds texts, as `embedder` says, and generates none.
  bool has_head = true;
  std::optional<EmbedderSpec> embedder;  // how rows become a text's embedding; none: it has no say
  bool tied_embeddings = false;          // the LM head is the embedding table
  float embedding_scale = 1;             // token embeddings are multiplied by it
  bool head_bias = false;                // of the LM head
  float logit_scale = 1;                 // logits are multiplied by it
  // A scaled logit z becomes logit_softcap * tanh(z / logit_softcap), > 0; 0: it stays as it is.
  float logit_softcap = 0;

  std::optional<Quantization> quantization;  // of the files; none: they hold plain numbers

  std::optional<int> bos_token_id;  // in [0, V)
  std::vector<int> eos_token_ids;   // each in [0, V); empty: the model names none
  GenerationDefaults generation;

  // Of a layer, whose heads may be its own.
  int head_dim_of(int layer) const {
    const int own = layers[layer].attention.head_dim;
    return own > 0 ? own : head_dim;
  }
  int kv_heads_of(int layer) const {
    const int own = layers[layer].attention.num_kv_heads;
    return own > 0 ? own : num_kv_heads;
  }
  int query_width(int layer) const { return num_heads * head_dim_of(layer); }        // Nq * D
  int kv_width(int layer) const { return kv_heads_of(layer) * head_dim_of(layer); }  // Nkv * D
  // Null where keys and values are by head. With it D is LatentSpec::query_dim() and Nkv is Nq.
  const LatentSpec* latent() const {
    return layers.front().attention.latent.has_value() ? &*layers.front().attention.latent
                                                       : nullptr;
  }
  // Elements of the value of a head, and of those of all: what the output projection reads.
  int value_dim(int layer) const {
    return latent() != nullptr ? latent()->value_dim : head_dim_of(layer);
  }
  int value_width(int layer) const { return num_heads * value_dim(layer); }
  // Of the layers that have a state in place of keys and values; null where none has.
  const RecurrentSpec* recurrent() const {
    for (const LayerSpec& layer : layers) {
      if (layer.attention.recurrent.has_value()) return &*layer.attention.recurrent;
    }
    return nullptr;
  }
  // Of the layers [begin, end) those with keys and values, or with a state in place of them.
  int NumAttentionLayers(int64_t begin, int64_t end) const;
  int NumRecurrentLayers(int64_t begin, int64_t end) const;
  // Whether queries see later positions: the keys and values of a text are of no use to another, nor
  // to a longer one, and it is computed in one piece.
  bool is_encoder() const {
    if (source.has_value()) return false;
    for (const LayerSpec& layer : layers) {
      if (layer.attention.ahead > 0) return true;
    }
    return false;
  }
  // Whether the layer is one of the source's.
  bool reads_source(int layer) const { return layers[layer].reads == LayerSpec::Reads::kSource; }
  // S, of embeddings for each layer; 0: there are none.
  int side_width() const {
    return layers.front().side.has_value() ? layers.front().side->width : 0;
  }
  // Numbers of a row between stages: the residual stream [H], then the token's embeddings for all
  // layers [L * S].
  int row_width() const { return hidden_size + side_width() * num_layers(); }
  int num_layers() const { return static_cast<int>(layers.size()); }
  // RopeConfig's questions, of all rotations together.
  bool depends_on_length() const;
  int32_t RopeLengthClass(int32_t length) const;
};

// What the one who serves a model sets in place of what its files say.
struct ModelOverrides {
  // A type and its fields, such as "yarn,factor=4", instead of the files' RoPE scaling; "": theirs.
  std::string rope_scaling;
};

// Reads config.json of the folder `model` and, where it exists, generation_config.json, whose token
// ids win over those of config.json; or what a GGUF file `model` says in their place. Where
// config.json describes several models, such as one of text and one of images, it is that of its
// `text_config`. Fields that no family here knows are ignored.
// Errors name the file, the field, its value and what is accepted: NOT_FOUND (folder or config.json
// missing), INVALID_ARGUMENT (not JSON, a field missing, of the wrong type, out of range or at odds
// with another), UNIMPLEMENTED (a model_type, activation, RoPE scaling or quantization that is not
// known).
absl::StatusOr<ModelConfig> LoadModelConfig(const std::string& model,
                                            const ModelOverrides& overrides = {});

// The same from the texts of the two files; an empty `generation_text` stands for no such file.
// `source` names the files' folder in messages.
absl::StatusOr<ModelConfig> ParseModelConfig(const std::string& config_text,
                                             const std::string& generation_text,
                                             const std::string& source,
                                             const ModelOverrides& overrides = {});

}  // namespace sluice
