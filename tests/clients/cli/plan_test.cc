// `sluice plan` on folders of small models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/clients/cli/fake_pipeline.h"
#include "tests/services/model/model_folder.h"

namespace sluice::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PlanTest : public ::testing::Test {
 protected:
  PlanTest() {
    folder_.Write("config.json", TinyLlamaConfig());
    folder_.Write("model.safetensors", SafetensorsBytes(TinyLlamaTensors(DType::kF32)));
  }

  nlohmann::json Json(const std::vector<std::string>& flags) {
    std::vector<std::string> arguments = {"plan", "--json", "--model", folder_.path()};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    FakeEnvironment fake;
    EXPECT_EQ(fake.Run(arguments), 0) << fake.err.str();
    return nlohmann::json::parse(fake.out.str(), nullptr, /*allow_exceptions=*/false);
  }

  const TempFolder folder_;
};

TEST_F(PlanTest, SaysWhatEveryProcessKeeps) {
  // 3 layers, 2 KV heads of 4: 2 x 3 x 2 x 4 x 4 bytes a position, in blocks of 16.
  const nlohmann::json plan = Json({"--tp", "2", "--context", "20", "--sequences", "3"});
  EXPECT_EQ(plan["weights"], "f32");
  EXPECT_EQ(plan["kv_bytes_per_position"], 192);
  ASSERT_EQ(plan["processes"].size(), 4u);
  EXPECT_EQ(plan["processes"][0]["process"], "embedding");
  EXPECT_EQ(plan["processes"][0]["weight_bytes"], 10 * 16 * 4);
  EXPECT_EQ(plan["processes"][2]["process"], "shard-0-1");
  EXPECT_EQ(plan["processes"][2]["kv_bytes"], 3 * 32 * 96);
  EXPECT_EQ(plan["processes"][3]["process"], "sampler");
  EXPECT_EQ(plan["processes"][3]["weight_bytes"], (10 * 16 + 16) * 4);
  uint64_t sum = 0;
  for (const auto& process : plan["processes"]) {
    sum += process["weight_bytes"].get<uint64_t>() + process["kv_bytes"].get<uint64_t>();
  }
  EXPECT_EQ(plan["bytes"], sum);
}

TEST_F(PlanTest, PrintsATable) {
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"plan", "--model", folder_.path(), "--context", "20"}), 0);
  EXPECT_THAT(fake.out.str(), HasSubstr("parameters, weights f32, keys and values f32\n"));
  EXPECT_THAT(fake.out.str(), HasSubstr("\nshard-0-0    0 to 2    0 to 1 "));
  EXPECT_THAT(fake.out.str(),
              HasSubstr("\n1 sequence of 20 positions of 192 bytes: --kv_cache_mib 1.\n"));
  EXPECT_THAT(fake.err.str(), IsEmpty());
}

TEST_F(PlanTest, NeedsNoWeights) {
  std::filesystem::remove(folder_.PathOf("model.safetensors"));
  EXPECT_EQ(Json({})["weights"], "bf16");
  EXPECT_EQ(Json({"--weights", "f32", "--kv_dtype", "bf16"})["kv_bytes_per_position"], 96);
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"plan", "--model", folder_.path(), "--weights", "int8"}), 0);
  EXPECT_THAT(fake.out.str(), HasSubstr("weights int8 (the folder has none yet)"));
}

TEST_F(PlanTest, TakesAbsentWeightsForWhatTheConfigurationSays) {
  std::filesystem::remove(folder_.PathOf("model.safetensors"));
  nlohmann::json config = nlohmann::json::parse(TinyLlamaConfig());
  config["quantization_config"]["quant_method"] = "fp8";
  folder_.Write("config.json", config.dump());
  EXPECT_EQ(Json({})["weights"], "fp8");
  EXPECT_EQ(Json({"--weights", "bf16"})["weights"], "bf16");
}

TEST_F(PlanTest, RefusesWhatTheModelCannot) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--tp", "3"}, "accepted for this model: 1, 2, 4"},
      {{"--pp", "4"}, "stages"},
      {{"--context", "100000000"}, "or more with --rope_scaling"},
  };
  for (const auto& [flags, message] : cases) {
    std::vector<std::string> arguments = {"plan", "--model", folder_.path()};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    FakeEnvironment fake;
    EXPECT_EQ(fake.Run(arguments), 1) << message;
    EXPECT_THAT(fake.out.str(), IsEmpty());
    EXPECT_THAT(fake.err.str(), HasSubstr(message));
  }
  folder_.Write("model.safetensors", "short");
  FakeEnvironment broken;
  EXPECT_EQ(broken.Run({"plan", "--model", folder_.path()}), 1);
  EXPECT_THAT(broken.err.str(), HasSubstr("model.safetensors"));
}

}  // namespace
}  // namespace sluice::testing
