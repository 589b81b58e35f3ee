// Fuzzes the reading of adapters: whatever adapter_config.json and adapter_model.safetensors hold,
// they are refused with a status, or all that they change is read. The first half of the input, up to
// a zero byte, is the configuration.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>

#include "kernels/check.h"
#include "services/model/adapter_source.h"
#include "services/model/checkpoint.h"
#include "services/model/model_families.h"
#include "tests/fuzz/temp_folder.h"

namespace {

constexpr char kConfig[] = R"({
  "model_type": "llama", "vocab_size": 3, "hidden_size": 4, "intermediate_size": 4,
  "num_hidden_layers": 1, "num_attention_heads": 1, "max_position_embeddings": 8,
  "tie_word_embeddings": false})";

void Write(const std::string& folder, const std::string& name, const std::string& bytes) {
  std::ofstream(folder + "/" + name, std::ios::binary) << bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const sluice::TempFolder folder;
  // The least that opens as the files of a model, which adapters' modules are looked up in.
  static const bool is_written = [] {
    Write(folder.path(), "model.safetensors", std::string("\2\0\0\0\0\0\0\0{}", 10));
    return true;
  }();
  SLUICE_CHECK(is_written);
  static const auto& config =
      *new sluice::ModelConfig(*sluice::ParseModelConfig(kConfig, "", "fuzzed"));
  static const auto& places = *new sluice::TensorPlaces(
      config, *sluice::FindModelFamily("llama")->names, *sluice::Checkpoint::Open(folder.path()));
  const std::string input(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(input.find('\0'), input.size());
  Write(folder.path(), "adapter_config.json", input.substr(0, end));
  Write(folder.path(), "adapter_model.safetensors", end < size ? input.substr(end + 1) : "");
  const auto adapter = sluice::AdapterSource::Open(folder.path(), config, places, {.max_rank = 64});
  if (!adapter.ok()) {
    SLUICE_CHECK(!adapter.status().message().empty());
    return 0;
  }
  for (const sluice::TensorId tensor : sluice::AllTensors(config)) {
    const sluice::MatrixShape shape = sluice::ShapeOf(tensor, config);
    if (adapter->Has(tensor)) {
      const auto factors = adapter->Read(tensor, sluice::WholeOf(shape));
      SLUICE_CHECK(factors.rank >= 1 && factors.rank <= 64);
      SLUICE_CHECK(factors.a.size() == static_cast<size_t>(factors.rank * shape.columns));
      SLUICE_CHECK(factors.b.size() == static_cast<size_t>(factors.rank * shape.rows));
    }
    if (adapter->Replaces(tensor)) {
      const auto rows = adapter->ReadSaved(tensor, {0, shape.rows});
      SLUICE_CHECK(rows.size() == static_cast<size_t>(shape.size()));
    }
  }
  return 0;
}
