// The whole stack without services, from token ids to logits, against the NumPy oracle.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cross_attention_ops.h"
#include "services/model/model_config.h"
#include "services/model/shard_plan.h"
#include "tests/kernels/testing/test_backend.h"
#include "tests/services/shard/local_pipeline.h"
#include "tests/services/shard/oracle_models.h"

namespace sluice::testing {
namespace {

// Every preset of the oracle, a row for each.
const std::vector<std::string> kPresets = {
    // Llama: heads, biases, tied embeddings.
    "llama",
    "llama-tied",
    "llama-mqa",
    "llama-bias",
    "llama-head_dim",
    // Scaled rotary positions.
    "llama-linear",
    "llama-dynamic",
    "llama-ntk",
    "llama-yarn",
    "llama-yarn-betas",
    "llama-yarn-attention_factor",
    "llama-yarn-mscale",
    "llama-yarn-untruncated",
    "llama-yarn-rope_parameters",
    "llama-llama3",
    "llama-longrope",
    // Other families of Hugging Face.
    "mistral",
    "mistral-window",
    "qwen2",
    "qwen2-yarn",
    "qwen2-window",
    "qwen3",
    "qwen3-window",
    "phi3",
    "phi3-partial",
    "phi3-longrope-long",
    "phi3-longrope-short",
    "phi3-longrope-partial",
    "gemma",
    "gpt2",
    "gpt2-bare",
    "gpt_neox",
    "gpt_neox-tanh",
    "gpt_neox-sequential",
    "gpt_neox-linear",
    // The textbook family.
    "sluice-rope_interleaved-rmsnorm-relu",
    "sluice-rope_interleaved-rmsnorm-gelu",
    "sluice-rope_interleaved-rmsnorm-swiglu",
    "sluice-rope_interleaved-layernorm-relu",
    "sluice-rope_interleaved-layernorm-gelu",
    "sluice-rope_interleaved-layernorm-swiglu",
    "sluice-rope_half-rmsnorm-relu",
    "sluice-rope_half-rmsnorm-gelu",
    "sluice-rope_half-rmsnorm-swiglu",
    "sluice-rope_half-layernorm-relu",
    "sluice-rope_half-layernorm-gelu",
    "sluice-rope_half-layernorm-swiglu",
    "sluice-learned-rmsnorm-relu",
    "sluice-learned-rmsnorm-gelu",
    "sluice-learned-rmsnorm-swiglu",
    "sluice-learned-layernorm-relu",
    "sluice-learned-layernorm-gelu",
    "sluice-learned-layernorm-swiglu",
    "sluice-sinusoidal-rmsnorm-relu",
    "sluice-sinusoidal-rmsnorm-gelu",
    "sluice-sinusoidal-rmsnorm-swiglu",
    "sluice-sinusoidal-layernorm-relu",
    "sluice-sinusoidal-layernorm-gelu",
    "sluice-sinusoidal-layernorm-swiglu",
    "sluice-none-rmsnorm-relu",
    "sluice-none-rmsnorm-gelu",
    "sluice-none-rmsnorm-swiglu",
    "sluice-none-layernorm-relu",
    "sluice-none-layernorm-gelu",
    "sluice-none-layernorm-swiglu",
};

// Of families that the oracle keeps apart from these.
const std::vector<std::string> kMorePresets = {
    "smollm3",
    // Norms before and after, soft caps, two rotations.
    "gemma2",
    "gemma2-scalar",
    "gemma3",
    "gemma3-linear",
    "gemma3-rope_parameters",
    // Constants that multiply.
    "granite",
    "minicpm",
    // Norms after alone, and of all heads at once.
    "olmo2",
    "olmo3",
    "olmo3-yarn",
    // Parallel branches that share a norm.
    "cohere",
    "cohere-qk_norm",
    "cohere2",
    "phi",
    "phi-qk_norm",
    "stablelm",
    "stablelm-parallel",
    // Llama and Mistral with other switches or names.
    "starcoder2",
    "starcoder2-window",
    "ministral",
    "ministral3",
    "glm",
    "glm4",
    "ernie4_5",
    "ernie4_5-bias",
    "internlm2",
    "internlm2-dynamic",
};

// Those of them that GPUs are tested with: they refuse some, and the host takes seconds for each.
const std::vector<std::string> kMorePresetsOfGpus = {"smollm3", "gemma2", "ministral3",
                                                     "phi-qk_norm", "granite"};

// Mixtures of experts. Where what a router reads is rounded it may choose other experts, so that no
// bound holds for BF16 weights. No GPU computes them yet.
const std::vector<std::string> kMixtures = {
    "qwen3_moe",
    "qwen3_moe-unnormed",
    "qwen3_moe-sparse_step",
    "mixtral",
    "mixtral-window",
    "qwen2_moe",
    "qwen2_moe-norm",
    "olmoe",
    "olmoe-clip",
    "glm4_moe",
    "ernie4_5_moe",
    "gpt_oss",
    "gpt_oss-limit",
    "llama4",
    "llama4-interleaved",
    "granitemoe",
    "granitemoeshared",
    "gemma4-moe",
    "deepseek_v2",
    "deepseek_v2-groups",
    "deepseek_v2-yarn",
    "deepseek_v3",
    "deepseek_v3-yarn",
    "deepseek_v3-ungrouped",
};

// With states in place of keys and values. The oracle leaves out the shared expert of Qwen3-Next, which
// published models have: they are compared without one, and that of Qwen3.5 covers it.
const std::vector<std::string> kRecurrentPresets = {
    "qwen3_next,shared_expert_intermediate_size=0",
    "qwen3_next-dense,shared_expert_intermediate_size=0",
    "qwen3_5",
    "qwen3_5-tied",
    "qwen3_5-text",
    "qwen3_5_moe",
    "qwen3_5_moe-text",
    "granite4",
    "granite4-dense",
    "nemotron_h",
    "nemotron_h,mamba_num_heads=8,n_groups=4",
};

// Of six layers, twice as many as the others have, whose scores are not scaled: heads of two sizes,
// keys as values, shared keys and values, embeddings for each layer. No GPU computes them yet.
const std::vector<std::string> kDeepPresets = {"gemma4", "gemma4-sides", "gemma4-text"};

// With latent attention, and dense layers alone.
const std::vector<std::string> kLatentPresets = {
    "deepseek_v2,first_k_dense_replace=3",
    "deepseek_v2-yarn,first_k_dense_replace=3",
    "deepseek_v3,first_k_dense_replace=3",
    "deepseek_v3-yarn,first_k_dense_replace=3",
    "deepseek_v3,first_k_dense_replace=3,rope_interleave=false",
};

bool TestsLatents() { return NewTestBackend({})->latents() != nullptr; }

// Those that a test takes: all, one in three on the asynchronous backend, which computes as the
// CPU's does, or a few where the kernels of GPUs run on the host.
std::vector<std::string> Presets() {
  const size_t step = TestsGpuOnHost() ? 18 : TestsAsync() ? 3 : 1;
  std::vector<std::string> presets;
  for (size_t i = 0; i < kPresets.size(); i += step) presets.push_back(kPresets[i]);
  const auto& more = TestsRoundOperands() ? kMorePresetsOfGpus : kMorePresets;
  for (size_t i = 0; i < more.size(); i += TestsGpuOnHost() ? 2 : 1) presets.push_back(more[i]);
  if (TestsLatents()) {
    const auto& latent = kLatentPresets;
    presets.insert(presets.end(), latent.begin(),
                   TestsGpuOnHost() ? latent.begin() + 1 : latent.end());
  }
  return presets;
}

std::vector<std::string> PresetsAndMixtures() {
  std::vector<std::string> presets = Presets();
  if (!TestsGpuOnHost() && !TestsRoundOperands()) {
    presets.insert(presets.end(), kMixtures.begin(), kMixtures.end());
    presets.insert(presets.end(), kRecurrentPresets.begin(), kRecurrentPresets.end());
    presets.insert(presets.end(), kDeepPresets.begin(), kDeepPresets.end());
  }
  return presets;
}

std::vector<std::string> ItemsOf(const std::vector<std::string>& presets,
                                 const std::string& dtype) {
  std::vector<std::string> items;
  for (const std::string& preset : presets) items.push_back(preset + ":" + dtype);
  return items;
}

std::unique_ptr<LocalPipeline> Load(const OracleModel& model, const PipelineOptions& options) {
  auto pipeline = LocalPipeline::Load(model.folder, options);
  if (!pipeline.ok()) throw std::runtime_error(std::string(pipeline.status().message()));
  return *std::move(pipeline);
}

std::vector<float> LogitsOf(LocalPipeline& pipeline, const std::vector<int32_t>& ids,
                            const std::vector<int>& chunks) {
  auto logits = pipeline.Logits(ids, chunks);
  if (!logits.ok()) throw std::runtime_error(std::string(logits.status().message()));
  return *std::move(logits);
}

// Of the logits' differences from the oracle's.
struct Errors {
  double largest = 0;
  double root_mean_square = 0;
};

Errors ErrorsOf(const std::vector<float>& logits, const std::vector<double>& expected) {
  if (logits.size() != expected.size()) return {HUGE_VAL, HUGE_VAL};
  Errors errors;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double error = std::abs(logits[i] - expected[i]);
    if (!(error <= errors.largest)) errors.largest = error;  // a NaN shows
    errors.root_mean_square += error * error / static_cast<double>(logits.size());
  }
  errors.root_mean_square = std::sqrt(errors.root_mean_square);
  return errors;
}

double StandardDeviation(const std::vector<double>& values) {
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / values.size();
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / values.size());
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class OracleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = ReasonWithoutOracle(); !reason.empty()) GTEST_SKIP() << reason;
  }

  // Compares the logits of a prefill with the oracle's for every model.
  static void ExpectErrorsWithin(const Errors& bound, const std::vector<std::string>& items,
                                 const PipelineOptions& options) {
    const auto oracle = OracleModels(items);
    Errors worst;
    for (const auto& [item, model] : oracle) {
      SCOPED_TRACE(item);
      // Logits that a constant divides are smaller than the others.
      EXPECT_NEAR(StandardDeviation(model.logits), 1.5, 1);
      const auto pipeline = Load(model, options);
      const Errors errors = ErrorsOf(
          LogitsOf(*pipeline, model.ids, {static_cast<int>(model.ids.size())}), model.logits);
      EXPECT_LE(errors.largest, bound.largest);
      EXPECT_LE(errors.root_mean_square, bound.root_mean_square);
      worst.largest = std::max(worst.largest, errors.largest);
      worst.root_mean_square = std::max(worst.root_mean_square, errors.root_mean_square);
    }
    RecordProperty("largest_error", std::to_string(worst.largest));
    RecordProperty("root_mean_square_error", std::to_string(worst.root_mean_square));
  }
};

// Files of any type widen exactly to F32, and then all arithmetic is F32.
constexpr Errors kF32Bound{.largest = 1e-4, .root_mean_square = 1e-5};

// What a BF16 matrix is multiplied with is rounded to BF16 as well: each input is off by up to 2^-9
// of itself, at random, so a product of K inputs by about 2^-9 / sqrt(3) of its own size whatever K
// is. Six such products lie between a token and its logits in each of these models' three layers,
// and scores of up to some 10 turn what queries and keys are off by into as many times more of the
// weights of attention. That is a percent or two of the logits' standard deviation, 2; the largest
// of all presets' logits is some ten times as large.
constexpr Errors kBf16Bound{.largest = 0.5, .root_mean_square = 0.04};

// Of F32 weights on the backend of the test.
Errors F32Bound() { return TestsRoundOperands() ? kBf16Bound : kF32Bound; }

TEST_F(OracleTest, CoversEveryPreset) {
  if (CarriedOracleModels().has_value()) GTEST_SKIP() << "models were made before, of some presets";
  EXPECT_THAT(kPresets, ::testing::UnorderedElementsAreArray(OraclePresets()));
}

TEST_F(OracleTest, LogitsOfF32WeightsAgree) {
  ExpectErrorsWithin(F32Bound(), ItemsOf(PresetsAndMixtures(), "F32"), {});
}

TEST_F(OracleTest, LogitsOfPlainKernelsAgree) {
  ExpectErrorsWithin(kF32Bound, ItemsOf(PresetsAndMixtures(), "F32"), {.plain_kernels = true});
}

TEST_F(OracleTest, LogitsOfBf16FilesInF32Agree) {
  ExpectErrorsWithin(F32Bound(), ItemsOf(PresetsAndMixtures(), "BF16"),
                     {.weights = WeightType::kF32});
}

TEST_F(OracleTest, LogitsOfBf16WeightsAgree) {
  ExpectErrorsWithin(kBf16Bound, ItemsOf(Presets(), "BF16"), {});
  if (TestsGpuOnHost() || TestsRoundOperands()) return;
  ExpectErrorsWithin(
      {.largest = 2 * kBf16Bound.largest, .root_mean_square = 2 * kBf16Bound.root_mean_square},
      ItemsOf(kDeepPresets, "BF16"), {});
}

// Token by token, as a sequence is generated: the oracle's logits of every prefix.
TEST_F(OracleTest, EveryPrefixOfAGrowingSequenceAgrees) {
  const auto oracle = OracleModels(ItemsOf(PresetsAndMixtures(), "F32"));
  for (const auto& [item, model] : oracle) {
    const auto pipeline = Load(model, {});
    const auto logits = pipeline->Generate(model.ids);
    ASSERT_TRUE(logits.ok()) << item << ": " << logits.status();
    EXPECT_LE(ErrorsOf(*logits, model.prefix_logits).largest, F32Bound().largest) << item;
    if (pipeline->config().depends_on_length()) continue;
    EXPECT_TRUE(SameBits(*logits, LogitsOf(*pipeline, model.ids, {512}))) << item;
  }
}

// The comparison would notice a table that is not exchanged.
TEST_F(OracleTest, LengthMattersWhereItShould) {
  const auto oracle = OracleModels({"llama-dynamic:F32", "llama-longrope:F32"});
  for (const auto& [item, model] : oracle) {
    double largest = 0;
    for (size_t i = 0; i < model.logits.size(); ++i) {
      largest = std::max(largest, std::abs(model.logits[i] - model.prefix_logits[i]));
    }
    EXPECT_GT(largest, 0.5) << item;
  }
}

// A key or value rounded to BF16 is off by up to 2^-9 of itself. These models' attention is sharp
// on purpose, with scores up to some 10: a score is then off by up to 0.02, a weight by up to 2 %,
// and so is what attention adds to the residual stream, three layers in a row. Over many logits
// that averages out to about 1 % of their standard deviation, 2; the largest of 41,600 is some ten
// times as large.
TEST_F(OracleTest, LogitsOfBf16KeysAndValuesAgree) {
  const std::vector<std::string> llamas(kPresets.begin(), kPresets.begin() + 5);
  Errors bound{.largest = 0.3, .root_mean_square = 0.03};
  if (TestsRoundOperands()) {
    bound.largest += kBf16Bound.largest;
    bound.root_mean_square += kBf16Bound.root_mean_square;
  }
  ExpectErrorsWithin(bound, ItemsOf(llamas, "BF16"),
                     {.weights = WeightType::kF32, .kv_dtype = DType::kBF16});
}

// The same of latents, which every key and value of a position is made of.
TEST_F(OracleTest, LogitsOfBf16LatentsAgree) {
  if (!TestsLatents()) GTEST_SKIP() << "has no latent attention";
  ExpectErrorsWithin({.largest = 0.3, .root_mean_square = 0.03}, ItemsOf(kLatentPresets, "BF16"),
                     {.weights = WeightType::kF32, .kv_dtype = DType::kBF16});
}

TEST_F(OracleTest, LogitsOfFp8LatentsAgree) {
  if (!TestsLatents()) GTEST_SKIP() << "has no latent attention";
  ExpectErrorsWithin({.largest = 2, .root_mean_square = 0.3}, ItemsOf(kLatentPresets, "BF16"),
                     {.weights = WeightType::kF32, .kv_dtype = DType::kF8E4M3});
}

TEST_F(OracleTest, LogitsOfShardedAndHalfPrecisionFilesAgree) {
  ExpectErrorsWithin(F32Bound(), {"llama:F16", "llama-bias:F32:3"}, {});
}

std::string OracleText(const PipelineOptions& options) {
  return absl::StrCat(options.num_ranks, " ranks, ", options.num_stages, " stages, ",
                      options.num_threads, " threads");
}

// However a prompt is cut into steps, its logits have the same bits.
TEST_F(OracleTest, ChunkingDoesNotChangeABit) {
  const auto oracle = OracleModels(ItemsOf(PresetsAndMixtures(), "F32"));
  constexpr unsigned kSeed = 20;
  std::mt19937 random(kSeed);
  for (const auto& [item, model] : oracle) {
    const auto pipeline = Load(model, {});
    const auto whole = LogitsOf(*pipeline, model.ids, {512});
    for (int trial = 0; trial < 3; ++trial) {
      std::vector<int> chunks(10);
      for (int& chunk : chunks) chunk = std::uniform_int_distribution<int>(1, 40)(random);
      EXPECT_TRUE(SameBits(LogitsOf(*pipeline, model.ids, chunks), whole))
          << item << " trial " << trial << " of seed " << kSeed;
    }
    if (pipeline->config().recurrent() == nullptr) continue;
    // States need no more room than for the one to go on from and the one being written.
    const auto with_two_slots = Load(model, {.two_state_slots = true});
    for (const std::vector<int>& chunks : {std::vector{512}, {40, 1, 90}, {1}}) {
      EXPECT_TRUE(SameBits(LogitsOf(*with_two_slots, model.ids, chunks), whole)) << item;
    }
  }
}

TEST_F(OracleTest, RanksStagesAndThreadsDoNotChangeABit) {
  const auto oracle = OracleModels(ItemsOf(PresetsAndMixtures(), "BF16"));
  for (const auto& [item, model] : oracle) {
    const auto alone = Load(model, {});
    const auto expected = LogitsOf(*alone, model.ids, {50});
    // Layers that share keys and values share a stage.
    const int stages = std::min(3, FirstSharedLayer(alone->config()) + 1);
    for (const PipelineOptions& options :
         {PipelineOptions{.num_threads = 3}, PipelineOptions{.num_ranks = 2},
          PipelineOptions{.num_ranks = 4}, PipelineOptions{.num_stages = 2},
          PipelineOptions{.num_ranks = 4, .num_stages = stages, .num_threads = 2}}) {
      const std::vector<int> accepted = AcceptedRankCounts(*LoadModelConfig(model.folder));
      if (std::count(accepted.begin(), accepted.end(), options.num_ranks) == 0) continue;
      EXPECT_TRUE(SameBits(LogitsOf(*Load(model, options), model.ids, {50}), expected))
          << item << ": " << OracleText(options);
    }
  }
}

// Sequences of different lengths advance by random chunks in shared steps, with scattered blocks.
void ExpectNeighboursDoNotMatter(const OracleModel& model) {
  constexpr int kSequences = 5;
  constexpr unsigned kSeed = 7;
  std::mt19937 random(kSeed);
  const auto pipeline = Load(model, {.num_ranks = 2});
  const int vocab = pipeline->config().vocab_size;
  std::vector<int32_t> blocks(64);
  std::iota(blocks.begin(), blocks.end(), 0);
  std::shuffle(blocks.begin(), blocks.end(), random);
  std::vector<std::vector<int32_t>> ids(kSequences);
  std::vector<std::vector<float>> logits(kSequences);
  for (int s = 0; s < kSequences; ++s) {
    ids[s].assign(model.ids.begin() + s, model.ids.end() - 20 * s);
  }
  const auto computed = [&](int s) { return static_cast<int>(logits[s].size()) / vocab; };
  for (bool more = true; more;) {
    std::vector<PipelineSegment> segments;
    std::vector<int> members;
    for (int s = 0; s < kSequences; ++s) {
      const int left = static_cast<int>(ids[s].size()) - computed(s);
      const int size = std::min(left, std::uniform_int_distribution<int>(0, 9)(random));
      if (size == 0) continue;
      const auto first = ids[s].begin() + computed(s);
      segments.push_back({{first, first + size},
                          computed(s),
                          {blocks.begin() + 10 * s, blocks.begin() + 10 * s + 10},
                          static_cast<int32_t>(ids[s].size())});
      members.push_back(s);
    }
    if (segments.empty()) continue;
    const auto step = pipeline->Step(segments);
    ASSERT_TRUE(step.ok()) << step.status();
    auto row = step->begin();
    for (size_t i = 0; i < members.size(); ++i) {
      const auto end = row + static_cast<int64_t>(segments[i].ids.size()) * vocab;
      logits[members[i]].insert(logits[members[i]].end(), row, end);
      row = end;
    }
    more = false;
    for (int s = 0; s < kSequences; ++s) more |= computed(s) < static_cast<int>(ids[s].size());
  }
  for (int s = 0; s < kSequences; ++s) {
    EXPECT_TRUE(SameBits(logits[s], LogitsOf(*pipeline, ids[s], {64})))
        << "sequence " << s << ", seed " << kSeed;
  }
}

TEST_F(OracleTest, NeighboursInAStepDoNotChangeABit) {
  // A model of each kind of block.
  std::vector<std::string> kinds = {"mistral-window",
                                    "gpt2",
                                    "llama-bias",
                                    "qwen2-window",
                                    "gemma",
                                    "gpt_neox",
                                    "smollm3",
                                    "gemma2",
                                    "olmo3",
                                    "stablelm-parallel",
                                    "ministral3",
                                    "sluice-rope_interleaved-layernorm-relu",
                                    "sluice-sinusoidal-rmsnorm-gelu",
                                    "llama-longrope"};
  if (TestsLatents()) kinds.push_back(kLatentPresets[3]);
  if (TestsGpuOnHost()) kinds.resize(2);
  if (TestsRoundOperands()) {  // GPUs refuse some
    std::erase_if(kinds, [](const std::string& kind) {
      return kind == "olmo3" || kind == "stablelm-parallel";
    });
  } else {
    kinds.insert(kinds.end(), {"qwen3_moe", "qwen2_moe", "gpt_oss", "llama4", "deepseek_v3-yarn",
                               "qwen3_5", "qwen3_5_moe", "granite4", "nemotron_h"});
  }
  const auto oracle = OracleModels(ItemsOf(kinds, "F32"));
  for (const auto& [item, model] : oracle) {
    SCOPED_TRACE(item);
    ExpectNeighboursDoNotMatter(model);
  }
}

// ---- Encoder-decoders ----

const std::vector<std::string> kSourcePresets = {"t5",   "t5-flan", "t5-narrow",
                                                 "bart", "mbart",   "marian"};

bool TestsSources() { return NewTestBackend({})->cross_attention() != nullptr; }

// Logits of the text alone.
std::vector<float> TextLogits(LocalPipeline& pipeline, const OracleModel& model,
                              std::vector<int> chunks = {512}) {
  pipeline.UseSource(model.source_positions);
  const std::vector<float> all = LogitsOf(pipeline, model.ids, chunks);
  const auto begin = SourceSpec::Filled(model.source_positions) * pipeline.config().vocab_size;
  return {all.begin() + begin, all.end()};
}

std::vector<double> ExpectedTextLogits(const OracleModel& model, const ModelConfig& config) {
  const auto begin = SourceSpec::Filled(model.source_positions) * config.vocab_size;
  return {model.logits.begin() + begin, model.logits.end()};
}

TEST_F(OracleTest, TextsBehindSourcesAgree) {
  if (!TestsSources()) GTEST_SKIP() << "has no attention to sources";
  for (const bool plain : {false, true}) {
    // Blocks of any size that divides the fill.
    const PipelineOptions options{
        .plain_kernels = plain, .block_size = plain ? 4 : 16, .num_blocks = plain ? 256 : 64};
    for (const auto& [item, model] : OracleModels(ItemsOf(kSourcePresets, "F32"))) {
      const auto pipeline = Load(model, options);
      const auto expected = ExpectedTextLogits(model, pipeline->config());
      EXPECT_NEAR(StandardDeviation(expected), 1.7, 1.2) << item;
      EXPECT_LE(ErrorsOf(TextLogits(*pipeline, model), expected).largest, kF32Bound.largest)
          << item << (plain ? " by plain kernels" : "");
    }
  }
}

TEST_F(OracleTest, TextsBehindSourcesOfBf16WeightsAgree) {
  if (!TestsSources()) GTEST_SKIP() << "has no attention to sources";
  for (const auto& [item, model] : OracleModels(ItemsOf(kSourcePresets, "BF16"))) {
    const auto pipeline = Load(model, {});
    const auto expected = ExpectedTextLogits(model, pipeline->config());
    EXPECT_LE(ErrorsOf(TextLogits(*pipeline, model), expected).root_mean_square,
              2 * kBf16Bound.root_mean_square)
        << item;
  }
}

TEST_F(OracleTest, ChunksRanksAndStagesDoNotChangeABitBehindASource) {
  if (!TestsSources()) GTEST_SKIP() << "has no attention to sources";
  for (const auto& [item, model] : OracleModels(ItemsOf(kSourcePresets, "BF16"))) {
    const auto alone = Load(model, {});
    const auto expected = TextLogits(*alone, model);
    const auto source = static_cast<int>(SourceSpec::Filled(model.source_positions));
    for (const std::vector<int>& chunks : {std::vector{source, 1}, {source + 1, 9, 2}}) {
      EXPECT_TRUE(SameBits(TextLogits(*alone, model, chunks), expected)) << item;
    }
    for (const PipelineOptions& options :
         {PipelineOptions{.num_threads = 3}, PipelineOptions{.num_ranks = 2},
          PipelineOptions{.num_ranks = 4, .num_stages = 2}, PipelineOptions{.num_stages = 5}}) {
      EXPECT_TRUE(SameBits(TextLogits(*Load(model, options), model, {source, 20}), expected))
          << item << ": " << OracleText(options);
    }
  }
}

// Sources and texts of several sequences share steps.
TEST_F(OracleTest, NeighboursDoNotChangeABitBehindASource) {
  if (!TestsSources()) GTEST_SKIP() << "has no attention to sources";
  for (const auto& [item, model] : OracleModels(ItemsOf({"t5", "mbart"}, "F32"))) {
    const auto pipeline = Load(model, {});
    const auto expected = TextLogits(*pipeline, model);
    const int vocab = pipeline->config().vocab_size;
    const auto filled = static_cast<int32_t>(SourceSpec::Filled(model.source_positions));
    std::vector<int32_t> blocks(64);
    std::iota(blocks.rbegin(), blocks.rend(), 0);
    const auto segment = [&](int sequence, int32_t begin, int32_t end) {
      return PipelineSegment{
          .ids = {model.ids.begin() + begin, model.ids.begin() + end},
          .first_position = begin,
          .block_table = {blocks.begin() + 8 * sequence, blocks.begin() + 8 * sequence + 8},
          .source_positions = model.source_positions};
    };
    const auto text_of = [&](const std::vector<float>& logits, int32_t first_row, int32_t rows) {
      return std::vector<float>(logits.begin() + int64_t{first_row} * vocab,
                                logits.begin() + (int64_t{first_row} + rows) * vocab);
    };
    const std::vector<PipelineSegment> begins = {segment(0, 0, filled + 2)};
    ASSERT_TRUE(pipeline->Step(begins).ok());
    // A source, a text that goes on, and a source with the beginning of its text.
    const std::vector<PipelineSegment> both = {
        segment(1, 0, filled), segment(0, filled + 2, filled + 9), segment(2, 0, filled + 3)};
    const auto step = pipeline->Step(both);
    ASSERT_TRUE(step.ok()) << step.status();
    EXPECT_TRUE(SameBits(text_of(*step, filled, 7), text_of(expected, 2, 7))) << item;
    EXPECT_TRUE(SameBits(text_of(*step, filled + 7 + filled, 3), text_of(expected, 0, 3))) << item;
    const std::vector<PipelineSegment> goes_on = {segment(1, filled, filled + 5)};
    const auto later = pipeline->Step(goes_on);
    ASSERT_TRUE(later.ok()) << later.status();
    EXPECT_TRUE(SameBits(*later, text_of(expected, 0, 5))) << item;
  }
}

}  // namespace
}  // namespace sluice::testing
