#include "services/model/memory_plan.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "services/model/tensor_roles.h"
#include "tests/services/model/model_folder.h"

namespace sluice::testing {
namespace {

// Sizes as in the published configurations of Llama 3.
ModelConfig Llama3(int layers, int hidden, int intermediate, int heads, int head_dim) {
  const nlohmann::json config = {{"model_type", "llama"},
                                 {"num_hidden_layers", layers},
                                 {"hidden_size", hidden},
                                 {"intermediate_size", intermediate},
                                 {"num_attention_heads", heads},
                                 {"num_key_value_heads", 8},
                                 {"head_dim", head_dim},
                                 {"vocab_size", 128256},
                                 {"max_position_embeddings", 8192},
                                 {"rms_norm_eps", 1e-5},
                                 {"rope_theta", 500000.0},
                                 {"hidden_act", "silu"},
                                 {"tie_word_embeddings", layers == 16}};
  return *ParseModelConfig(config.dump(), "", "test");
}

TEST(MemoryPlanTest, CountsTheParametersThatModelCardsName) {
  EXPECT_EQ(NumParameters(Llama3(16, 2048, 8192, 32, 64)), 1'235'814'400u);
  EXPECT_EQ(NumParameters(Llama3(32, 4096, 14336, 32, 128)), 8'030'261'248u);
  EXPECT_EQ(NumParameters(Llama3(80, 8192, 28672, 64, 128)), 70'553'706'496u);
}

TEST(MemoryPlanTest, CountsWhatIsStored) {
  for (const char* norm : {"rmsnorm", "layernorm"}) {
    nlohmann::json json = nlohmann::json::parse(TinyLlamaConfig());
    json["model_type"] = "sluice_decoder";
    json["norm"] = norm;
    json["position"] = "learned";
    json["mlp"] = "gelu";
    json["with_bias"] = norm == std::string("layernorm");
    const auto config = ParseModelConfig(json.dump(), "", "test");
    ASSERT_TRUE(config.ok()) << config.status();
    uint64_t stored = 0;
    for (const OwnedTensor& tensor : TensorsOf(*config, DType::kF32)) stored += tensor.bytes.size();
    EXPECT_EQ(4 * NumParameters(*config), stored);
    const ShardPlan whole = *MakeShardPlan(*config, {});
    EXPECT_EQ(EmbeddingBytes(*config, WeightFormat::kF32) +
                  ShardBytes(*config, whole, WeightFormat::kF32) +
                  HeadBytes(*config, WeightFormat::kF32),
              stored);
  }
}

TEST(MemoryPlanTest, SharesLayersAndHeadsOutAndRepeatsNorms) {
  const ModelConfig config = Llama3(32, 4096, 14336, 32, 128);
  const ShardPlan whole = *MakeShardPlan(config, {});
  const ShardPlan half_of_layers = *MakeShardPlan(config, {.num_stages = 2});
  const ShardPlan half_of_heads = *MakeShardPlan(config, {.num_ranks = 2});
  const uint64_t norms = uint64_t{32} * 2 * 4096 * 4;
  const auto bytes = [&config](const ShardPlan& plan) {
    return ShardBytes(config, plan, WeightFormat::kBF16);
  };
  EXPECT_EQ(2 * bytes(half_of_layers), bytes(whole));
  EXPECT_EQ(2 * (bytes(half_of_heads) - norms), bytes(whole) - norms);
  EXPECT_EQ(KvBytesPerPosition(config, DType::kF32), 256u << 10);
  EXPECT_EQ(KvBytesPerPosition(config, DType::kBF16), 128u << 10);
  // A scale of two bytes besides each head vector.
  EXPECT_EQ(KvBytesPerPosition(config, DType::kF8E4M3), (64u << 10) * 130 / 128);
  EXPECT_EQ(KvBytesPerPosition(config, half_of_heads, DType::kF32), 128u << 10);
  EXPECT_EQ(KvBytesPerPosition(config, half_of_layers, DType::kF32), 128u << 10);
}

// 512 + 64 numbers a position and layer, whatever the number of heads, on every rank.
TEST(MemoryPlanTest, LatentsAreKeptOnceForAllHeads) {
  ModelConfig config = Llama3(61, 7168, 18432, 128, 128);
  for (LayerSpec& layer : config.layers) {
    layer.attention.latent = LatentSpec{
        .query_rank = 1536, .rank = 512, .nope_dim = 128, .rope_dim = 64, .value_dim = 128};
  }
  config.head_dim = 192;
  const ShardPlan quarter = *MakeShardPlan(config, {.num_ranks = 4});
  EXPECT_EQ(KvBytesPerPosition(config, DType::kBF16), 61u * 576 * 2);
  EXPECT_EQ(KvBytesPerPosition(config, DType::kF8E4M3), 61u * 578);
  EXPECT_EQ(KvBytesPerPosition(config, quarter, DType::kBF16), 61u * 576 * 2);
  EXPECT_EQ(KvCopies(config, 4), 4);
  EXPECT_EQ(KvCopies(Llama3(32, 4096, 14336, 32, 128), 4), 1);
  EXPECT_EQ(quarter.o_proj.width, 128 * 128 / 8);
}

// Qwen3-Next: three layers in four have states, of 2 MiB and what 64 positions leave besides.
TEST(MemoryPlanTest, SlotsForStatesAreCountedBesideKeysAndValues) {
  ModelConfig config = Llama3(48, 2048, 5120, 16, 256);
  config.num_kv_heads = 2;
  for (int layer = 0; layer < 48; ++layer) {
    if (layer % 4 == 3) continue;
    config.layers[layer].attention.recurrent = RecurrentSpec{
        .num_heads = 32, .num_key_heads = 16, .key_dim = 128, .value_dim = 128, .conv_width = 4};
  }
  const uint64_t keys = 12u * 2 * 2 * 256 * 2;
  const uint64_t state = (uint64_t{32} * 128 * 128 + 67 * 8192 + 64 * (2048 + 4096 + 32)) * 4;
  EXPECT_EQ(KvBytesPerPosition(config, DType::kBF16), keys);
  EXPECT_EQ(StateSlotBytes(config), 36 * state);
  const ShardPlan half = *MakeShardPlan(config, {.num_ranks = 2});
  EXPECT_EQ(KvBytesPerPosition(config, half, DType::kBF16), keys / 2);
  EXPECT_EQ(StateSlotBytes(config, half), 18 * state);
  const ShardPlan stage = *MakeShardPlan(config, {.num_stages = 2, .stage = 1});
  EXPECT_EQ(KvBytesPerPosition(config, stage, DType::kBF16), keys / 2);
  EXPECT_EQ(StateSlotBytes(config, stage), 18 * state);
}

TEST(MemoryPlanTest, MemoryIsSharedOutBetweenBlocksAndSlots) {
  const auto expect = [](const KvRoom& room, uint64_t blocks, uint64_t slots) {
    EXPECT_EQ(room.num_blocks, blocks);
    EXPECT_EQ(room.num_state_slots, slots);
  };
  expect(DivideKvBytes(1000, 10, 0, 7), 100, 0);
  expect(DivideKvBytes(1000, 10, 100, 0), 50, 5);  // half of it
  expect(DivideKvBytes(1000, 10, 100, 3), 70, 3);  // as asked
  expect(DivideKvBytes(1000, 10, 10, 0), 50, 50);  // no more slots than blocks
  expect(DivideKvBytes(250, 10, 100, 0), 5, 2);    // no fewer than a sequence needs
  expect(DivideKvBytes(200, 10, 100, 0), 0, 2);    // which may be too many
}

}  // namespace
}  // namespace sluice::testing
