#include "tests/services/model/random_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "services/model/json_fields.h"
#include "services/model/shard_plan.h"
#include "services/model/weights.h"

namespace sluice::testing {
namespace {

using ::testing::IsSupersetOf;
using ::testing::SizeIs;

constexpr uint32_t kSeeds = 40;

ModelConfig ConfigOf(const RandomModelOptions& options) {
  const auto config = ParseModelConfig(RandomModelConfig(options), "", "random");
  EXPECT_TRUE(config.ok()) << config.status();
  return config.value_or(ModelConfig{});
}

TEST(RandomModel, EverySeedGivesAModelOfAnyFamilyThatRanksCanShare) {
  for (const std::string& type : ModelTypes()) {
    for (uint32_t seed = 0; seed < kSeeds; ++seed) {
      SCOPED_TRACE(absl::StrCat(type, ", seed ", seed));
      const ModelConfig config = ConfigOf({.model_type = type, .seed = seed});
      EXPECT_THAT(AcceptedRankCounts(config), IsSupersetOf({1, 2, 4}));
      EXPECT_GE(config.max_positions, kRandomModelPositions);
    }
  }
}

bool HasOnlyExperts(const std::string& type) {
  const ModelConfig config = ConfigOf({.model_type = type, .seed = 0});
  return !HasTensor({TensorRole::kDown, 0}, config);
}

TEST(RandomModel, ProjectionsAreQuantizedOrNot) {
  constexpr TensorRole kProjections[] = {TensorRole::kQ, TensorRole::kO, TensorRole::kUp,
                                         TensorRole::kDown};
  for (const std::string& type : ModelTypes()) {
    for (const TensorRole role : kProjections) {
      const TensorId tensor{role, 0};
      std::set<WeightFormat> formats;
      for (uint32_t seed = 0; seed < kSeeds; ++seed) {
        RandomModelOptions options{.model_type = type, .seed = seed};
        formats.insert(FormatOf(tensor, ConfigOf(options), WeightFormat::kInt4));
        options.all_in_groups = true;
        EXPECT_EQ(FormatOf(tensor, ConfigOf(options), WeightFormat::kInt4), WeightFormat::kInt4);
      }
      // Of experts there are only such as have whole groups in every slice.
      if (role == TensorRole::kDown && HasOnlyExperts(type)) continue;
      EXPECT_THAT(formats, SizeIs(2)) << type;
    }
  }
}

TEST(RandomModel, SeedsTurnEverySwitch) {
  std::set<int> kv_heads;
  std::set<RopeScaling> scalings;
  std::set<std::tuple<PositionKind, bool, bool>> positions;  // also: rotary, interleaved
  for (uint32_t seed = 0; seed < kSeeds; ++seed) {
    const ModelConfig llama = ConfigOf({.model_type = "llama", .seed = seed});
    kv_heads.insert(llama.num_kv_heads);
    scalings.insert(llama.ropes.at(0).scaling);
    const ModelConfig textbook = ConfigOf({.model_type = "sluice_decoder", .seed = seed});
    const bool interleaved = !textbook.ropes.empty() && textbook.ropes[0].interleaved;
    positions.emplace(textbook.position, !textbook.ropes.empty(), interleaved);
    for (const LayerSpec& layer : ConfigOf({.model_type = "mistral", .seed = seed}).layers) {
      EXPECT_GT(layer.attention.window, 0);
    }
  }
  EXPECT_THAT(kv_heads, IsSupersetOf({1, 2, 4}));
  EXPECT_THAT(scalings, SizeIs(7));
  EXPECT_THAT(positions, SizeIs(5));
}

TEST(RandomModel, FilesHoldEveryTensorAndFollowFromTheSeed) {
  for (const std::string& type : ModelTypes()) {
    for (const DType stored : {DType::kF32, DType::kBF16}) {
      const TempFolder one, same;
      const RandomModelOptions options{.model_type = type, .seed = 5, .stored = stored};
      const ModelConfig config = WriteRandomModel(options, one);
      WriteRandomModel(options, same);
      const auto source = WeightSource::Open(one.path(), config);
      ASSERT_TRUE(source.ok()) << source.status();
      EXPECT_EQ(source->StoredType(source->places().Of({TensorRole::kEmbedding})), stored);
      const auto text = [](const TempFolder& folder) {
        return ReadTextFile(folder.PathOf("model.safetensors")).value();
      };
      EXPECT_TRUE(text(one) == text(same)) << type;
    }
  }
}

}  // namespace
}  // namespace sluice::testing
