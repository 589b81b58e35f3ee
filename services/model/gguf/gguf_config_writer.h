// Writes the fields of one config.json from a GGUF file's metadata and tensors. Errors go to the
// fields that it reads. Only .cc files include this header: nlohmann-json is heavy to compile.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "services/model/gguf/gguf_fields.h"

namespace sluice {

// The most layers that tensors are looked for of.
inline constexpr int64_t kMostGgufLayers = 4096;

class GgufConfigWriter {
 public:
  // `fields` is borrowed.
  GgufConfigWriter(GgufFields& fields, const std::string& architecture)
      : fields_(fields), prefix_(architecture + ".") {}

  nlohmann::json& config() { return config_; }
  GgufFields& fields() { return fields_; }
  bool HasTensor(std::string_view name) const { return fields_.view().FindTensor(name) != nullptr; }

  // Keys are those below the architecture's name.
  std::optional<int64_t> Int(const char* key);
  std::vector<int64_t> Ints(const char* key) { return fields_.Ints(prefix_ + key); }
  // That the number of this key differs from layer to layer: Int() is the largest then.
  void VariesByLayer(const char* key) { by_layer_.insert(key); }
  std::optional<double> Number(const char* key) { return fields_.Number(prefix_ + key); }

  std::optional<bool> Bool(const char* key) { return fields_.Bool(prefix_ + key); }

  // Of a head's elements, where the file does not say: an even share of a row's.
  int64_t HeadDim();
  // Those that predict tokens further ahead are no layers of the model.
  int64_t NumLayers();
  // The layers that have a tensor.
  std::vector<int64_t> LayersWith(const char* tensor);

  // These write the field `name`, where the file has the key.
  void CopyInt(const char* name, const char* key) { Set(name, Int(key)); }
  void CopyNumber(const char* name, const char* key) { Set(name, Number(key)); }
  void CopyBool(const char* name, const char* key) { Set(name, fields_.Bool(prefix_ + key)); }

  // The rows of the embedding, which are as many as the model has ids.
  void SetVocabSize();
  void SetTied() { config_["tie_word_embeddings"] = !HasTensor("output.weight"); }
  // The sizes under the names that most families have, and those with RMSNorm and rotation.
  void SetSizes();
  void SetRotary();
  void SetWindow();
  // Biases of attention and of the MLP, by the first layer's tensors.
  void SetAttentionBias(const char* name) { config_[name] = HasTensor("blk.0.attn_q.bias"); }
  void SetBiases();
  // Rotation: its base, how much of a head turns, and how positions are scaled.
  void SetRope(const char* fraction_name);
  // How positions are scaled; `dim` elements of a head turn.
  void SetRopeScaling(int64_t dim);
  // How many of the divisors of frequencies, a vector of a head's pairs, are 1, as a share; 1 where the
  // file has none.
  double ShareOfPlainDivisors();
  // The width of an expert, which older files leave to its tensor [E, width, H].
  void SetExpertWidth(const char* name, const char* key, const char* tensor);

 private:
  template <typename T>
  void Set(const char* name, const std::optional<T>& value) {
    if (value.has_value()) config_[name] = *value;
  }

  GgufFields& fields_;
  const std::string prefix_;
  std::set<std::string_view> by_layer_;
  nlohmann::json config_ = nlohmann::json::object();
};

}  // namespace sluice
