// Loading what is not what `sluice quantize` wrote.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>

#include "services/model/quantized_tensor.h"
#include "services/model/safetensors.h"
#include "services/model/safetensors_writer.h"
#include "tests/services/model/quantize_fixture.h"

namespace sluice::testing {
namespace {

namespace fs = std::filesystem;

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

class QuantizedFilesTest : public QuantizeTest {
 protected:
  // Why out() does not load.
  std::string Refusal() {
    const auto config = LoadModelConfig(out());
    if (!config.ok()) return std::string(config.status().message());
    return std::string(WeightSource::Open(out(), *config).status().message());
  }

  // Edits a file of out().
  void EditConfig(const std::function<void(json&)>& edit) {
    json config = json::parse(TextOf(out() + "/config.json"));
    edit(config);
    folder_.Write("out/config.json", config.dump());
  }
  void EditTensors(const std::function<void(std::map<std::string, OwnedTensor>&)>& edit);
};

// The header as JSON and the data, so that types that no DType names pass through.
void QuantizedFilesTest::EditTensors(
    const std::function<void(std::map<std::string, OwnedTensor>&)>& edit) {
  const std::string path = out() + "/model.safetensors";
  const auto file = OpenSafetensors(path);
  ASSERT_TRUE(file.ok()) << file.status();
  std::map<std::string, OwnedTensor> tensors;
  std::map<std::string, std::string> types;
  for (const auto& [name, tensor] : file->contents().tensors) {
    tensors[name] = {name, DType::kF32, tensor.shape, {tensor.bytes.begin(), tensor.bytes.end()}};
    types[name] = tensor.type.name;
  }
  edit(tensors);
  std::vector<TensorHeader> headers;
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const bool replaced = tensor.dtype != DType::kF32;  // by one made with MakeTensor
    headers.push_back({name, replaced ? std::string(Name(tensor.dtype)) : types[name], tensor.shape,
                       tensor.bytes.size()});
    data.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  }
  const std::string header = SafetensorsHeader(headers, file->contents().metadata);
  folder_.Write("out/model.safetensors", header + data);
}

TEST_F(QuantizedFilesTest, WeightsOfAnotherModelAreRefused) {
  WriteModel(LlamaConfig());
  ASSERT_TRUE(Quantize().ok());
  const json own = json::parse(TextOf(out() + "/config.json"));
  // The same shapes, other weights.
  WriteModel(LlamaConfig(), DType::kF32);
  auto tensors = TensorsOf(ConfigOf(in()), DType::kF32);
  tensors[0].bytes[7] = std::byte{0x40};
  folder_.Write("in/model.safetensors", SafetensorsBytes(tensors));
  const std::string other = folder_.PathOf("other");
  ASSERT_TRUE(QuantizeModel({.model = in(), .out = other}, nullptr).ok());
  fs::copy_file(other + "/model.safetensors", out() + "/model.safetensors",
                fs::copy_options::overwrite_existing);
  EXPECT_THAT(Refusal(), AllOf(HasSubstr(out() + "/model.safetensors: holds weights of another"),
                               HasSubstr(own["quantization_config"]["checkpoint_id"])));
  fs::copy_file(in() + "/model.safetensors", out() + "/model.safetensors",
                fs::copy_options::overwrite_existing);
  EXPECT_THAT(Refusal(), HasSubstr("holds no weights that `sluice quantize` wrote"));
  fs::copy_file(other + "/model.safetensors", out() + "/model.safetensors",
                fs::copy_options::overwrite_existing);
  EditConfig([](json& config) { config.erase("quantization_config"); });
  EXPECT_THAT(Refusal(),
              HasSubstr("holds weights that `sluice quantize` wrote, but config.json has no "
                        "quantization_config of it"));
}

TEST_F(QuantizedFilesTest, AConfigurationOfAnotherShapeIsRefused) {
  WriteModel(LlamaConfig());
  ASSERT_TRUE(Quantize().ok());
  EditConfig([](json& config) { config["intermediate_size"] = 512; });
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("mlp.gate_proj.weight\" has shape [256, 64]"),
                               HasSubstr("accepted: [512, 64]")));
  EditConfig([](json& config) {
    config["intermediate_size"] = 256;
    config["quantization_config"]["bits"] = 4;
    config["quantization_config"]["version"] = 2;
  });
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("lm_head.weight\" has shape [40, 64]"),
                               HasSubstr("accepted: [40, 48]")));
}

TEST_F(QuantizedFilesTest, ScalesThatAreMissingOrOthersAreRefused) {
  WriteModel(LlamaConfig());
  ASSERT_TRUE(Quantize().ok());
  const std::string name = "model.layers.1.mlp.up_proj.weight_scale";
  const std::string whole = TextOf(out() + "/model.safetensors");
  EditTensors([&](auto& tensors) { tensors.erase(name); });
  EXPECT_THAT(Refusal(), HasSubstr(name + "\" of shape [256, 2] is missing"));
  folder_.Write("out/model.safetensors", whole);
  EditTensors([&](auto& tensors) { tensors[name] = MakeTensor(name, DType::kF16, {256, 2}); });
  EXPECT_THAT(Refusal(), HasSubstr(name + "\" has dtype F16; accepted: BF16"));
  EditTensors([&](auto& tensors) { tensors[name] = MakeTensor(name, DType::kBF16, {256, 4}); });
  EXPECT_THAT(Refusal(), HasSubstr(name + "\" has shape [256, 4]; accepted: [256, 2]"));
  folder_.Write("out/model.safetensors", whole);
  const std::string matrix = "lm_head.weight";
  EditTensors([&](auto& tensors) { tensors[matrix] = MakeTensor(matrix, DType::kBF16, {40, 64}); });
  EXPECT_THAT(Refusal(), HasSubstr(matrix + "\" has dtype BF16; accepted: I8"));
}

TEST_F(QuantizedFilesTest, AQuotientOutOfRangeEndsTheRead) {
  WriteModel(LlamaConfig());
  ASSERT_TRUE(Quantize().ok());
  const std::string name = "model.layers.0.self_attn.q_proj.weight";
  EditTensors([&](auto& tensors) { tensors[name].bytes[70] = std::byte{0x80}; });
  const WeightSource source = SourceOf(out());
  EXPECT_TRUE(source.ReadFloats({TensorRole::kQ, 0}, {{0, 1}, {0, 64}}).ok());
  const auto read = source.ReadFloats({TensorRole::kQ, 0}, {{0, 2}, {0, 64}});
  EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(read.status().message()),
              AllOf(HasSubstr(out()), HasSubstr(name), HasSubstr("-128")));
}

}  // namespace
}  // namespace sluice::testing
