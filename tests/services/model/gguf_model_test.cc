// GGUF files as models: configuration, weights, identity, and what is refused.
#include "services/model/gguf_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "services/model/identity.h"
#include "services/model/model_config.h"
#include "services/model/quantize.h"
#include "services/model/weights.h"
#include "tests/services/model/gguf_bytes.h"
#include "tests/services/model/model_folder.h"

namespace sluice::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kF32 = 0, kQ8_0 = 8;

absl::StatusOr<ModelConfig> ConfigOf(const GgufBytes& bytes) {
  const TempFolder folder;
  return LoadModelConfig(folder.Write("m.gguf", bytes.Build()));
}

std::string GgufRefusal(const GgufBytes& bytes) {
  const TempFolder folder;
  const std::string path = folder.Write("m.gguf", bytes.Build());
  const auto config = LoadModelConfig(path);
  if (!config.ok()) return std::string(config.status().message());
  return std::string(WeightSource::Open(path, *config).status().message());
}

TEST(GgufModel, ConfiguresAModel) {
  const auto config = ConfigOf(TinyGguf(GgufBytes()
                                            .Int("tokenizer.ggml.bos_token_id", 1)
                                            .Int("tokenizer.ggml.eos_token_id", 2)
                                            .Int("tokenizer.ggml.eot_token_id", 3)
                                            .Number("general.sampling.temp", 0.5f)));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model_type, "llama");
  EXPECT_EQ(config->vocab_size, 10);
  EXPECT_EQ(config->hidden_size, 64);
  EXPECT_EQ(config->num_layers(), 2);
  EXPECT_EQ(config->num_kv_heads, 2);
  EXPECT_EQ(config->head_dim, 16);
  EXPECT_EQ(config->max_positions, 128);
  EXPECT_FALSE(config->tied_embeddings);
  EXPECT_EQ(config->ropes.front().theta, 5e5);
  EXPECT_EQ(config->norm_eps, 1e-5f);
  EXPECT_EQ(config->bos_token_id, 1);
  EXPECT_THAT(config->eos_token_ids, ElementsAre(2, 3));
  EXPECT_EQ(config->generation.temperature, 0.5);
}

// Llama 3's divisors, as its files have them, are its parameters again.
TEST(GgufModel, RecognisesLlama3Scaling) {
  constexpr double kTheta = 5e5, kOriginal = 64;
  std::string divisors;
  for (int i = 0; i < 8; ++i) {
    const double turns = kOriginal * std::pow(kTheta, -i / 8.0) / (2 * M_PI);
    const double smooth = std::min(std::max((turns - 1) / 3, 0.0), 1.0);
    divisors += BytesOf(static_cast<float>(1 / ((1 - smooth) / 8 + smooth)));
  }
  const auto config =
      ConfigOf(TinyGguf(GgufBytes().Tensor("rope_freqs.weight", {8}, kF32, divisors)));
  ASSERT_TRUE(config.ok()) << config.status();
  const RopeConfig& rope = config->ropes.front();
  EXPECT_EQ(rope.scaling, RopeScaling::kLlama3);
  EXPECT_EQ(rope.factor, 8);
  EXPECT_EQ(rope.original_positions, 64);
}

TEST(GgufModel, TakesOtherDivisorsAsTheyAre) {
  std::string divisors;
  for (int i = 0; i < 8; ++i) divisors += BytesOf(1.0f + static_cast<float>(i * i));
  const auto config =
      ConfigOf(TinyGguf(GgufBytes().Tensor("rope_freqs.weight", {8}, kF32, divisors)));
  ASSERT_TRUE(config.ok()) << config.status();
  const RopeConfig& rope = config->ropes.front();
  EXPECT_EQ(rope.scaling, RopeScaling::kLongRope);
  EXPECT_THAT(rope.long_factors, ElementsAre(1, 2, 5, 10, 17, 26, 37, 50));
  EXPECT_EQ(rope.short_factors, rope.long_factors);
  EXPECT_EQ(rope.attention_factor, 1);
}

// Rows 2 i and 2 i + 1 of a head in the file are rows i and i + D / 2 of the model.
TEST(GgufModel, UndoesThePairingOfRows) {
  const TempFolder folder;
  const std::string path = folder.Write("m.gguf", TinyGguf().Build());
  const auto config = LoadModelConfig(path);
  ASSERT_TRUE(config.ok()) << config.status();
  const auto source = WeightSource::Open(path, *config);
  ASSERT_TRUE(source.ok()) << source.status();
  const std::string name = "blk.1.attn_q.weight";
  const auto rows = source->ReadFloats({TensorRole::kQ, 1}, {{16, 32}, {8, 10}});
  ASSERT_TRUE(rows.ok()) << rows.status();
  for (int row = 0; row < 16; ++row) {
    const int stored = 16 + row % 8 * 2 + row / 8;
    EXPECT_EQ((*rows)[2 * row], ElementOf(name, stored * 64 + 8)) << row;
    EXPECT_EQ((*rows)[2 * row + 1], ElementOf(name, stored * 64 + 9)) << row;
  }
  const auto value = source->ReadFloats({TensorRole::kV, 1}, {{5, 6}, {0, 1}});
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ((*value)[0], ElementOf("blk.1.attn_v.weight", 5 * 64));
}

// A slice that begins and ends within blocks.
TEST(GgufModel, ReadsSlicesOfBlocks) {
  std::string block = BytesOf<uint16_t>(0x3800);  // a half
  for (int i = 0; i < 32; ++i) block += static_cast<char>(i - 16);
  std::string rows;
  for (int i = 0; i < 2 * 64; ++i) rows += block;  // [64, 64]
  GgufBytes bytes;
  bytes.Tensor("blk.0.attn_output.weight", {64, 64}, kQ8_0, rows);
  std::string tiny = TinyGguf(bytes).Build();
  // The one in F32 goes by another name.
  const std::string name = GgufText("blk.0.attn_output.weight");
  tiny.replace(tiny.rfind(name), name.size(), GgufText("blk.0.attn_outpuu.weight"));
  const TempFolder folder;
  const std::string path = folder.Write("m.gguf", tiny);
  const auto config = LoadModelConfig(path);
  ASSERT_TRUE(config.ok()) << config.status();
  const auto source = WeightSource::Open(path, *config);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(source->BlockFormats(), "Q8_0");
  const auto slice = source->ReadFloats({TensorRole::kO, 0}, {{3, 5}, {30, 34}});
  ASSERT_TRUE(slice.ok()) << slice.status();
  EXPECT_THAT(*slice, ElementsAre(7, 7.5, -8, -7.5, 7, 7.5, -8, -7.5));
}

TEST(GgufModel, RefusesWhatDoesNotFit) {
  EXPECT_THAT(GgufRefusal(GgufBytes().Text("general.architecture", "falcon")),
              HasSubstr("m.gguf: general.architecture is \"falcon\"; accepted: llama, qwen2"));
  EXPECT_THAT(GgufRefusal(GgufBytes().Text("general.architecture", "llama")),
              HasSubstr("tensor \"token_embd.weight\" is missing"));
  EXPECT_THAT(GgufRefusal(TinyGguf(GgufBytes().Text("llama.attention.key_length", "x"))),
              HasSubstr("m.gguf: llama.attention.key_length is \"x\"; accepted: an integer"));
  EXPECT_THAT(
      GgufRefusal(TinyGguf(GgufBytes().Int("llama.attention.key_length", 32))),
      HasSubstr("tensor \"blk.0.attn_q.weight\" has shape [64, 64]; accepted: [128, 64], as "
                "its metadata has it"));
  EXPECT_THAT(GgufRefusal(TinyGguf(GgufBytes().Ints("llama.attention.key_length", {16, 32}))),
              HasSubstr("an integer, or the same one for all layers"));
  EXPECT_THAT(GgufRefusal(TinyGguf(GgufBytes().Text("llama.rope.scaling.type", "spiral"))),
              HasSubstr("llama.rope.scaling.type is \"spiral\""));
  EXPECT_THAT(
      GgufRefusal(TinyGguf(GgufBytes().Floats("rope_freqs.weight", {5}))),
      HasSubstr("tensor \"rope_freqs.weight\" is of another shape or type; accepted: F32 [8]"));
  EXPECT_THAT(
      GgufRefusal(TinyGguf(GgufBytes().Int("llama.expert_count", 4))),
      HasSubstr("m.gguf: tensor \"blk.0.ffn_gate_inp.weight\" of shape [4, 64] is missing"));
}

// Of 3 experts, whose gates, ups and downs lie together each.
GgufBytes TinyMixture(const std::vector<uint64_t>& gates = {3, 32, 64}) {
  GgufBytes bytes;
  bytes.Int("llama.expert_count", 3).Int("llama.expert_used_count", 2);
  for (int layer = 0; layer < 2; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    bytes.Floats(block + "ffn_gate_inp.weight", {3, 64})
        .Floats(block + "ffn_gate_exps.weight", gates)
        .Floats(block + "ffn_up_exps.weight", {3, 32, 64})
        .Floats(block + "ffn_down_exps.weight", {3, 64, 32});
  }
  return TinyGguf(bytes);
}

TEST(GgufModel, ReadsExpertsOfOneTensor) {
  const TempFolder folder;
  const std::string path = folder.Write("m.gguf", TinyMixture().Build());
  const auto config = LoadModelConfig(path);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model_type, "mixtral");
  const auto source = WeightSource::Open(path, *config);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_FALSE(source->ReadsWhole({TensorRole::kUp, 1, 2}));
  const auto up = source->ReadFloats({TensorRole::kUp, 1, 2}, {{5, 6}, {3, 5}});
  ASSERT_TRUE(up.ok()) << up.status();
  const int64_t first = (2 * 32 + 5) * 64 + 3;
  EXPECT_THAT(*up, ElementsAre(ElementOf("blk.1.ffn_up_exps.weight", first),
                               ElementOf("blk.1.ffn_up_exps.weight", first + 1)));
}

TEST(GgufModel, RefusesExpertsOfAnotherShape) {
  EXPECT_THAT(GgufRefusal(TinyMixture({2, 32, 64})),
              HasSubstr("tensor \"blk.0.ffn_gate_exps.weight\" has shape [2, 32, 64]; accepted: "
                        "[3, 32, 64], as its metadata has it"));
}

// Blocks of `type`, all of them the same.
std::string Blocks(int count, const std::string& block) {
  std::string blocks;
  for (int i = 0; i < count; ++i) blocks += block;
  return blocks;
}

// TinyGguf with queries, keys and values of its first layer in blocks.
std::string WithBlocks(uint32_t type, const std::string& block) {
  GgufBytes bytes;
  const std::string stem = "blk.0.attn_";
  bytes.Tensor(stem + "q.weight", {64, 64}, type, Blocks(128, block))
      .Tensor(stem + "k.weight", {32, 64}, type, Blocks(64, block))
      .Tensor(stem + "v.weight", {32, 64}, type, Blocks(64, block));
  std::string tiny = TinyGguf(bytes).Build();
  // Those in F32 go by other names.
  for (const auto& [name, other] :
       {std::pair("q.weight", "Q.weight"), {"k.weight", "K.weight"}, {"v.weight", "V.weight"}}) {
    const std::string text = GgufText(stem + name);
    tiny.replace(tiny.rfind(text), text.size(), GgufText(stem + other));
  }
  return tiny;
}

std::vector<float> ReadAs(const WeightSource& source, TensorId tensor, const TensorSlice& slice,
                          WeightFormat as) {
  std::vector<std::byte> rows(slice.rows.size() * RowBytes(as, slice.columns.size()));
  const absl::Status read = source.Read(tensor, slice, as, absl::MakeSpan(rows));
  EXPECT_TRUE(read.ok()) << read;
  std::vector<float> numbers(slice.size());
  RecodeRows(as, rows, WeightFormat::kF32, slice.columns.size(),
             {reinterpret_cast<std::byte*>(numbers.data()), numbers.size() * sizeof(float)});
  return numbers;
}

// What is exact in a format of ours stays in it, and is what it stands for.
TEST(GgufModel, KeepsBlocksThatAFormatHolds) {
  struct Case {
    uint32_t type;
    std::string block;
    WeightFormat kept;
  };
  std::string codes, five(4, '\x5a');
  for (int i = 0; i < 32; ++i) codes += static_cast<char>(i * 29);
  const std::string half = BytesOf<uint16_t>(0xb801);  // just below minus a half
  const std::string four = codes.substr(0, 16);
  const Case cases[] = {{2, half + four, WeightFormat::kInt4Zp},
                        {6, half + five + four, WeightFormat::kInt6K},
                        {kQ8_0, half + codes, WeightFormat::kInt8Zp},
                        {39, std::string(1, '\x7a') + four, WeightFormat::kMxFp4},
                        {3, half + half + four, WeightFormat::kInt4K}};
  for (const Case& each : cases) {
    const TempFolder folder;
    const std::string path = folder.Write("m.gguf", WithBlocks(each.type, each.block));
    const auto config = LoadModelConfig(path);
    ASSERT_TRUE(config.ok()) << config.status();
    const auto source = WeightSource::Open(path, *config);
    ASSERT_TRUE(source.ok()) << source.status();
    const WeightFormat wanted = *source->Resolve(WeightType::kAuto);
    EXPECT_EQ(wanted, each.kept) << each.type;
    for (const TensorRole role : {TensorRole::kQ, TensorRole::kK, TensorRole::kV}) {
      EXPECT_EQ(FormatOf({role, 0}, *config, wanted), each.kept) << each.type;
      // The other layer's are in F32, and so is the embedding.
      EXPECT_EQ(FormatOf({role, 1}, *config, wanted), WeightFormat::kF32) << each.type;
    }
    EXPECT_EQ(FormatOf({TensorRole::kEmbedding}, *config, wanted), WeightFormat::kF32);
    EXPECT_EQ(FormatOf({TensorRole::kHead}, *config, wanted), WeightFormat::kF32);
    const TensorSlice slice{{3, 20}, {32, 64}};
    EXPECT_EQ(ReadAs(*source, {TensorRole::kQ, 0}, slice, each.kept),
              ReadAs(*source, {TensorRole::kQ, 0}, slice, WeightFormat::kF32))
        << each.type;
    // Another format is made of the numbers.
    EXPECT_EQ(*source->Resolve(WeightType::kInt8), WeightFormat::kInt8);
    EXPECT_THAT(source->KeptBlocks(WeightFormat::kInt8), HasSubstr(" as int8"));
  }
}

TEST(GgufModel, RefusesScalesOfBlocksThatAreNotFinite) {
  const TempFolder folder;
  const std::string path =
      folder.Write("m.gguf", WithBlocks(kQ8_0, BytesOf<uint16_t>(0x7c00) + std::string(32, '\1')));
  const auto config = LoadModelConfig(path);
  ASSERT_TRUE(config.ok()) << config.status();
  const auto source = WeightSource::Open(path, *config);
  ASSERT_TRUE(source.ok()) << source.status();
  std::vector<std::byte> rows(RowBytes(WeightFormat::kInt8Zp, 64));
  const absl::Status read = source->Read({TensorRole::kV, 0}, {{0, 1}, {0, 64}},
                                         WeightFormat::kInt8Zp, absl::MakeSpan(rows));
  EXPECT_THAT(std::string(read.message()),
              HasSubstr("m.gguf: tensor \"blk.0.attn_v.weight\" has a scale that is not finite"));
}

TEST(GgufModel, IsNamedByItsFile) {
  const TempFolder folder;
  const std::string path = folder.Write("Tiny-Q8_0.gguf", TinyGguf().Build());
  const auto identity = IdentifyModel(path);
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_EQ(identity->name, "Tiny-Q8_0");
  EXPECT_EQ(ModelName("x/Tiny-00001-of-00003.gguf"), "Tiny");
  const std::string other = folder.Write(
      "other.gguf", TinyGguf(GgufBytes().Int("llama.attention.sliding_window", 8)).Build());
  EXPECT_NE(IdentifyModel(other)->fingerprint, identity->fingerprint);
}

GgufBytes Part(int number, int count, int tensors) {
  GgufBytes bytes;
  return bytes.Int("split.no", number)
      .Int("split.count", count)
      .Int("split.tensors.count", tensors);
}

TEST(GgufModel, JoinsTheParts) {
  const TempFolder folder;
  const std::string first =
      folder.Write("m-00001-of-00002.gguf", Part(0, 2, 2).Floats("t", {8}).Build());
  folder.Write("m-00002-of-00002.gguf", Part(1, 2, 2).Floats("u", {8}).Build());
  const auto model = GgufModel::Open(first);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_NE(model->view().FindTensor("u"), nullptr);
}

TEST(GgufModel, RefusesSetsThatDoNotFit) {
  const TempFolder folder;
  const auto refusal = [&](const GgufBytes& one, const GgufBytes& two) {
    const std::string first = folder.Write("m-00001-of-00002.gguf", one.Build());
    folder.Write("m-00002-of-00002.gguf", two.Build());
    return std::string(GgufModel::Open(first).status().message());
  };
  EXPECT_THAT(refusal(Part(0, 2, 2).Floats("t", {8}), Part(1, 2, 2).Floats("t", {8})),
              HasSubstr("has the tensor \"t\", which another part of the set has, too"));
  EXPECT_THAT(refusal(Part(0, 2, 3).Floats("t", {8}), Part(1, 2, 3).Floats("u", {8})),
              HasSubstr("says its set holds 3 tensors; its 2 parts hold 2"));
  EXPECT_THAT(refusal(Part(0, 2, 2).Floats("t", {8}), Part(0, 2, 2).Floats("u", {8})),
              HasSubstr("says it is part 1 of 2; accepted: 2 of 2"));
  const std::string alone = folder.Write("n-00001-of-00002.gguf", Part(0, 2, 2).Build());
  EXPECT_EQ(GgufModel::Open(alone).status().code(), absl::StatusCode::kNotFound);
  const std::string second = folder.Write("o-00002-of-00002.gguf", Part(1, 2, 2).Build());
  EXPECT_THAT(std::string(GgufModel::Open(second).status().message()),
              HasSubstr("is part 2 of 2; accepted: the first of a set"));
}

TEST(GgufModel, IsNotQuantizedAgainIntoAFolder) {
  const TempFolder folder;
  const auto result = QuantizeModel({.model = folder.Write("m.gguf", TinyGguf().Build()),
                                     .out = folder.PathOf("out"),
                                     .format = WeightFormat::kInt8},
                                    nullptr);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace sluice::testing
