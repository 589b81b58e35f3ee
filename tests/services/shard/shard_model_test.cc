#include "services/shard/shard_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/kernels/testing/rank_threads.h"
#include "tests/kernels/testing/test_backend.h"
#include "tests/services/model/model_folder.h"
#include "tests/services/shard/local_pipeline.h"

namespace sluice::testing {
namespace {

using ::testing::HasSubstr;

// A tiny model with a bias on every projection: H 16, 4 heads of 4, 2 KV heads, MLP 24, 3 layers.
class ShardModelTest : public ::testing::Test {
 protected:
  ShardModelTest() {
    folder_.Write("config.json", TinyLlamaConfig());
    folder_.Write("model.safetensors", SafetensorsBytes(TinyLlamaTensors(DType::kF32)));
    config_ = LoadModelConfig(folder_.path()).value();
  }

  absl::StatusOr<std::unique_ptr<ShardModel>> Load(const ShardModelOptions& options,
                                                   const ShardPlacement& placement = {}) {
    return LoadOn(*backend_, options, placement);
  }
  absl::StatusOr<std::unique_ptr<ShardModel>> LoadOn(Backend& backend,
                                                     const ShardModelOptions& options,
                                                     const ShardPlacement& placement) {
    const auto source = WeightSource::Open(folder_.path(), config_);
    if (!source.ok()) return source.status();
    const auto plan = MakeShardPlan(config_, placement);
    if (!plan.ok()) return plan.status();
    return ShardModel::Load(config_, *plan, *source, options, backend);
  }

  std::vector<float> Logits(const PipelineOptions& options, const std::vector<int>& chunks) {
    auto pipeline = LocalPipeline::Load(folder_.path(), options);
    if (!pipeline.ok()) throw std::runtime_error(std::string(pipeline.status().message()));
    std::vector<int32_t> ids(60);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * i % 10);
    auto logits = (*pipeline)->Logits(ids, chunks);
    if (!logits.ok()) throw std::runtime_error(std::string(logits.status().message()));
    return *std::move(logits);
  }

  // Rows of 16 floats in memory of the backend.
  std::unique_ptr<Buffer> NewRows(const std::vector<float>& values) {
    const size_t bytes = values.size() * sizeof(float);
    auto memory = backend_->Allocate(bytes).value();
    backend_->CopyIn({reinterpret_cast<const std::byte*>(values.data()), bytes}, memory->data());
    return memory;
  }
  std::vector<float> Read(Buffer& memory) {
    std::vector<float> values(memory.size_bytes() / sizeof(float));
    const auto bytes =
        absl::MakeSpan(reinterpret_cast<std::byte*>(values.data()), memory.size_bytes());
    EXPECT_TRUE(backend_->CopyOut(memory.data(), bytes).ok());
    return values;
  }

  TempFolder folder_;
  ModelConfig config_;
  std::unique_ptr<Backend> backend_ = NewTestBackend({.num_threads = 1});
};

TEST_F(ShardModelTest, FastKernelsAgreeWithPlainOnes) {
  const std::vector<float> fast = Logits({}, {60});
  const bool rounds = TestsRoundOperands();
  const std::vector<float> plain =
      Logits({.plain_kernels = true, .plain_operands = rounds ? DType::kBF16 : DType::kF32}, {60});
  ASSERT_EQ(fast.size(), 60u * 10);
  ASSERT_EQ(fast.size(), plain.size());
  // A last bit that falls otherwise before a rounding to BF16 is 2^-8 of a number there.
  const double tolerance = rounds ? 0.02 : 1e-4;
  for (size_t i = 0; i < fast.size(); ++i) EXPECT_NEAR(fast[i], plain[i], tolerance);
}

// As on a device with matrix units: operands are rounded where they are computed, which for BF16
// weights is the rounding that the product would do.
TEST_F(ShardModelTest, OperandsMayBeBFloat16) {
  PipelineOptions floats{.weights = WeightType::kBF16, .plain_kernels = true};
  PipelineOptions rounded = floats;
  rounded.plain_operands = DType::kBF16;
  EXPECT_EQ(Logits(rounded, {7, 20, 1}), Logits(floats, {60}));
  floats.weights = rounded.weights = WeightType::kF32;
  EXPECT_NE(Logits(rounded, {60}), Logits(floats, {60}));
}

// Steps of one bucket, of other sequences and positions, between which memory is used again.
TEST_F(ShardModelTest, StepsOfOneSizeDoNotMixUp) {
  const auto load = [&] { return LocalPipeline::Load(folder_.path(), {}).value(); };
  const auto mixed = load();
  const std::vector<int32_t> table = {3, 1}, other = {0, 2};
  for (int32_t length = 1; length <= 20; ++length) {
    const auto alone = load();
    std::vector<PipelineSegment> prompt = {{{1, 2, 3, 4, 5}, 0, table}};
    const PipelineSegment next{{length % 10, 7, 3}, 5, table};
    ASSERT_TRUE(alone->Step(prompt).ok());
    const auto expected = alone->Step({&next, 1});
    ASSERT_TRUE(mixed->Step(prompt).ok());
    PipelineSegment beside{std::vector<int32_t>(length % 4 + 1, 9), 0, other};
    ASSERT_TRUE(mixed->Step({&beside, 1}).ok());
    const auto seen = mixed->Step({&next, 1});
    ASSERT_TRUE(expected.ok() && seen.ok());
    EXPECT_EQ(*seen, *expected) << length;
  }
}

TEST_F(ShardModelTest, SplittingTheModelOrThePromptDoesNotChangeABit) {
  const std::vector<float> expected = Logits({}, {60});
  for (const PipelineOptions& options :
       {PipelineOptions{.num_ranks = 2}, PipelineOptions{.num_ranks = 4},
        PipelineOptions{.num_stages = 3}, PipelineOptions{.num_ranks = 4, .num_stages = 2},
        PipelineOptions{.num_threads = 3}}) {
    for (const std::vector<int>& chunks : {std::vector<int>{60}, {1}, {3, 17, 1, 8}}) {
      EXPECT_EQ(Logits(options, chunks), expected)
          << options.num_ranks << " ranks, " << options.num_stages << " stages, chunks of "
          << chunks[0];
    }
  }
}

// Attention adds block after block, so their size does change the last bits.
TEST_F(ShardModelTest, AnyBlockSizeWillDo) {
  const std::vector<float> expected = Logits({}, {60});
  for (const int block_size : {1, 3, 64}) {
    const std::vector<float> logits = Logits({.block_size = block_size}, {7, 20, 1});
    ASSERT_EQ(logits.size(), expected.size());
    for (size_t i = 0; i < logits.size(); ++i) {
      ASSERT_NEAR(logits[i], expected[i], TestsRoundOperands() ? 0.02 : 1e-4) << block_size;
    }
  }
}

TEST_F(ShardModelTest, TheBudgetDecidesHowManyBlocksThereAre) {
  // 3 layers, keys and values, 16 positions, 2 heads of 4 floats.
  constexpr uint64_t kBlock = 3 * 2 * 16 * 2 * 4 * 4;
  const auto model = Load({.kv_cache_bytes = 5 * kBlock + kBlock - 1});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->num_kv_blocks(), 5);
  EXPECT_EQ((*model)->block_size(), 16);
  EXPECT_EQ((*model)->kv_bytes(), 5 * kBlock);
  const auto single = Load({.kv_cache_bytes = 5 * kBlock, .block_size = 1});
  ASSERT_TRUE(single.ok()) << single.status();
  EXPECT_EQ((*single)->num_kv_blocks(), 5 * 16);
  EXPECT_EQ((*single)->kv_bytes(), 5 * kBlock);
  const auto half = Load({.kv_dtype = DType::kBF16, .kv_cache_bytes = 5 * kBlock});
  ASSERT_TRUE(half.ok()) << half.status();
  EXPECT_EQ((*half)->num_kv_blocks(), 10);
  const auto rank = Load({.kv_cache_bytes = 5 * kBlock}, {.num_ranks = 2, .rank = 1});
  ASSERT_TRUE(rank.ok()) << rank.status();
  EXPECT_EQ((*rank)->num_kv_blocks(), 10);
  const auto stage = Load({.kv_cache_bytes = 5 * kBlock}, {.num_stages = 3, .stage = 2});
  ASSERT_TRUE(stage.ok()) << stage.status();
  EXPECT_EQ((*stage)->num_kv_blocks(), 15);
}

TEST_F(ShardModelTest, CountsItsWeights) {
  const auto whole = Load({});
  ASSERT_TRUE(whole.ok()) << whole.status();
  // Projections and biases, norms; matrices may be padded.
  constexpr size_t kLayer = (16 * 16 * 2 + 8 * 16 * 2 + 24 * 16 * 3) * 4;
  EXPECT_GE((*whole)->weight_bytes(), 3 * kLayer);
  const auto rank = Load({}, {.num_ranks = 4, .rank = 3});
  ASSERT_TRUE(rank.ok()) << rank.status();
  EXPECT_LT((*rank)->weight_bytes(), (*whole)->weight_bytes());
}

TEST_F(ShardModelTest, OptionsOutOfRangeAreRefused) {
  const auto expect_refused = [&](const ShardModelOptions& options, const std::string& message) {
    const absl::Status status = Load(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), message);
  };
  expect_refused({.block_size = 0}, "block_size is 0; accepted: 1 or more");
  expect_refused({.max_step_rows = -3}, "max_step_rows is -3; accepted: 1 or more");
  expect_refused({.kv_dtype = DType::kF16}, "kv_dtype is F16; accepted: F32, BF16, F8_E4M3");
  expect_refused({.kv_cache_bytes = 1000},
                 "kv_cache_bytes is 1000; accepted for this model: 3072, a block of 16 positions, "
                 "or more");
}

// Nothing of a refused step is stored: the rows come back as they were.
TEST_F(ShardModelTest, RefusedStepsTouchNothing) {
  const auto model = Load({.max_step_rows = 8});
  ASSERT_TRUE(model.ok()) << model.status();
  const int blocks = (*model)->num_kv_blocks();
  const std::vector<float> halves(16 * 16, 0.5F);
  const auto memory = NewRows(halves);
  const std::vector<int32_t> outside = {blocks}, inside = {0};
  const auto forward = [&](const ShardSegment& segment, int64_t count) {
    return (*model)->Forward({&segment, 1}, {memory->data(), DType::kF32, count, 16, 16});
  };
  EXPECT_EQ(forward({0, 1, outside}, 1).message(),
            absl::StrCat("segment 0: block ", blocks, " is outside a pool of ", blocks));
  EXPECT_THAT(forward({0, 9, inside}, 9).message(), HasSubstr("accepted: at most 8"));
  EXPECT_THAT(forward({63, 2, inside}, 2).message(), HasSubstr("accepted for this model: 0 to 63"));
  EXPECT_EQ(Read(*memory), halves);
  EXPECT_TRUE(forward({0, 1, inside}, 1).ok());
  EXPECT_NE(Read(*memory)[0], 0.5F);
}

// A sequence that goes on from copies of another's blocks has that one's bits.
TEST_F(ShardModelTest, CopiedBlocksContinueTheSame) {
  const auto model = Load({});
  ASSERT_TRUE(model.ok()) << model.status();
  const std::vector<int32_t> original = {0, 1}, copied = {0, 5};
  const auto forward = [&](const std::vector<int32_t>& table, int32_t first, int32_t count) {
    std::vector<float> rows(backend_->BucketRows(count) * 16);
    for (int i = 0; i < count * 16; ++i) rows[i] = std::sin(0.1F * static_cast<float>(i));
    const auto memory = NewRows(rows);
    const ShardSegment segment{first, count, table};
    const absl::Status status =
        (*model)->Forward({&segment, 1}, {memory->data(), DType::kF32, count, 16, 16});
    EXPECT_TRUE(status.ok()) << status;
    rows = Read(*memory);
    rows.resize(count * 16);
    return rows;
  };
  forward(original, 0, 20);
  const std::vector<KvBlockCopy> copies = {{.source = 1, .destination = 5}};
  ASSERT_TRUE((*model)->CopyBlocks(copies).ok());
  const std::vector<float> expected = forward(original, 20, 3);
  forward(original, 16, 4);  // the original's keys become others
  EXPECT_NE(forward(original, 20, 3), expected);
  EXPECT_EQ(forward(copied, 20, 3), expected);
}

TEST_F(ShardModelTest, RefusesCopiesOutsideThePool) {
  const auto model = Load({});
  ASSERT_TRUE(model.ok()) << model.status();
  const std::vector<KvBlockCopy> copies = {{.source = (*model)->num_kv_blocks()}};
  EXPECT_EQ((*model)->CopyBlocks(copies).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ShardModelTest, AnEmptyStepIsNoWork) {
  const auto model = Load({});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE((*model)->Forward({}, {nullptr, DType::kF32, 0, 16, 16}).ok());
}

// A step whose peer stays away ends when its time is up.
TEST_F(ShardModelTest, StepsEndAtTheirDeadline) {
  const std::string group = UniqueGroupName();
  const std::unique_ptr<Backend> other_backend = NewTestBackend({.num_threads = 1});
  std::vector<std::unique_ptr<Communicator>> communicators(2);
  std::vector<std::unique_ptr<ShardModel>> models(2);
  const absl::Status joined = OnEveryRank(2, [&](int rank) -> absl::Status {
    auto model = LoadOn(rank == 0 ? *backend_ : *other_backend,
                        {.step_timeout = absl::Milliseconds(20)}, {.num_ranks = 2, .rank = rank});
    if (!model.ok()) return model.status();
    models[rank] = *std::move(model);
    auto communicator = Join(group, rank, 2);
    if (!communicator.ok()) return communicator.status();
    communicators[rank] = *std::move(communicator);
    return models[rank]->Join(communicators[rank].get(), Deadline::After(absl::Seconds(60)));
  });
  ASSERT_TRUE(joined.ok()) << joined;
  const auto memory = NewRows(std::vector<float>(16, 0.5F));
  const std::vector<int32_t> table = {0};
  const ShardSegment segment{0, 1, table};
  const absl::Status status =
      models[0]->Forward({&segment, 1}, {memory->data(), DType::kF32, 1, 16, 16});
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
}

}  // namespace
}  // namespace sluice::testing
