// Fuzzes the reading of a quantised model's weights, by `sluice quantize` or others: whatever
// model.safetensors holds, it is refused with a status or all its tensors are read.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "kernels/check.h"
#include "services/model/weights.h"
#include "tests/fuzz/temp_folder.h"

namespace {

constexpr char kConfig[] = R"({
  "model_type": "llama", "vocab_size": 3, "hidden_size": 32, "intermediate_size": 32,
  "num_hidden_layers": 1, "num_attention_heads": 1, "max_position_embeddings": 8,
  "tie_word_embeddings": true, "quantization_config": )";
constexpr const char* kQuantizations[] = {
    R"({"quant_method": "sluice", "version": 1, "bits": 8, "group_size": 32,
        "checkpoint_id": "0123456789abcdef"})",
    R"({"quant_method": "sluice", "version": 1, "bits": 8, "type": "float", "group_size": 32,
        "checkpoint_id": "0123456789abcdef"})",
    R"({"quant_method": "sluice", "version": 2, "bits": 4, "group_size": 32,
        "checkpoint_id": "0123456789abcdef"})",
    R"({"quant_method": "fp8"})"};

sluice::ModelConfig ConfigWith(const char* quantization) {
  const auto config =
      sluice::ParseModelConfig(std::string(kConfig) + quantization + "}", "", "fuzzed");
  SLUICE_CHECK(config.ok());
  return *config;
}

void ReadWith(const sluice::ModelConfig& config, const std::string& folder) {
  const auto source = sluice::WeightSource::Open(folder, config);
  if (!source.ok()) return;
  for (const sluice::TensorId tensor : sluice::AllTensors(config)) {
    const sluice::MatrixShape shape = sluice::ShapeOf(tensor, config);
    const auto floats = source->ReadFloats(tensor, sluice::WholeOf(shape));
    SLUICE_CHECK(!floats.ok() || floats->size() == static_cast<size_t>(shape.size()));
  }
  const sluice::TensorId query{sluice::TensorRole::kQ, 0};
  const sluice::MatrixShape shape = sluice::ShapeOf(query, config);
  const auto format = FormatOf(query, config, config.quantization->format);
  std::vector<std::byte> rows(shape.rows * sluice::RowBytes(format, shape.columns));
  // Refused or read.
  (void)source->Read(query, sluice::WholeOf(shape), format, absl::MakeSpan(rows));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const sluice::TempFolder folder;
  std::ofstream(folder.path() + "/model.safetensors", std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  for (const char* quantization : kQuantizations) {
    ReadWith(ConfigWith(quantization), folder.path());
  }
  return 0;
}
