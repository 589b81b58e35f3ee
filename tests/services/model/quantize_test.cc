#include "services/model/quantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "services/model/quantized_tensor.h"
#include "services/model/weights.h"
#include "tests/services/model/quantize_fixture.h"
#include "tests/testing/thread_limit.h"

namespace sluice::testing {
namespace {

namespace fs = std::filesystem;

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr WeightFormat kQuantizedFolder[] = {WeightFormat::kInt8, WeightFormat::kInt4,
                                             WeightFormat::kFp8};

// Models whose matrices have whole groups, or not: separate, stacked, transposed and by-head
// projections.
json TiedLlamaConfig() {
  json config = LlamaConfig();
  config["tie_word_embeddings"] = true;
  return config;
}

// o_proj and down_proj have no whole groups.
json OddLlamaConfig() {
  json config = LlamaConfig();
  config["num_attention_heads"] = 8;
  config["intermediate_size"] = 168;
  return config;
}

// Not even the head has.
json OddestLlamaConfig() {
  json config = TiedLlamaConfig();
  config["hidden_size"] = 72;
  config["head_dim"] = 32;
  return config;
}

json Phi3Config() {
  json config = LlamaConfig();
  config["model_type"] = "phi3";
  config["pad_token_id"] = 0;
  return config;
}

json Gpt2Config() {
  return {{"model_type", "gpt2"}, {"vocab_size", 40}, {"n_embd", 64},
          {"n_layer", 2},         {"n_head", 2},      {"n_positions", 20}};
}

json GptNeoxConfig() {
  return {{"model_type", "gpt_neox"}, {"vocab_size", 40},
          {"hidden_size", 64},        {"num_hidden_layers", 2},
          {"num_attention_heads", 2}, {"intermediate_size", 256},
          {"rotary_pct", 0.5},        {"max_position_embeddings", 20}};
}

const std::vector<json>& Configs() {
  static const auto* const configs =
      new std::vector<json>{LlamaConfig(), TiedLlamaConfig(), OddLlamaConfig(), OddestLlamaConfig(),
                            Phi3Config(),  Gpt2Config(),      GptNeoxConfig()};
  return *configs;
}

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  return names;
}

std::vector<std::byte> BytesOf(const WeightSource& source, TensorId tensor,
                               const TensorSlice& slice, WeightFormat as) {
  std::vector<std::byte> bytes(slice.rows.size() * RowBytes(as, slice.columns.size()));
  const absl::Status read = source.Read(tensor, slice, as, absl::MakeSpan(bytes));
  EXPECT_TRUE(read.ok()) << read;
  return bytes;
}

// Whatever any rank reads, it has the bits of the model that is quantised while it is read.
void ExpectSameWeights(const WeightSource& a, const WeightSource& b, const ModelConfig& config,
                       WeightFormat wanted) {
  for (const TensorId tensor : TensorsOutsideLayers(config)) {
    const TensorSlice whole = WholeOf(ShapeOf(tensor, config));
    const WeightFormat as = FormatOf(tensor, config, wanted);
    EXPECT_EQ(BytesOf(a, tensor, whole, as), BytesOf(b, tensor, whole, as))
        << static_cast<int>(tensor.role);
  }
  for (const int ranks : AcceptedRankCounts(config)) {
    const auto plan = MakeShardPlan(config, {.num_ranks = ranks, .rank = ranks - 1});
    ASSERT_TRUE(plan.ok()) << plan.status();
    for (const TensorId tensor : TensorsOfLayer(1, config)) {
      const TensorSlice slice = SliceOf(tensor, config, *plan);
      const WeightFormat as = FormatOf(tensor, config, wanted);
      EXPECT_EQ(BytesOf(a, tensor, slice, as), BytesOf(b, tensor, slice, as))
          << static_cast<int>(tensor.role) << " of " << ranks << " ranks";
    }
  }
}

TEST_F(QuantizeTest, WritesWhatLoadingWouldQuantize) {
  for (const json& config : Configs()) {
    for (const DType stored : {DType::kF32, DType::kBF16, DType::kF16}) {
      for (const WeightFormat format : kQuantizedFolder) {
        SCOPED_TRACE(
            absl::StrCat(config.dump(), " ", std::string(Name(stored)), " ", TypeName(format)));
        WriteModel(config, stored);
        const auto result = Quantize(format);
        ASSERT_TRUE(result.ok()) << result.status();
        const WeightSource quantized = SourceOf(out());
        EXPECT_EQ(*quantized.Resolve(WeightType::kAuto), format);
        ExpectSameWeights(quantized, SourceOf(in()), ConfigOf(in()), format);
        fs::remove_all(out());
      }
    }
  }
}

TEST_F(QuantizeTest, AsPlainNumbersWeightsAreWhatTheQuotientsSay) {
  WriteModel(Phi3Config());
  for (const WeightFormat format : kQuantizedFolder) {
    ASSERT_TRUE(Quantize(format).ok());
    const WeightSource quantized = SourceOf(out());
    const TensorSlice slice{{3, 9}, {32, 64}};
    const auto rows = BytesOf(quantized, {TensorRole::kUp, 1}, slice, format);
    std::vector<float> expected(slice.size());
    const size_t row_bytes = RowBytes(format, 32);
    for (int row = 0; row < 6; ++row) {
      DecodeRow(format, absl::MakeConstSpan(rows).subspan(row * row_bytes, row_bytes),
                absl::MakeSpan(expected).subspan(row * 32, 32));
    }
    EXPECT_EQ(*quantized.ReadFloats({TensorRole::kUp, 1}, slice), expected);
    const auto rounded = BytesOf(quantized, {TensorRole::kUp, 1}, slice, WeightFormat::kBF16);
    for (size_t i = 0; i < expected.size(); ++i) {
      uint16_t bits;
      std::memcpy(&bits, &rounded[2 * i], sizeof(bits));
      EXPECT_EQ(bits, BFloat16FromFloat(expected[i]));
    }
    fs::remove_all(out());
  }
}

TEST_F(QuantizeTest, SlicesOfColumnsHaveTheBitsOfTheWhole) {
  WriteModel(LlamaConfig());
  const WeightSource source = SourceOf(in());
  const TensorSlice whole = WholeOf(ShapeOf({TensorRole::kDown, 0}, ConfigOf(in())));
  for (const WeightFormat format : kQuantizedFolder) {
    const auto all = BytesOf(source, {TensorRole::kDown, 0}, whole, format);
    const size_t all_bytes = RowBytes(format, whole.columns.size());
    for (const IndexRange columns :
         {IndexRange{0, 32}, IndexRange{96, 224}, IndexRange{224, 256}}) {
      const auto part = BytesOf(source, {TensorRole::kDown, 0}, {{5, 8}, columns}, format);
      const size_t part_bytes = RowBytes(format, columns.size());
      for (int row = 0; row < 3; ++row) {
        EXPECT_EQ(
            std::memcmp(&part[row * part_bytes],
                        &all[(5 + row) * all_bytes + RowBytes(format, columns.begin)], part_bytes),
            0);
      }
    }
  }
}

TEST_F(QuantizeTest, SeveralThreadsMayReadAtATime) {
  WriteModel(LlamaConfig());
  ASSERT_TRUE(Quantize().ok());
  for (const std::string& folder : {in(), out()}) {
    const WeightSource source = SourceOf(folder);
    const TensorSlice whole = WholeOf(ShapeOf({TensorRole::kDown, 0}, ConfigOf(in())));
    const auto expected = BytesOf(source, {TensorRole::kDown, 0}, whole, WeightFormat::kInt8);
    const size_t row_bytes = RowBytes(WeightFormat::kInt8, whole.columns.size());
    std::vector<std::byte> read(expected.size());
    std::atomic<int64_t> next = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int64_t row = next++; row < whole.rows.size(); row = next++) {
          EXPECT_TRUE(source
                          .Read({TensorRole::kDown, 0}, whole.Rows(row, row + 1),
                                WeightFormat::kInt8,
                                absl::MakeSpan(read).subspan(row * row_bytes, row_bytes))
                          .ok());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(read, expected);
  }
}

TEST_F(QuantizeTest, DoesWithTheThreadsThatTheSystemGives) {
  if (!CanLimitThreads()) GTEST_SKIP() << "sanitizers start threads by their own means";
  WriteModel(LlamaConfig());
  ASSERT_TRUE(Quantize().ok());
  const std::string few = out() + "-few";
  {
    const ThreadLimit limit(1);
    const auto result = QuantizeModel({.model = in(), .out = few, .num_threads = 8}, nullptr);
    ASSERT_TRUE(result.ok()) << result.status();
  }
  EXPECT_EQ(TextOf(few + "/model.safetensors"), TextOf(out() + "/model.safetensors"));
}

TEST_F(QuantizeTest, TheOtherQuantizedFormatIsNotToBeHad) {
  WriteModel(LlamaConfig());
  ASSERT_TRUE(Quantize(WeightFormat::kInt8).ok());
  const WeightSource source = SourceOf(out());
  EXPECT_EQ(*source.Resolve(WeightType::kInt8), WeightFormat::kInt8);
  EXPECT_EQ(*source.Resolve(WeightType::kF32), WeightFormat::kF32);
  EXPECT_EQ(*source.Resolve(WeightType::kBF16), WeightFormat::kBF16);
  const auto refused = source.Resolve(WeightType::kInt4);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(HasSubstr(out()), HasSubstr("weights as int8"),
                    HasSubstr("accepted: auto, int8, f32, bf16")));
}

TEST_F(QuantizeTest, ProgressEndsAtWhatWasExpected) {
  WriteModel(TiedLlamaConfig(), DType::kBF16);
  std::chrono::steady_clock::time_point now;
  std::string last;
  ProgressOptions options{.what = "work",
                          .write = [&](std::string_view text) { last = text; },
                          .now = [&] { return now += std::chrono::seconds(3); }};
  uint64_t bytes = 0;
  {
    Progress progress(options);
    const auto result = QuantizeModel({.model = in(), .out = out(), .num_threads = 3}, &progress);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_THAT(last, HasSubstr("work: 100% of"));
    EXPECT_LT(result->bytes_written, result->bytes_read);
    bytes = result->bytes_written;
  }
  Progress progress(options);
  const auto source = WeightSource::Open(out(), ConfigOf(out()), &progress);
  ASSERT_TRUE(source.ok()) << source.status();
  const ModelConfig config = ConfigOf(out());
  const auto plan = MakeShardPlan(config, {});
  uint64_t expected = source->BytesOf(*plan);
  for (const TensorId tensor : TensorsOutsideLayers(config)) expected += source->BytesOf(tensor);
  EXPECT_EQ(expected, bytes);
  progress.Expect(expected);
  for (const TensorId tensor : TensorsOutsideLayers(config)) {
    ASSERT_TRUE(source->ReadFloats(tensor, WholeOf(ShapeOf(tensor, config))).ok());
  }
  for (int layer = 0; layer < config.num_layers(); ++layer) {
    for (const TensorId tensor : TensorsOfLayer(layer, config)) {
      EXPECT_THAT(last, ::testing::Not(HasSubstr("100%")));
      ASSERT_TRUE(source->ReadFloats(tensor, SliceOf(tensor, config, *plan)).ok());
    }
  }
  EXPECT_THAT(last, HasSubstr("work: 100% of"));
}

TEST_F(QuantizeTest, AFolderMayHaveSeveralFiles) {
  WriteModel(LlamaConfig());
  const auto one = Quantize();
  ASSERT_TRUE(one.ok()) << one.status();
  const std::string many = folder_.PathOf("many");
  const auto result = QuantizeModel(
      {.model = in(), .out = many, .num_threads = 2, .max_file_bytes = 40000}, nullptr);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->bytes_written, one->bytes_written);
  ASSERT_TRUE(fs::exists(many + "/model-00001-of-00004.safetensors"));
  const json index = json::parse(TextOf(many + "/model.safetensors.index.json"));
  EXPECT_EQ(index["metadata"]["total_size"], result->bytes_written);
  const auto& files = index["weight_map"];
  for (const auto& [name, file] : files.items()) {
    EXPECT_LE(fs::file_size(many + "/" + file.get<std::string>()), 40000u + 4000) << name;
    if (files.contains(name + kScaleSuffix)) {
      EXPECT_EQ(files[name + kScaleSuffix], file);
    }
  }
  ExpectSameWeights(SourceOf(many), SourceOf(out()), ConfigOf(in()), WeightFormat::kInt8);
}

TEST_F(QuantizeTest, CopiesWhatIsNoWeight) {
  WriteModel(LlamaConfig());
  folder_.Write("in/tokenizer.json", "{\"version\": \"1.0\"}");
  folder_.Write("in/tokenizer.model", "\x0a\x00");
  folder_.Write("in/pytorch_model.bin", "weights of another format");
  folder_.Write("in/model.safetensors.index.json", "{}");
  fs::create_directory(in() + "/original");
  ASSERT_TRUE(Quantize().ok());
  EXPECT_THAT(NamesIn(out()), UnorderedElementsAre("config.json", "model.safetensors",
                                                   "tokenizer.json", "tokenizer.model"));
  EXPECT_EQ(TextOf(out() + "/tokenizer.json"), "{\"version\": \"1.0\"}");
  json config = json::parse(TextOf(out() + "/config.json"));
  EXPECT_THAT(config["quantization_config"]["modules_to_not_convert"],
              ElementsAre("model.embed_tokens"));
  config.erase("quantization_config");
  EXPECT_EQ(config, LlamaConfig());
}

TEST_F(QuantizeTest, SameModelsMakeTheSameFiles) {
  WriteModel(LlamaConfig());
  ASSERT_TRUE(Quantize().ok());
  const std::string again = folder_.PathOf("again");
  ASSERT_TRUE(QuantizeModel({.model = in(), .out = again, .num_threads = 3}, nullptr).ok());
  for (const char* name : {"/config.json", "/model.safetensors"}) {
    EXPECT_TRUE(TextOf(out() + name) == TextOf(again + name)) << name;
  }
}

TEST_F(QuantizeTest, LeavesNothingBehindWhereItFails) {
  WriteModel(LlamaConfig());
  int asked = 0;
  const auto result = QuantizeModel(
      {.model = in(), .out = out(), .cancelled = [&] { return ++asked == 5; }}, nullptr);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(NamesIn(folder_.path()), ElementsAre("in"));

  const auto nowhere = QuantizeModel({.model = in(), .out = folder_.PathOf("no/out")}, nullptr);
  EXPECT_EQ(nowhere.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(nowhere.status().message()), HasSubstr("no, does not exist"));
}

TEST_F(QuantizeTest, QuantizesNothingTwice) {
  WriteModel(LlamaConfig());
  ASSERT_TRUE(Quantize(WeightFormat::kInt4).ok());
  const auto again = QuantizeModel({.model = out(), .out = folder_.PathOf("again")}, nullptr);
  EXPECT_EQ(again.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(again.status().message()),
              AllOf(HasSubstr(out()), HasSubstr("quantized already, as int4")));
}

}  // namespace
}  // namespace sluice::testing
