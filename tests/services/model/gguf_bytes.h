// GGUF files that tests write for themselves, right or wrong.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "services/model/model_config.h"

namespace sluice::testing {

// Collects metadata and tensors in the order in which they are added.
class GgufBytes {
 public:
  GgufBytes& Text(const std::string& key, std::string_view value);
  GgufBytes& Int(const std::string& key, uint32_t value);
  GgufBytes& Number(const std::string& key, float value);
  GgufBytes& Bool(const std::string& key, bool value);
  GgufBytes& Texts(const std::string& key, const std::vector<std::string>& values);
  GgufBytes& Ints(const std::string& key, const std::vector<int32_t>& values);
  GgufBytes& Numbers(const std::string& key, const std::vector<float>& values);

  // Rows first, as elsewhere; `bytes` are filled up to the alignment.
  GgufBytes& Tensor(const std::string& name, std::vector<uint64_t> shape, uint32_t type,
                    const std::string& bytes);
  // A tensor of F32, whose element i is ElementOf(name, i).
  GgufBytes& Floats(const std::string& name, std::vector<uint64_t> shape);

  // The whole file.
  std::string Build(uint32_t version = 3) const;

 private:
  GgufBytes& Value(const std::string& key, uint32_t type, const std::string& bytes);

  uint64_t num_values_ = 0;
  uint64_t num_tensors_ = 0;
  std::string values_;
  std::string entries_;
  std::string data_;
};

// The bytes of a number, and of a text behind its length.
template <typename T>
std::string BytesOf(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(T));
}
std::string GgufText(std::string_view text);

// Metadata of a Llama model with H 64, 4 heads, 2 KV heads, MLP width 32, 2 layers and 10 tokens,
// and its tensors in F32, behind what `bytes` holds.
GgufBytes TinyGguf(GgufBytes bytes = {});

}  // namespace sluice::testing
