#include "tests/services/model/model_folder.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "kernels/fp8.h"
#include "services/model/checkpoint.h"
#include "services/model/model_families.h"
#include "services/model/tensor_place.h"

namespace sluice::testing {
namespace {

// Exact for values whose significand fits.
uint16_t HalfFromFloat(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if ((bits & 0x7fffffffu) == 0) return static_cast<uint16_t>(bits >> 16);
  const uint32_t exponent = ((bits >> 23) & 0xff) - 112;
  const auto half =
      static_cast<uint16_t>(((bits >> 16) & 0x8000u) | (exponent << 10) | ((bits >> 13) & 0x3ffu));
  SLUICE_CHECK(FloatFromHalf(half) == value);
  return half;
}

template <typename Element>
void Append(std::vector<std::byte>& bytes, Element element) {
  const auto* begin = reinterpret_cast<const std::byte*>(&element);
  bytes.insert(bytes.end(), begin, begin + sizeof(element));
}

std::string AsString(absl::Span<const std::byte> bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace

TempFolder::TempFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "sluice_test_XXXXXX").string();
  SLUICE_CHECK(mkdtemp(name.data()) != nullptr);
  path_ = name;
}

TempFolder::~TempFolder() { std::filesystem::remove_all(path_); }

std::string TempFolder::Write(const std::string& name, const std::string& bytes) const {
  const std::string path = PathOf(name);
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.close();
  SLUICE_CHECK(file.good());
  return path;
}

float ElementOf(const std::string& name, size_t i) {
  uint32_t hash = 2166136261u;
  for (const char letter : absl::StrCat(name, "/", i)) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619u;
  }
  return (static_cast<float>(hash >> 8 & 0xff) - 128) / 64;
}

OwnedTensor MakeTensor(const std::string& name, DType dtype, std::vector<uint64_t> shape) {
  OwnedTensor tensor{name, dtype, std::move(shape), {}};
  size_t count = 1;
  for (const uint64_t dimension : tensor.shape) count *= dimension;
  for (size_t i = 0; i < count; ++i) {
    const float value = ElementOf(name, i);
    switch (dtype) {
      case DType::kF32:
        Append(tensor.bytes, value);
        break;
      case DType::kF16:
        Append(tensor.bytes, HalfFromFloat(value));
        break;
      case DType::kBF16:
        Append(tensor.bytes, BFloat16FromFloat(value));
        break;
      case DType::kI32:
        Append(tensor.bytes, static_cast<int32_t>(i));
        break;
      case DType::kF8E4M3:
        Append(tensor.bytes, Fp8FromFloat(value));
        break;
    }
  }
  return tensor;
}

std::string SafetensorsBytes(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes + header + data;
}

std::string SafetensorsBytes(absl::Span<const OwnedTensor> tensors,
                             const std::map<std::string, std::string>& metadata) {
  std::vector<TensorToWrite> to_write;
  std::string data;
  for (const OwnedTensor& tensor : tensors) {
    to_write.push_back(tensor.ToWrite());
    data += AsString(tensor.bytes);
  }
  return SafetensorsHeader(to_write, metadata) + data;
}

std::string TinyLlamaConfig() {
  return R"({
    "model_type": "llama",
    "vocab_size": 10,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "attention_bias": true,
    "mlp_bias": true,
    "tie_word_embeddings": false,
    "bos_token_id": 1,
    "eos_token_id": 2
  })";
}

std::vector<OwnedTensor> TinyLlamaTensors(DType dtype) {
  std::vector<OwnedTensor> tensors;
  const auto add = [&](const std::string& name, std::vector<uint64_t> shape) {
    tensors.push_back(MakeTensor(name, dtype, std::move(shape)));
  };
  const auto add_projection = [&](const std::string& name, uint64_t outputs, uint64_t inputs) {
    add(name + ".weight", {outputs, inputs});
    add(name + ".bias", {outputs});
  };
  add("model.embed_tokens.weight", {10, 16});
  for (int layer = 0; layer < 3; ++layer) {
    const std::string prefix = absl::StrCat("model.layers.", layer, ".");
    add(prefix + "input_layernorm.weight", {16});
    add_projection(prefix + "self_attn.q_proj", 16, 16);
    add_projection(prefix + "self_attn.k_proj", 8, 16);
    add_projection(prefix + "self_attn.v_proj", 8, 16);
    add_projection(prefix + "self_attn.o_proj", 16, 16);
    add(prefix + "post_attention_layernorm.weight", {16});
    add_projection(prefix + "mlp.gate_proj", 24, 16);
    add_projection(prefix + "mlp.up_proj", 24, 16);
    add_projection(prefix + "mlp.down_proj", 16, 24);
  }
  add("model.norm.weight", {16});
  add("lm_head.weight", {10, 16});
  return tensors;
}

std::vector<TensorPlace> StoredTensors(const ModelConfig& config) {
  const TempFolder folder;
  folder.Write("model.safetensors", SafetensorsBytes(std::vector<OwnedTensor>{}));
  const auto nothing = Checkpoint::Open(folder.path());
  SLUICE_CHECK(nothing.ok());
  const TensorPlaces places(config, *FindModelFamily(config.model_type)->names, *nothing);
  std::map<std::string, TensorPlace> by_name;
  for (const TensorId tensor : AllTensors(config)) {
    const TensorPlace place = places.Of(tensor);
    if (!place.rows_apart) by_name.emplace(place.name, place.Whole());
    for (int64_t row = 0; place.rows_apart && row < place.stored.rows; ++row) {
      by_name.emplace(place.Row(row).name, place.Row(row));
    }
  }
  std::vector<TensorPlace> list;
  for (auto& [name, place] : by_name) list.push_back(std::move(place));
  return list;
}

std::vector<uint64_t> StoredShape(const TensorPlace& place) {
  auto rows = static_cast<uint64_t>(place.stored.rows);
  auto columns = static_cast<uint64_t>(place.stored.columns);
  if (place.transposed) std::swap(rows, columns);
  if (place.matrices > 0) {
    const auto matrices = static_cast<uint64_t>(place.matrices);
    return {matrices, rows / matrices, columns};
  }
  return columns > 1 ? std::vector<uint64_t>{rows, columns} : std::vector<uint64_t>{rows};
}

std::vector<OwnedTensor> TensorsOf(const ModelConfig& config, DType dtype) {
  std::vector<OwnedTensor> tensors;
  for (const TensorPlace& place : StoredTensors(config)) {
    tensors.push_back(MakeTensor(place.name, dtype, StoredShape(place)));
  }
  return tensors;
}

}  // namespace sluice::testing
