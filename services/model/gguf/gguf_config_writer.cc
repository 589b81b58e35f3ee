#include "services/model/gguf/gguf_config_writer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/model/gguf/gguf_rope.h"

namespace sluice {
namespace {

constexpr char kEmbedding[] = "token_embd.weight";

}  // namespace

std::optional<int64_t> GgufConfigWriter::Int(const char* key) {
  if (!by_layer_.contains(key)) return fields_.Int(prefix_ + key);
  const std::vector<int64_t> numbers = Ints(key);
  if (numbers.empty()) return std::nullopt;
  return std::ranges::max(numbers);
}

int64_t GgufConfigWriter::HeadDim() {
  const int64_t heads = std::max<int64_t>(Int("attention.head_count").value_or(1), 1);
  return Int("attention.key_length").value_or(Int("embedding_length").value_or(0) / heads);
}

int64_t GgufConfigWriter::NumLayers() {
  return Int("block_count").value_or(0) - Int("nextn_predict_layers").value_or(0);
}

std::vector<int64_t> GgufConfigWriter::LayersWith(const char* tensor) {
  std::vector<int64_t> layers;
  for (int64_t layer = 0; layer < std::min(NumLayers(), kMostGgufLayers); ++layer) {
    if (HasTensor(absl::StrCat("blk.", layer, ".", tensor))) layers.push_back(layer);
  }
  return layers;
}

void GgufConfigWriter::SetVocabSize() {
  const GgufTensor* embedding = fields_.view().FindTensor(kEmbedding);
  if (embedding == nullptr || embedding->shape.size() != 2) {
    return fields_.Fail(absl::StrCat("tensor \"", kEmbedding, "\" is ",
                                     embedding == nullptr ? "missing" : "no matrix",
                                     "; accepted: a matrix with a row for each token"));
  }
  config_["vocab_size"] = embedding->shape[0];
}

void GgufConfigWriter::SetSizes() {
  SetVocabSize();
  CopyInt("hidden_size", "embedding_length");
  CopyInt("intermediate_size", "feed_forward_length");
  if (Int("block_count").has_value()) config_["num_hidden_layers"] = NumLayers();
  CopyInt("num_attention_heads", "attention.head_count");
  CopyInt("num_key_value_heads", "attention.head_count_kv");
  if (const int64_t head_dim = HeadDim(); head_dim > 0) config_["head_dim"] = head_dim;
  CopyInt("max_position_embeddings", "context_length");
  SetTied();
}

void GgufConfigWriter::SetRotary() {
  SetSizes();
  CopyNumber("rms_norm_eps", "attention.layer_norm_rms_epsilon");
  SetRope("partial_rotary_factor");
}

void GgufConfigWriter::SetWindow() {
  const auto window = Int("attention.sliding_window");
  if (window.value_or(0) > 0) config_["sliding_window"] = *window;
}

void GgufConfigWriter::SetBiases() {
  SetAttentionBias("attention_bias");
  config_["mlp_bias"] = HasTensor("blk.0.ffn_gate.bias");
}

void GgufConfigWriter::SetRope(const char* fraction_name) {
  CopyNumber("rope_theta", "rope.freq_base");
  const int64_t head_dim = HeadDim();
  const int64_t dim = Int("rope.dimension_count").value_or(head_dim);
  if (dim < 2 || dim > head_dim || head_dim > INT32_MAX) {
    return fields_.Reject(prefix_ + "rope.dimension_count",
                          absl::StrCat("2 to the size of a head, ", head_dim));
  }
  // Just above the fraction, so that its product is not rounded down to less.
  config_[fraction_name] =
      dim < head_dim ? (static_cast<double>(dim) + 0.25) / static_cast<double>(head_dim) : 1.0;
  SetRopeScaling(dim);
}

void GgufConfigWriter::SetRopeScaling(int64_t dim) {
  nlohmann::json scaling =
      GgufRopeScaling(fields_, {.prefix = prefix_,
                                .theta = config_.value("rope_theta", 1e4),
                                .dim = dim,
                                .max_positions = Int("context_length").value_or(0)});
  if (!scaling.is_null()) config_["rope_scaling"] = std::move(scaling);
}

double GgufConfigWriter::ShareOfPlainDivisors() {
  if (!HasTensor(kGgufDivisors)) return 1;
  const std::vector<double> divisors = GgufDivisors(fields_, kGgufDivisors, HeadDim() / 2);
  if (divisors.empty()) return 1;
  const auto plain = std::ranges::count(divisors, 1.0);
  return static_cast<double>(plain) / static_cast<double>(divisors.size());
}

void GgufConfigWriter::SetExpertWidth(const char* name, const char* key, const char* tensor) {
  if (Int(key).has_value()) return CopyInt(name, key);
  const std::vector<int64_t> layers = LayersWith(tensor);
  if (layers.empty()) return fields_.Reject(prefix_ + key, "an integer");
  const GgufTensor* found =
      fields_.view().FindTensor(absl::StrCat("blk.", layers.front(), ".", tensor));
  const std::vector<uint64_t>& shape = found->shape;
  config_[name] = shape.size() < 2 ? uint64_t{0} : shape[shape.size() - 2];
}

}  // namespace sluice
