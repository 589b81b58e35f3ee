#include "tests/services/model/gguf_bytes.h"

#include "absl/strings/str_cat.h"
#include "tests/services/model/model_folder.h"

namespace sluice::testing {
namespace {

constexpr size_t kAlignment = 32;
constexpr uint32_t kUint32 = 4, kInt32 = 5, kFloat32 = 6, kBool = 7, kString = 8, kArray = 9;

std::string Padding(size_t size) {
  return std::string((kAlignment - size % kAlignment) % kAlignment, '\0');
}

// The bytes of a list, each of whose elements `encode` writes.
template <typename T, typename Encode>
std::string ListBytes(uint32_t type, const std::vector<T>& values, Encode encode) {
  std::string bytes = BytesOf(type) + BytesOf<uint64_t>(values.size());
  for (const T& value : values) bytes += encode(value);
  return bytes;
}

}  // namespace

std::string GgufText(std::string_view text) {
  return BytesOf<uint64_t>(text.size()) + std::string(text);
}

GgufBytes& GgufBytes::Value(const std::string& key, uint32_t type, const std::string& bytes) {
  ++num_values_;
  values_ += GgufText(key) + BytesOf(type) + bytes;
  return *this;
}

GgufBytes& GgufBytes::Text(const std::string& key, std::string_view value) {
  return Value(key, kString, GgufText(value));
}
GgufBytes& GgufBytes::Int(const std::string& key, uint32_t value) {
  return Value(key, kUint32, BytesOf(value));
}
GgufBytes& GgufBytes::Number(const std::string& key, float value) {
  return Value(key, kFloat32, BytesOf(value));
}
GgufBytes& GgufBytes::Bool(const std::string& key, bool value) {
  return Value(key, kBool, BytesOf(value));
}
GgufBytes& GgufBytes::Texts(const std::string& key, const std::vector<std::string>& values) {
  return Value(key, kArray,
               ListBytes(kString, values, [](const auto& text) { return GgufText(text); }));
}
GgufBytes& GgufBytes::Ints(const std::string& key, const std::vector<int32_t>& values) {
  return Value(key, kArray,
               ListBytes(kInt32, values, [](int32_t value) { return BytesOf(value); }));
}
GgufBytes& GgufBytes::Numbers(const std::string& key, const std::vector<float>& values) {
  return Value(key, kArray,
               ListBytes(kFloat32, values, [](float value) { return BytesOf(value); }));
}

GgufBytes& GgufBytes::Tensor(const std::string& name, std::vector<uint64_t> shape, uint32_t type,
                             const std::string& bytes) {
  ++num_tensors_;
  entries_ += GgufText(name) + BytesOf(static_cast<uint32_t>(shape.size()));
  for (size_t i = shape.size(); i > 0; --i) entries_ += BytesOf(shape[i - 1]);
  entries_ += BytesOf(type) + BytesOf<uint64_t>(data_.size());
  data_ += bytes + Padding(bytes.size());
  return *this;
}

GgufBytes& GgufBytes::Floats(const std::string& name, std::vector<uint64_t> shape) {
  uint64_t count = 1;
  for (const uint64_t dimension : shape) count *= dimension;
  std::string bytes;
  for (uint64_t i = 0; i < count; ++i) bytes += BytesOf(ElementOf(name, i));
  return Tensor(name, std::move(shape), 0, bytes);
}

std::string GgufBytes::Build(uint32_t version) const {
  const std::string head =
      "GGUF" + BytesOf(version) + BytesOf(num_tensors_) + BytesOf(num_values_) + values_ + entries_;
  return head + Padding(head.size()) + data_;
}

GgufBytes TinyGguf(GgufBytes bytes) {
  bytes.Text("general.architecture", "llama")
      .Int("llama.embedding_length", 64)
      .Int("llama.block_count", 2)
      .Int("llama.feed_forward_length", 32)
      .Int("llama.attention.head_count", 4)
      .Int("llama.attention.head_count_kv", 2)
      .Int("llama.context_length", 128)
      .Number("llama.attention.layer_norm_rms_epsilon", 1e-5f)
      .Number("llama.rope.freq_base", 5e5f)
      .Floats("token_embd.weight", {10, 64})
      .Floats("output_norm.weight", {64})
      .Floats("output.weight", {10, 64});
  for (int layer = 0; layer < 2; ++layer) {
    const auto name = [&](const char* part) {
      return absl::StrCat("blk.", layer, ".", part, ".weight");
    };
    bytes.Floats(name("attn_norm"), {64})
        .Floats(name("attn_q"), {64, 64})
        .Floats(name("attn_k"), {32, 64})
        .Floats(name("attn_v"), {32, 64})
        .Floats(name("attn_output"), {64, 64})
        .Floats(name("ffn_norm"), {64})
        .Floats(name("ffn_gate"), {32, 64})
        .Floats(name("ffn_up"), {32, 64})
        .Floats(name("ffn_down"), {64, 32});
  }
  return bytes;
}

}  // namespace sluice::testing
