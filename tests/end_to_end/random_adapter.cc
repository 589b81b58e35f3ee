#include "tests/end_to_end/random_adapter.h"

#include <filesystem>
#include <fstream>
#include <random>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "services/model/model_config.h"
#include "services/model/safetensors_writer.h"

namespace sluice::testing {
namespace {

struct Projection {
  const char* module;
  int64_t outputs;
  int64_t inputs;
};

}  // namespace

void WriteRandomAdapter(const std::string& folder, const std::string& model, uint64_t seed,
                        int rank) {
  const absl::StatusOr<ModelConfig> config = LoadModelConfig(model);
  SLUICE_CHECK(config.ok());
  const int64_t hidden = config->hidden_size;
  const int64_t q = int64_t{config->num_heads} * config->head_dim;
  const int64_t kv = int64_t{config->num_kv_heads} * config->head_dim;
  const int64_t inner = std::get<DenseMlpSpec>(config->layers.front().mlp).width;
  const Projection projections[] = {
      {"self_attn.q_proj", q, hidden},  {"self_attn.k_proj", kv, hidden},
      {"self_attn.v_proj", kv, hidden}, {"self_attn.o_proj", hidden, q},
      {"mlp.gate_proj", inner, hidden}, {"mlp.up_proj", inner, hidden},
      {"mlp.down_proj", hidden, inner}};
  std::mt19937_64 random(seed);
  std::vector<std::pair<std::string, std::vector<float>>> values;
  std::vector<std::vector<uint64_t>> shapes;
  const auto add = [&](const std::string& name, int64_t rows, int64_t columns) {
    std::vector<float> matrix(rows * columns);
    for (float& each : matrix) each = static_cast<float>(random() % 2001) / 1000 - 1;
    values.emplace_back(name, std::move(matrix));
    shapes.push_back({static_cast<uint64_t>(rows), static_cast<uint64_t>(columns)});
  };
  for (int layer = 0; layer < config->num_layers(); ++layer) {
    for (const auto& [module, outputs, inputs] : projections) {
      const std::string name =
          absl::StrCat("base_model.model.model.layers.", layer, ".", module, ".lora_");
      add(name + "A.weight", rank, inputs);
      add(name + "B.weight", outputs, rank);
    }
  }
  std::vector<TensorToWrite> tensors;
  for (size_t i = 0; i < values.size(); ++i) {
    const std::vector<float>& matrix = values[i].second;
    tensors.push_back(
        {values[i].first,
         DType::kF32,
         shapes[i],
         {reinterpret_cast<const std::byte*>(matrix.data()), matrix.size() * sizeof(float)}});
  }
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/adapter_config.json")
      << R"({"peft_type": "LORA", "bias": "none", "lora_alpha": 0.04, "r": )" << rank << "}";
  SLUICE_CHECK(WriteSafetensors(folder + "/adapter_model.safetensors", tensors).ok());
}

}  // namespace sluice::testing
