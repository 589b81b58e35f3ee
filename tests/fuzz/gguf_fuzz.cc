// Fuzzes what a GGUF file goes through: whatever it holds, it is refused with a status, or its
// tensors lie within it, its blocks are decoded and its metadata becomes a configuration and a
// tokenizer, or is refused.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/check.h"
#include "services/model/gguf/gguf_config.h"
#include "services/model/gguf/gguf_container.h"
#include "services/model/gguf_matrix.h"
#include "services/model/model_config.h"
#include "services/tokenizer/tokenizer_from_gguf.h"

namespace {

constexpr int64_t kMostWeights = int64_t{1} << 16;

// The last block of a tensor, which ends where its bytes do.
void DecodeLast(const sluice::GgufTensor& tensor) {
  if (tensor.type->decode == nullptr || tensor.bytes.empty()) return;
  std::vector<float> weights(static_cast<size_t>(tensor.type->weights));
  const size_t block = static_cast<size_t>(tensor.type->bytes);
  tensor.type->decode(tensor.bytes.last(block).data(), 1, weights.data());
}

// All of it as rows of the formats that hold its blocks, which refuse scales that are not finite.
void ReadBlocks(const std::string& name, const sluice::GgufTensor& tensor) {
  if (tensor.type->weights == 1 || tensor.shape.size() < 2) return;
  const auto columns = static_cast<int64_t>(tensor.shape.back());
  const sluice::StoredTensor stored{.type = {.name = tensor.type->name,
                                             .size = tensor.type->bytes,
                                             .dtype = std::nullopt,
                                             .block = tensor.type->weights,
                                             .decode = tensor.type->decode},
                                    .shape = tensor.shape,
                                    .bytes = tensor.bytes};
  const int64_t rows = columns == 0 ? 0 : stored.bytes.size() / stored.type.BytesOf(columns);
  if (rows == 0 || rows * columns > kMostWeights) return;
  const auto matrix = sluice::OpenGgufMatrix({.file = "fuzzed.gguf",
                                              .name = name,
                                              .type = tensor.type->name,
                                              .shape = tensor.shape,
                                              .bytes = tensor.bytes},
                                             stored, columns);
  std::vector<float> weights(rows * columns);
  SLUICE_CHECK(matrix->Read({0, rows, 0, columns}, absl::MakeSpan(weights)).ok());
  for (const sluice::WeightFormatTraits& traits : sluice::kWeightFormats) {
    const sluice::WeightFormat format = traits.format;
    if (!matrix->IsReadableAs(format)) continue;
    std::vector<std::byte> packed(rows * sluice::RowBytes(format, columns));
    (void)matrix->ReadRows({0, rows, 0, columns}, format, absl::MakeSpan(packed));
  }
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
    ReadBlocks(name, tensor);
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
