// Latent attention: pools of latents, and kernels/latent_ops.h.
#include <algorithm>
#include <cmath>
#include <memory>
#include <ostream>
#include <tuple>
#include <vector>

#include "kernels/latent_ops.h"
#include "tests/kernels/testing/backend_cases.h"
#include "tests/kernels/testing/paged_sequence.h"
#include "tests/kernels/testing/primitives.h"
#include "tests/kernels/testing/tensors.h"

namespace sluice::testing {
namespace {

class LatentAttentionTest : public BackendTest {
 protected:
  void SetUp() override {
    BackendTest::SetUp();
    if (backend().latents() == nullptr) GTEST_SKIP() << "has no latent attention";
  }
};
SLUICE_FOR_ALL_BACKENDS(LatentAttentionTest);

using LatentPoolTest = BackendTest;
SLUICE_FOR_ALL_BACKENDS(LatentPoolTest);

TEST_P(LatentPoolTest, IsRefusedByBackendsWithoutLatentAttention) {
  const auto pool = backend().NewKvPool(
      {.num_layers = 1, .num_blocks = 1, .num_kv_heads = 1, .head_dim = 48, .latent_dim = 32});
  if (backend().latents() != nullptr) {
    EXPECT_TRUE(pool.ok());
  } else {
    EXPECT_EQ(pool.status().code(), absl::StatusCode::kUnimplemented);
  }
}

struct LatentShape {
  int block_size = 16;
  int num_heads = 4;
  int nope_dim = 24, rope_dim = 16, latent_dim = 32;
  DType dtype = DType::kF32;
  int64_t window = 0;

  int stored_dim() const { return latent_dim + rope_dim; }
  int query_dim() const { return nope_dim + rope_dim; }
  AttentionOptions Options() const {
    return {.scale = 1 / std::sqrt(static_cast<float>(query_dim())), .window = window};
  }
  KvPoolSpec Pool(int num_blocks) const {
    return {.num_layers = 2,
            .num_blocks = num_blocks,
            .block_size = block_size,
            .num_kv_heads = 1,
            .head_dim = stored_dim(),
            .dtype = dtype,
            .latent_dim = latent_dim};
  }
};

std::ostream& operator<<(std::ostream& stream, const LatentShape& shape) {
  return stream << shape.num_heads << " heads over latents of " << shape.latent_dim << " and "
                << shape.rope_dim << ", blocks of " << shape.block_size << ", " << Name(shape.dtype)
                << ", window " << shape.window;
}

// Those of models, and ones that nothing is a multiple of.
const LatentShape kLatentShapes[] = {
    {},
    {.num_heads = 16, .nope_dim = 128, .rope_dim = 64, .latent_dim = 512, .dtype = DType::kBF16},
    {.num_heads = 20, .nope_dim = 192, .rope_dim = 64, .latent_dim = 512},
    {.block_size = 5, .num_heads = 3, .nope_dim = 7, .rope_dim = 6, .latent_dim = 14},
    {.block_size = 1, .num_heads = 1, .nope_dim = 1, .rope_dim = 2, .latent_dim = 2},
    {.block_size = 5,
     .num_heads = 13,
     .nope_dim = 9,
     .rope_dim = 2,
     .latent_dim = 20,
     .dtype = DType::kF8E4M3},
    {.block_size = 32, .num_heads = 128, .rope_dim = 8, .latent_dim = 48, .dtype = DType::kF8E4M3},
    {.block_size = 20, .num_heads = 41, .rope_dim = 10, .latent_dim = 40, .dtype = DType::kBF16},
    {.num_heads = 6, .latent_dim = 64, .window = 21},
};

// What a layer reads of a sequence of `length` positions.
struct LatentInputs {
  LatentInputs(Random& random, const LatentShape& shape, int64_t length)
      : q(RandomMatrix(random, length, int64_t{shape.num_heads} * shape.query_dim())),
        kv(RandomMatrix(random, length, shape.stored_dim(), 2)),
        absorbed(RandomMatrix(random, length, int64_t{shape.num_heads} * shape.stored_dim(), 2)),
        norm(RandomMatrix(random, 1, shape.latent_dim)),
        cos(RandomMatrix(random, length, shape.rope_dim / 2, 3)),
        sin(cos),
        blocks(BlocksInOrder(length, shape.block_size)) {
    for (float& value : cos.values) value = std::cos(value);
    for (float& value : sin.values) value = std::sin(value);
    std::shuffle(blocks.begin(), blocks.end(), random);
  }

  AttentionSegment Segment(int64_t first, int64_t count) const {
    return {.num_rows = count, .first_position = first, .block_table = blocks};
  }

  HostMatrix q, kv, absorbed, norm, cos, sin;
  std::vector<int32_t> blocks;
};

struct LatentOutcome {
  HostMatrix queries;
  HostMatrix attended;
};

// A step of positions [first, first + count): their latents stored, their queries prepared and what
// they make of all before.
LatentOutcome AttendToLatents(Backend& backend, KvPool& pool, const LatentShape& shape,
                              const LatentInputs& inputs, int64_t first, int64_t count,
                              int64_t padding = 0) {
  DeviceMatrix q(backend, inputs.q.Rows(first, count), padding);
  DeviceMatrix kv(backend, inputs.kv.Rows(first, count), padding);
  DeviceMatrix queries(backend, inputs.absorbed.Rows(first, count), padding);
  DeviceMatrix out(backend, count, int64_t{shape.num_heads} * shape.latent_dim, padding);
  const DeviceMatrix norm(backend, inputs.norm), cos(backend, inputs.cos), sin(backend, inputs.sin);
  const RopeTables tables{cos.view(), sin.view(), RopeTables::Index::kPosition};
  const AttentionSegment segment = inputs.Segment(first, count);
  backend.BeginStep({&segment, 1}, count);
  backend.latents()->PrepareLatentAttention(q.view(), kv.view(),
                                            {.num_heads = shape.num_heads,
                                             .nope_dim = shape.nope_dim,
                                             .rope_dim = shape.rope_dim,
                                             .latent_dim = shape.latent_dim,
                                             .latent_norm = norm.data(),
                                             .norm_eps = 1e-6f,
                                             .rotations = &tables},
                                            1, pool, queries.view());
  backend.PagedAttention(queries.view(), pool, 1, shape.Options(), out.view());
  return {queries.Read(), out.Read()};
}

TEST_P(LatentAttentionTest, AgreesWithReference) {
  Random random(1);
  for (const LatentShape& shape : kLatentShapes) {
    for (const int64_t length : {1, 17, 75}) {
      SCOPED_TRACE(::testing::Message() << length << " positions, " << shape);
      const LatentInputs inputs(random, shape, length);
      const auto ours = NewKvPool(backend(), shape.Pool(75));
      const auto theirs = NewKvPool(reference(), shape.Pool(75));
      const LatentOutcome actual = AttendToLatents(backend(), *ours, shape, inputs, 0, length, 3);
      const LatentOutcome expected =
          AttendToLatents(reference(), *theirs, shape, inputs, 0, length);
      EXPECT_TRUE(IsNear(actual.queries, expected.queries, 1e-5));
      // A number between two of BF16 or FP8 may be rounded to either.
      const double tolerance = shape.dtype == DType::kF32 ? 1e-4 : 0.1;
      EXPECT_TRUE(IsNear(actual.attended, expected.attended, tolerance));
    }
  }
}

TEST_P(LatentAttentionTest, EveryChunkingGivesTheSameBits) {
  Random random(2);
  for (const LatentShape& shape : kLatentShapes) {
    constexpr int64_t kLength = 70;
    const LatentInputs inputs(random, shape, kLength);
    const auto pool = NewKvPool(backend(), shape.Pool(kLength));
    const LatentOutcome whole = AttendToLatents(backend(), *pool, shape, inputs, 0, kLength);
    for (const int64_t most : {1, 9, 33}) {
      const auto other = NewKvPool(backend(), shape.Pool(kLength));
      for (int64_t first = 0; first < kLength;) {
        const int64_t count = std::min(kLength - first, RandomInt(random, 1, most));
        const LatentOutcome chunk = AttendToLatents(backend(), *other, shape, inputs, first, count);
        EXPECT_TRUE(SameBits(chunk.attended, whole.attended.Rows(first, count)))
            << count << " positions from " << first << ", " << shape;
        first += count;
      }
    }
  }
}

// The vectors of a latent pool, as keys and as values of a pool by head.
TEST_P(LatentAttentionTest, HasTheBitsOfKeysAndValuesByHead) {
  Random random(3);
  for (const LatentShape& shape : kLatentShapes) {
    // Of the small ones more than one split.
    const int64_t length = shape.block_size == 16 && shape.latent_dim <= 64 ? 1100 : 70;
    const LatentInputs inputs(random, shape, length);
    const auto pool = NewKvPool(backend(), shape.Pool(static_cast<int>(length)));
    const LatentOutcome latent = AttendToLatents(backend(), *pool, shape, inputs, 0, length);

    KvPoolSpec by_head = shape.Pool(static_cast<int>(length));
    by_head.latent_dim = 0;
    const auto other = NewKvPool(backend(), by_head);
    HostMatrix vectors = inputs.kv;
    DeviceMatrix latents(backend(), inputs.kv.Columns(0, shape.latent_dim));
    DeviceMatrix keys(backend(), inputs.kv.Columns(shape.latent_dim, shape.rope_dim));
    const DeviceMatrix norm(backend(), inputs.norm), cos(backend(), inputs.cos);
    const DeviceMatrix sin(backend(), inputs.sin);
    backend().RmsNorm(latents.view(), norm.data(), 1e-6f, latents.view());
    // Positions of one block, so that they are known without a table of this step's.
    const std::vector<int32_t> table((length + 15) / 16);
    const AttentionSegment all{.num_rows = length, .block_table = table};
    Rope(backend(), keys.view(), shape.rope_dim,
         {cos.view(), sin.view(), RopeTables::Index::kPosition}, RopeLayout::kInterleaved,
         {&all, 1});
    const HostMatrix normed = latents.Read(), rotated = keys.Read();
    for (int64_t t = 0; t < length; ++t) {
      for (int64_t d = 0; d < shape.stored_dim(); ++d) {
        vectors.At(t, d) =
            d < shape.latent_dim ? normed.At(t, d) : rotated.At(t, d - shape.latent_dim);
      }
    }
    const Sequence sequence{latent.queries, vectors, vectors, inputs.blocks};
    const HostMatrix attended =
        AttendChunk(backend(), *other, 1, sequence, 0, length, shape.Options());
    for (int64_t head = 0; head < shape.num_heads; ++head) {
      EXPECT_TRUE(SameBits(latent.attended.Columns(head * shape.latent_dim, shape.latent_dim),
                           attended.Columns(head * shape.stored_dim(), shape.latent_dim)))
          << shape << ", head " << head;
    }
  }
}

// One long context, cut into splits for threads, beside short ones.
TEST_P(LatentAttentionTest, ThreadsDoNotChangeABit) {
  Random random(4);
  const LatentShape shape{.num_heads = 20, .latent_dim = 64, .dtype = DType::kBF16};
  constexpr int64_t kLength = 2100;
  const LatentInputs inputs(random, shape, kLength);
  HostMatrix expected(0, 0);
  for (const int threads : {1, 5}) {
    const auto backend = NewBackend(threads);
    const auto pool = NewKvPool(*backend, shape.Pool(132));
    AttendToLatents(*backend, *pool, shape, inputs, 0, kLength - 1);
    const LatentOutcome last = AttendToLatents(*backend, *pool, shape, inputs, kLength - 1, 1);
    if (threads == 1) expected = last.attended;
    EXPECT_TRUE(SameBits(last.attended, expected)) << threads << " threads";
  }
}

TEST_P(LatentAttentionTest, CopiedBlocksHoldTheSame) {
  Random random(5);
  for (const LatentShape& shape : kLatentShapes) {
    constexpr int64_t kLength = 40;
    LatentInputs inputs(random, shape, kLength);
    const auto pool = NewKvPool(backend(), shape.Pool(2 * kLength));
    const LatentOutcome before = AttendToLatents(backend(), *pool, shape, inputs, 0, kLength);
    std::vector<KvBlockCopy> copies;
    for (int32_t& block : inputs.blocks) {
      copies.push_back({block, block + static_cast<int32_t>(kLength)});
      block += static_cast<int32_t>(kLength);
    }
    backend().CopyBlocks(copies, *pool);
    const LatentOutcome after = AttendToLatents(backend(), *pool, shape, inputs, kLength - 1, 1);
    EXPECT_TRUE(SameBits(after.attended, before.attended.Rows(kLength - 1, 1))) << shape;
  }
}

TEST_P(LatentAttentionTest, ProductsOfHeadsHaveTheBitsOfProducts) {
  Random random(6);
  for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kBF16}) {
    for (const auto& [heads, inputs, outputs] : {std::tuple{1, 24, 32}, std::tuple{5, 128, 512},
                                                 std::tuple{7, 33, 20}, std::tuple{64, 16, 70}}) {
      std::vector<std::unique_ptr<PackedMatrix>> owned;
      std::vector<const PackedMatrix*> weights;
      for (int head = 0; head < heads; ++head) {
        owned.push_back(Pack(backend(), RandomMatrix(random, outputs, inputs), format));
        weights.push_back(owned.back().get());
      }
      // Columns that belong to no product lie between those that do.
      const int64_t x_step = inputs + 3, out_step = outputs + 5;
      for (const int64_t rows : {1, 3, 17, 150}) {
        const DeviceMatrix x(backend(), RandomMatrix(random, rows, heads * x_step));
        const HostMatrix before = RandomMatrix(random, rows, heads * out_step);
        DeviceMatrix together(backend(), before), apart(backend(), before);
        backend().latents()->GemmOfHeads({x.view(), x_step}, weights, {together.view(), out_step});
        for (int head = 0; head < heads; ++head) {
          backend().Gemm(x.view().Columns(head * x_step, inputs), *weights[head],
                         apart.view().Columns(head * out_step, outputs));
        }
        EXPECT_TRUE(SameBits(together.Read(), apart.Read()))
            << heads << " heads, " << rows << " rows";
      }
    }
  }
}

}  // namespace
}  // namespace sluice::testing
