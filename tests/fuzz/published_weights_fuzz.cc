// Fuzzes the reading of weights that others quantised, in every layout: whatever model.safetensors
// holds, it is refused with a status or all its tensors are read.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "kernels/check.h"
#include "services/model/published_model.h"
#include "services/model/weight_rule.h"
#include "services/model/weights.h"
#include "tests/fuzz/temp_folder.h"

namespace {

constexpr char kConfig[] = R"({
  "model_type": "llama", "vocab_size": 3, "hidden_size": 32, "intermediate_size": 32,
  "num_hidden_layers": 1, "num_attention_heads": 1, "max_position_embeddings": 8,
  "tie_word_embeddings": true, "quantization_config": )";

// Of stacked experts.
constexpr char kMixtureConfig[] = R"({
  "model_type": "gpt_oss", "vocab_size": 3, "hidden_size": 32, "intermediate_size": 32,
  "num_hidden_layers": 1, "num_attention_heads": 1, "head_dim": 32, "num_local_experts": 2,
  "num_experts_per_tok": 1, "max_position_embeddings": 8, "tie_word_embeddings": true,
  "quantization_config": )";

// A group of compressed-tensors.
std::string Compressed(const std::string& format, const std::string& weights) {
  return R"({"quant_method": "compressed-tensors", "format": ")" + format +
         R"(", "config_groups": {"group_0": {"weights": )" + weights + "}}}";
}

std::vector<std::string> Quantizations() {
  return {
      R"({"quant_method": "awq", "bits": 4, "group_size": 16})",
      R"({"quant_method": "awq", "bits": 4, "group_size": 32})",
      R"({"quant_method": "gptq", "bits": 2, "group_size": -1})",
      R"({"quant_method": "gptq", "bits": 3, "group_size": 32})",
      R"({"quant_method": "gptq", "bits": 4, "group_size": 16, "desc_act": true})",
      R"({"quant_method": "gptq", "bits": 8, "group_size": 32, "checkpoint_format": "gptq_v2"})",
      Compressed("pack-quantized",
                 R"({"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32,
                     "symmetric": false})"),
      Compressed("int-quantized", R"({"num_bits": 8, "type": "int", "strategy": "channel"})"),
      Compressed("float-quantized", R"({"num_bits": 8, "type": "float", "strategy": "tensor"})"),
      Compressed("nvfp4-pack-quantized",
                 R"({"num_bits": 4, "type": "float", "strategy": "tensor_group"})"),
      Compressed("mxfp4-pack-quantized",
                 R"({"num_bits": 4, "type": "float", "strategy": "group"})"),
      R"({"quant_method": "bitsandbytes", "load_in_4bit": true})"};
}

void ReadWith(const std::string& model, const std::string& quantization,
              const std::string& folder) {
  auto config = sluice::ParseModelConfig(model + quantization + "}", "", "fuzzed");
  SLUICE_CHECK(config.ok());
  sluice::DescribePublishedTensors(folder, *config);
  const auto source = sluice::WeightSource::Open(folder, *config);
  if (!source.ok()) return;
  for (const sluice::TensorId tensor : sluice::AllTensors(*config)) {
    const sluice::MatrixShape shape = sluice::ShapeOf(tensor, *config);
    const auto floats = source->ReadFloats(tensor, sluice::WholeOf(shape));
    SLUICE_CHECK(!floats.ok() || floats->size() == static_cast<size_t>(shape.size()));
    const auto format = FormatOf(tensor, *config, config->quantization->format);
    std::vector<std::byte> rows(shape.rows * sluice::RowBytes(format, shape.columns));
    // Refused or read.
    (void)source->Read(tensor, sluice::WholeOf(shape), format, absl::MakeSpan(rows));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const sluice::TempFolder folder;
  static const std::vector<std::string> quantizations = Quantizations();
  std::ofstream(folder.path() + "/model.safetensors", std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  for (const std::string& quantization : quantizations) {
    ReadWith(kConfig, quantization, folder.path());
  }
  ReadWith(kMixtureConfig, R"({"quant_method": "mxfp4"})", folder.path());
  return 0;
}
