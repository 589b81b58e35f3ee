// Fuzzes what a GGUF file goes through: whatever it holds, it is refused with a status, or its
// tensors lie within it, its blocks are decoded and its metadata becomes a configuration and a
// tokenizer, or is refused.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/check.h"
#include "services/model/gguf/gguf_config.h"
#include "services/model/gguf/gguf_container.h"
#include "services/model/model_config.h"
#include "services/tokenizer/tokenizer_from_gguf.h"

namespace {

// The last block of a tensor, which ends where its bytes do.
void DecodeLast(const sluice::GgufTensor& tensor) {
  if (tensor.type->decode == nullptr || tensor.bytes.empty()) return;
  std::vector<float> weights(static_cast<size_t>(tensor.type->weights));
  const size_t block = static_cast<size_t>(tensor.type->bytes);
  tensor.type->decode(tensor.bytes.last(block).data(), 1, weights.data());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = absl::MakeConstSpan(reinterpret_cast<const std::byte*>(data), size);
  const std::string source = "fuzzed.gguf";
  const auto contents = sluice::ParseGguf(file, source);
  if (!contents.ok()) return 0;
  for (const auto& [name, tensor] : contents->tensors) {
    SLUICE_CHECK(tensor.bytes.empty() ||
                 (tensor.bytes.data() >= file.data() &&
                  tensor.bytes.data() + tensor.bytes.size() <= file.data() + file.size()));
    DecodeLast(tensor);
  }
  const sluice::GgufView view{source, contents->metadata, contents->tensors};
  if (const auto config = sluice::MakeGgufConfig(view); config.ok()) {
    // Refused or read.
    (void)sluice::ParseModelConfig(config->config, config->generation, source).ok();
  }
  if (auto config = sluice::GgufTokenizerConfig(view); config.ok()) {
    (void)sluice::TokenizerFromGguf(view, *std::move(config)).ok();
  }
  return 0;
}
