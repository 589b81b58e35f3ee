#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/cross_attention_ops.h"
#include "kernels/fp8.h"
#include "kernels/open_attention_ops.h"
#include "tests/kernels/backend/attention_shapes.h"
#include "tests/kernels/testing/backend_cases.h"
#include "tests/kernels/testing/paged_sequence.h"
#include "tests/kernels/testing/primitives.h"
#include "tests/kernels/testing/tensors.h"

namespace sluice::testing {
namespace {

using AttentionTest = BackendTest;
SLUICE_FOR_ALL_BACKENDS(AttentionTest);

using Shape = AttentionShape;

// Shapes that real models have, and ones that nothing is a multiple of.
const Shape kShapes[] = {
    {},
    {.block_size = 16, .num_kv_heads = 1, .group = 8, .head_dim = 128, .dtype = DType::kBF16},
    {.block_size = 32, .num_kv_heads = 3, .group = 1, .head_dim = 80},
    {.block_size = 5, .num_kv_heads = 2, .group = 3, .head_dim = 7},
    {.block_size = 1, .num_kv_heads = 1, .group = 1, .head_dim = 1},
    {.block_size = 4, .num_kv_heads = 4, .group = 2, .head_dim = 8, .dtype = DType::kBF16},
    {.block_size = 16, .num_kv_heads = 1, .group = 41, .head_dim = 33},
    {.block_size = 16, .num_kv_heads = 2, .group = 4, .head_dim = 32, .window = 1},
    {.block_size = 16, .num_kv_heads = 1, .group = 3, .head_dim = 16, .window = 21},
    {.block_size = 4, .num_kv_heads = 1, .group = 9, .head_dim = 8, .window = 8},
    {.block_size = 32, .num_kv_heads = 2, .group = 2, .head_dim = 24, .window = 1000},
    {.block_size = 16, .num_kv_heads = 2, .group = 2, .head_dim = 32, .softcap = 1.5F},
    {.block_size = 5,
     .num_kv_heads = 1,
     .group = 5,
     .head_dim = 7,
     .dtype = DType::kBF16,
     .window = 21,
     .softcap = 30},
    {.block_size = 16, .num_kv_heads = 2, .group = 4, .head_dim = 128, .dtype = DType::kF8E4M3},
    {.block_size = 5, .num_kv_heads = 3, .group = 2, .head_dim = 7, .dtype = DType::kF8E4M3},
    {.block_size = 16,
     .num_kv_heads = 1,
     .group = 3,
     .head_dim = 48,
     .dtype = DType::kF8E4M3,
     .window = 21},
};

// `rows` in the blocks of `place`.
Sequence Tail(const Sequence& rows, const Sequence& place) {
  return {rows.q, rows.k, rows.v, place.block_table};
}

TEST_P(AttentionTest, AgreesWithReference) {
  Random random(1);
  for (const Shape& shape : kShapes) {
    for (const int64_t length : {1, 17, 75}) {
      SCOPED_TRACE(::testing::Message() << length << " positions, " << shape);
      const Sequence sequence = RandomSequence(random, shape, length, 80);
      const auto ours = NewKvPool(backend(), shape.Pool(80));
      const auto theirs = NewKvPool(reference(), shape.Pool(80));
      EXPECT_TRUE(IsNear(AttendChunk(backend(), *ours, 1, sequence, 0, length, shape.Options(), 3),
                         AttendChunk(reference(), *theirs, 1, sequence, 0, length, shape.Options()),
                         AttentionTolerance()));
    }
  }
}

// A head vector as FP8 holds it: numbers that BF16 holds, too.
void RoundHeadsToFp8(int head_dim, HostMatrix& matrix) {
  for (size_t first = 0; first < matrix.values.size(); first += head_dim) {
    const auto head = absl::MakeSpan(matrix.values).subspan(first, head_dim);
    uint32_t largest = 0;
    for (const float x : head) largest = std::max(largest, std::bit_cast<uint32_t>(std::abs(x)));
    const float scale = FloatFromBFloat16(Fp8ScaleFor(largest));
    for (float& x : head) x = FloatFromFp8(Fp8FromFloat(x / scale)) * scale;
  }
}

TEST_P(AttentionTest, KeysAndValuesInFp8HaveTheBitsOfTheirNumbersInBFloat16) {
  Random random(15);
  for (Shape shape : kShapes) {
    shape.dtype = DType::kF8E4M3;
    Sequence sequence = RandomSequence(random, shape, 70, 70);
    // Of every size that scales have, and nothing at all.
    for (int64_t row = 0; row < 70; ++row) {
      const float size = row % 9 == 0 ? 0 : std::exp2(static_cast<float>(row % 13) * 3 - 25);
      for (int64_t col = 0; col < sequence.v.cols; ++col) {
        sequence.v.At(row, col) *= size * std::exp2(-static_cast<float>(col % 19));
        sequence.k.At(row, col) *= std::exp2(-static_cast<float>(col % 17));
      }
    }
    const auto pool = NewKvPool(backend(), shape.Pool(70));
    const HostMatrix fp8 = AttendChunk(backend(), *pool, 1, sequence, 0, 70, shape.Options());
    RoundHeadsToFp8(shape.head_dim, sequence.k);
    RoundHeadsToFp8(shape.head_dim, sequence.v);
    shape.dtype = DType::kBF16;
    const auto other = NewKvPool(backend(), shape.Pool(70));
    EXPECT_TRUE(SameBits(fp8, AttendChunk(backend(), *other, 1, sequence, 0, 70, shape.Options())))
        << shape;
  }
}

// A whole sequence, in one step in which it is alone.
HostMatrix AttendOpenly(Backend& backend, KvPool& pool, const Sequence& sequence,
                        const Shape& shape, int64_t ahead) {
  DeviceMatrix q(backend, sequence.q), k(backend, sequence.k), v(backend, sequence.v);
  DeviceMatrix out(backend, sequence.q.rows, sequence.q.cols);
  const AttentionSegment segment = sequence.Segment(0, sequence.q.rows);
  backend.BeginStep({&segment, 1}, sequence.q.rows);
  StoreKv(backend, k.view(), v.view(), 1, pool);
  backend.open_attention()->OpenAttention(q.view(), pool, 1, shape.Options(), ahead, out.view());
  return out.Read();
}

// Encoders: all of a text, or a window to both sides. Long ones reach over several splits.
TEST_P(AttentionTest, RowsSeeWhatTheirSegmentHasAheadOfThem) {
  if (backend().open_attention() == nullptr) GTEST_SKIP() << "has no open attention";
  Random random(21);
  const Shape shapes[] = {
      {.block_size = 16, .num_kv_heads = 2, .group = 1, .head_dim = 32},
      {.block_size = 5, .num_kv_heads = 1, .group = 3, .head_dim = 7, .dtype = DType::kBF16},
      {.block_size = 16, .num_kv_heads = 2, .group = 2, .head_dim = 24, .window = 9},
      {.block_size = 16, .num_kv_heads = 1, .group = 1, .head_dim = 16, .window = 600},
  };
  for (const Shape& shape : shapes) {
    for (const int64_t length : {1, 17, 75, 1100}) {
      SCOPED_TRACE(::testing::Message() << length << " positions, " << shape);
      const int64_t ahead = shape.window > 0 ? shape.window - 1 : int64_t{1} << 28;
      const int num_blocks = static_cast<int>(2 * length / shape.block_size + 2);
      const Sequence sequence = RandomSequence(random, shape, length, num_blocks);
      const auto ours = NewKvPool(backend(), shape.Pool(num_blocks));
      const auto theirs = NewKvPool(reference(), shape.Pool(num_blocks));
      const HostMatrix result = AttendOpenly(backend(), *ours, sequence, shape, ahead);
      EXPECT_TRUE(IsNear(result, AttendOpenly(reference(), *theirs, sequence, shape, ahead),
                         AttentionTolerance()));
      const auto other_backend = NewBackend(/*num_threads=*/5);
      const auto other = NewKvPool(*other_backend, shape.Pool(num_blocks));
      EXPECT_TRUE(SameBits(result, AttendOpenly(*other_backend, *other, sequence, shape, ahead)));
    }
  }
}

// A whole sequence, in steps of `chunk` positions, with biases by distance.
HostMatrix AttendBiased(Backend& backend, KvPool& pool, const Sequence& sequence,
                        const Shape& shape, const HostMatrix& biases, int64_t ahead,
                        int64_t chunk) {
  DeviceMatrix bias(backend, biases);
  const DistanceBias by_distance{.values = bias.view().Row(0), .reach = (biases.cols - 1) / 2};
  HostMatrix all(0, sequence.q.cols);
  for (int64_t first = 0; first < sequence.q.rows; first += chunk) {
    const int64_t count = std::min(chunk, sequence.q.rows - first);
    DeviceMatrix q(backend, sequence.q.Rows(first, count));
    DeviceMatrix k(backend, sequence.k.Rows(first, count));
    DeviceMatrix v(backend, sequence.v.Rows(first, count));
    DeviceMatrix out(backend, count, sequence.q.cols);
    const AttentionSegment segment = sequence.Segment(first, count);
    backend.BeginStep({&segment, 1}, count);
    StoreKv(backend, k.view(), v.view(), 1, pool);
    backend.cross_attention()->BiasedAttention(q.view(), pool, 1, shape.Options(), by_distance,
                                               ahead, out.view());
    const HostMatrix rows = out.Read();
    all.rows += rows.rows;
    all.values.insert(all.values.end(), rows.values.begin(), rows.values.end());
  }
  return all;
}

const Shape kShapesOfSources[] = {
    {.block_size = 16, .num_kv_heads = 2, .group = 1, .head_dim = 32},
    {.block_size = 5, .num_kv_heads = 1, .group = 3, .head_dim = 7, .dtype = DType::kBF16},
    {.block_size = 16, .num_kv_heads = 3, .group = 2, .head_dim = 24, .dtype = DType::kF8E4M3},
};

TEST_P(AttentionTest, BiasesByDistanceAgreeWithReference) {
  if (backend().cross_attention() == nullptr) GTEST_SKIP() << "has no biases by distance";
  Random random(31);
  for (const Shape& shape : kShapesOfSources) {
    for (const auto& [length, reach, ahead] : {std::tuple{1, 3, 0},
                                               {75, 20, 0},
                                               {75, 20, 1 << 20},
                                               {75, 0, 0},
                                               {600, 128, 0},
                                               {600, 128, 1 << 20}}) {
      SCOPED_TRACE(::testing::Message()
                   << length << " positions, reach " << reach << ", " << shape);
      const int num_blocks = 2 * length / shape.block_size + 2;
      const Sequence sequence = RandomSequence(random, shape, length, num_blocks);
      const HostMatrix biases =
          RandomMatrix(random, shape.num_kv_heads * shape.group, 2 * reach + 1, 2);
      const auto attend = [&](Backend& with, int64_t chunk) {
        const auto pool = NewKvPool(with, shape.Pool(num_blocks));
        return AttendBiased(with, *pool, sequence, shape, biases, ahead, chunk);
      };
      const HostMatrix result = attend(backend(), length);
      EXPECT_TRUE(IsNear(result, attend(reference(), length), AttentionTolerance()));
      EXPECT_TRUE(SameBits(result, attend(*NewBackend(/*num_threads=*/5), length)));
      if (ahead == 0) {
        EXPECT_TRUE(SameBits(result, attend(backend(), 29)));
      }
    }
  }
}

// Texts of 3 rows and of 1 row attend to sources of two lengths, of which one is shorter than the text.
TEST_P(AttentionTest, RowsSeeAllOfTheirSource) {
  if (backend().cross_attention() == nullptr) GTEST_SKIP() << "has no attention to sources";
  Random random(32);
  for (const Shape& shape : kShapesOfSources) {
    for (const int length : {2, 75, 600}) {
      SCOPED_TRACE(::testing::Message() << length << " positions, " << shape);
      const int num_blocks = 2 * length / shape.block_size + 2;
      const Sequence source = RandomSequence(random, shape, length, num_blocks);
      const HostMatrix queries = RandomMatrix(random, 5, source.q.cols, 2);
      const auto attend = [&](Backend& with, int64_t first, int64_t count) {
        const auto pool = NewKvPool(with, shape.Pool(num_blocks));
        DeviceMatrix k(with, source.k), v(with, source.v), q(with, queries.Rows(first, count));
        DeviceMatrix out(with, count, queries.cols);
        const AttentionSegment segment = source.Segment(0, length);
        with.BeginStep({&segment, 1}, length);
        StoreKv(with, k.view(), v.view(), 1, *pool);
        std::vector<SourceSegment> sources = {{.first_row = 0,
                                               .num_rows = std::min<int64_t>(count, 3),
                                               .num_positions = length,
                                               .block_table = source.block_table}};
        if (count > 3) {
          sources.push_back({.first_row = 3,
                             .num_rows = count - 3,
                             .num_positions = (length + 1) / 2,
                             .block_table = source.block_table});
        }
        with.cross_attention()->CrossAttention(q.view(), *pool, 1, shape.Options(), sources,
                                               out.view());
        return out.Read();
      };
      const HostMatrix result = attend(backend(), 0, 5);
      EXPECT_TRUE(IsNear(result, attend(reference(), 0, 5), AttentionTolerance()));
      EXPECT_TRUE(SameBits(result, attend(*NewBackend(/*num_threads=*/5), 0, 5)));
      EXPECT_TRUE(SameBits(result.Rows(1, 1), attend(backend(), 1, 1)));
    }
  }
}

TEST_P(AttentionTest, EveryChunkingGivesTheSameBits) {
  Random random(2);
  for (const Shape& shape : kShapes) {
    const int64_t length = 70;
    const Sequence sequence = RandomSequence(random, shape, length, 70);
    const auto pool = NewKvPool(backend(), shape.Pool(70));
    const HostMatrix whole = AttendChunk(backend(), *pool, 0, sequence, 0, length, shape.Options());
    for (const int64_t most : {1, 2, 9, 33}) {
      const auto other = NewKvPool(backend(), shape.Pool(70));
      for (int64_t first = 0; first < length;) {
        const int64_t count = std::min(length - first, RandomInt(random, 1, most));
        EXPECT_TRUE(
            SameBits(AttendChunk(backend(), *other, 0, sequence, first, count, shape.Options()),
                     whole.Rows(first, count)))
            << count << " positions from " << first << ", " << shape;
        first += count;
      }
    }
  }
}

TEST_P(AttentionTest, BlocksMayLieAnywhere) {
  Random random(3);
  for (const Shape& shape : kShapes) {
    Sequence sequence = RandomSequence(random, shape, 40, 60);
    const auto pool = NewKvPool(backend(), shape.Pool(60));
    const HostMatrix expected = AttendChunk(backend(), *pool, 0, sequence, 0, 40, shape.Options());
    std::shuffle(sequence.block_table.begin(), sequence.block_table.end(), random);
    const auto other = NewKvPool(backend(), shape.Pool(60));
    EXPECT_TRUE(
        SameBits(AttendChunk(backend(), *other, 1, sequence, 0, 40, shape.Options()), expected))
        << shape;
  }
}

// A sequence whose blocks were copied, through blocks of others in part, attends alike in all
// layers, and goes on in the copies without touching what they were copied from.
TEST_P(AttentionTest, CopiedBlocksHoldTheSame) {
  Random random(8);
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(::testing::Message() << shape);
    const int half = 30;
    Sequence sequence = RandomSequence(random, shape, 40, 60);
    const auto pool = NewKvPool(backend(), shape.Pool(121));
    for (const int layer : {0, 1}) {
      AttendChunk(backend(), *pool, layer, sequence, 0, half, shape.Options());
    }
    Sequence copied = sequence;
    std::vector<KvBlockCopy> copies;
    for (int32_t& block : copied.block_table) {
      const int32_t destination = 60 + block;
      copies.push_back({.source = block, .destination = 120});
      copies.push_back({.source = 120, .destination = destination});
      block = destination;
    }
    backend().CopyBlocks(copies, *pool);
    // Other keys in the copies' free slots: the two go different ways from here.
    copied.k = RandomMatrix(random, copied.k.rows, copied.k.cols);
    for (const int layer : {0, 1}) {
      const auto alone = NewKvPool(backend(), shape.Pool(121));
      AttendChunk(backend(), *alone, layer, sequence, 0, half, shape.Options());
      const HostMatrix original =
          AttendChunk(backend(), *alone, layer, sequence, half, 10, shape.Options());
      const HostMatrix other =
          AttendChunk(backend(), *alone, layer, Tail(copied, sequence), half, 10, shape.Options());
      EXPECT_TRUE(
          SameBits(AttendChunk(backend(), *pool, layer, copied, half, 10, shape.Options()), other));
      EXPECT_TRUE(SameBits(
          AttendChunk(backend(), *pool, layer, sequence, half, 10, shape.Options()), original));
    }
  }
}

TEST_P(AttentionTest, ThreadsDoNotMatter) {
  Random random(4);
  for (const Shape& shape : kShapes) {
    const Sequence sequence = RandomSequence(random, shape, 60, 60);
    const auto pool = NewKvPool(backend(), shape.Pool(60));
    const HostMatrix expected = AttendChunk(backend(), *pool, 0, sequence, 0, 60, shape.Options());
    for (const int num_threads : {1, 4}) {
      const auto backend = NewBackend(num_threads);
      const auto other = NewKvPool(*backend, shape.Pool(60));
      EXPECT_TRUE(
          SameBits(AttendChunk(*backend, *other, 0, sequence, 0, 60, shape.Options()), expected))
          << num_threads << " threads, " << shape;
    }
  }
}

// A decode row, a prefill chunk and the first chunk of a third sequence in one step, in one pool.
TEST_P(AttentionTest, OtherSequencesOfTheStepDoNotMatter) {
  Random random(5);
  for (const Shape& shape : kShapes) {
    struct Part {
      int64_t first, count;
    };
    const Part parts[] = {{30, 1}, {11, 20}, {0, 6}};
    const auto pool = NewKvPool(backend(), shape.Pool(130));
    const auto solo_pool = NewKvPool(backend(), shape.Pool(130));
    std::vector<Sequence> sequences;
    std::vector<AttentionSegment> segments;
    const int64_t width = int64_t{shape.num_kv_heads} * shape.head_dim;
    HostMatrix q(27, width * shape.group), k(27, width), v(27, width), expected = q;
    int64_t row = 0;
    const auto place = [&row](const HostMatrix& from, HostMatrix& to) {
      std::copy(from.values.begin(), from.values.end(), to.values.begin() + row * to.cols);
    };
    for (int i = 0; i < 3; ++i) {
      sequences.push_back(RandomSequence(random, shape, parts[i].first + parts[i].count, 40));
      for (int32_t& block : sequences[i].block_table) block += 40 * i;
    }
    for (int i = 0; i < 3; ++i) {
      const auto [first, count] = parts[i];
      const Sequence& sequence = sequences[i];
      for (KvPool* each : {pool.get(), solo_pool.get()}) {
        if (first > 0) AttendChunk(backend(), *each, 0, sequence, 0, first, shape.Options());
      }
      place(AttendChunk(backend(), *solo_pool, 0, sequence, first, count, shape.Options()),
            expected);
      place(sequence.q.Rows(first, count), q);
      place(sequence.k.Rows(first, count), k);
      place(sequence.v.Rows(first, count), v);
      segments.push_back(sequence.Segment(first, count, row));
      row += count;
    }
    DeviceMatrix all_q(backend(), q), all_k(backend(), k), all_v(backend(), v);
    DeviceMatrix out(backend(), q.rows, q.cols);
    backend().BeginStep(segments, q.rows);
    StoreKv(backend(), all_k.view(), all_v.view(), 0, *pool);
    backend().PagedAttention(all_q.view(), *pool, 0, shape.Options(), out.view());
    EXPECT_TRUE(SameBits(out.Read(), expected)) << shape;
  }
}

// Blocks are used again without being cleared.
TEST_P(AttentionTest, WhatLiesBehindAPositionIsNeverRead) {
  Random random(6);
  for (const Shape& shape : kShapes) {
    const Sequence sequence = RandomSequence(random, shape, 23, 30);
    const auto clean = NewKvPool(backend(), shape.Pool(30));
    const HostMatrix expected = AttendChunk(backend(), *clean, 0, sequence, 0, 23, shape.Options());
    const auto used = NewKvPool(backend(), shape.Pool(30));
    Sequence rubbish = RandomSequence(random, shape, int64_t{30} * shape.block_size, 30);
    for (HostMatrix* matrix : {&rubbish.k, &rubbish.v}) {
      for (float& value : matrix->values) value = std::numeric_limits<float>::quiet_NaN();
    }
    AttendChunk(backend(), *used, 0, rubbish, 0, rubbish.q.rows, shape.Options());
    EXPECT_TRUE(
        SameBits(AttendChunk(backend(), *used, 0, sequence, 0, 23, shape.Options()), expected))
        << shape;
  }
}

// What 20 positions attend to before and after the last one's values hold an infinity, which earlier
// rows must not see.
struct BesideInfinity {
  HostMatrix before;
  HostMatrix after;
};

BesideInfinity AttendBesideInfinity(Backend& backend, const Shape& shape, int seed) {
  Random random(seed);
  Sequence sequence = RandomSequence(random, shape, 20, 2);
  const auto pool = NewKvPool(backend, shape.Pool(2));
  HostMatrix before = AttendChunk(backend, *pool, 0, sequence, 0, 20, shape.Options());
  sequence.v.At(19, 3) = std::numeric_limits<float>::infinity();
  HostMatrix after = AttendChunk(backend, *pool, 0, sequence, 0, 20, shape.Options());
  EXPECT_TRUE(SameBits(after.Rows(0, 19), before.Rows(0, 19)));
  return {std::move(before), std::move(after)};
}

TEST_P(AttentionTest, ALaterInfinityDoesNotReachEarlierRows) {
  EXPECT_TRUE(std::isinf(AttendBesideInfinity(backend(), {}, 7).after.At(19, 3)));
}

// In FP8 a vector with an element that is not finite is no number, for those who see it.
TEST_P(AttentionTest, ALaterInfinityInFp8DoesNotReachEarlierRows) {
  const Shape shape{.dtype = DType::kF8E4M3};
  const auto [before, after] = AttendBesideInfinity(backend(), shape, 16);
  for (int col = 0; col < 2 * shape.head_dim; ++col) EXPECT_TRUE(std::isnan(after.At(19, col)));
  EXPECT_EQ(after.At(19, 2 * shape.head_dim), before.At(19, 2 * shape.head_dim));
}

TEST_P(AttentionTest, AWindowEndsWithTheRowsOwnPosition) {
  const Shape shape{.num_kv_heads = 1, .group = 1, .head_dim = 1, .window = 3};
  // Equal scores: every row is the mean of the values it sees.
  Sequence sequence{HostMatrix(20, 1), HostMatrix(20, 1), HostMatrix(20, 1), BlocksInOrder(20, 16)};
  for (int i = 0; i < 20; ++i) sequence.v.At(i, 0) = static_cast<float>(i);
  const auto pool = NewKvPool(backend(), shape.Pool(2));
  const HostMatrix out = AttendChunk(backend(), *pool, 0, sequence, 0, 20, shape.Options());
  EXPECT_FLOAT_EQ(out.At(0, 0), 0);
  EXPECT_FLOAT_EQ(out.At(1, 0), 0.5F);
  for (int i = 2; i < 20; ++i) EXPECT_FLOAT_EQ(out.At(i, 0), static_cast<float>(i - 1)) << i;
}

// One key is as good as another where scores can't exceed a cap that is next to nothing.
TEST_P(AttentionTest, ASoftCapLimitsScores) {
  Random random(21);
  const Shape capped{.num_kv_heads = 1, .group = 1, .head_dim = 16, .softcap = 1e-4F};
  const int64_t length = 20;
  const Sequence sequence = RandomSequence(random, capped, length, 4);
  const auto pool = NewKvPool(backend(), capped.Pool(4));
  const HostMatrix out = AttendChunk(backend(), *pool, 0, sequence, 0, length, capped.Options());
  HostMatrix means(length, 16);
  for (int64_t row = 0; row < length; ++row) {
    for (int64_t col = 0; col < 16; ++col) {
      for (int64_t seen = 0; seen <= row; ++seen) means.At(row, col) += sequence.v.At(seen, col);
      means.At(row, col) /= static_cast<float>(row + 1);
    }
  }
  EXPECT_TRUE(IsNear(out, means, 1e-3));
}

// Neither scores nor values of positions before the window reach a row, whatever they are.
TEST_P(AttentionTest, WhatLiesBeforeAWindowIsNeverRead) {
  Random random(11);
  const Shape shape{.window = 5};
  Sequence sequence = RandomSequence(random, shape, 40, 4);
  const auto pool = NewKvPool(backend(), shape.Pool(4));
  const HostMatrix expected =
      AttendChunk(backend(), *pool, 0, sequence, 0, 40, shape.Options()).Rows(36, 4);
  for (HostMatrix* matrix : {&sequence.k, &sequence.v}) {
    std::fill_n(matrix->values.begin(), 32 * matrix->cols, std::numeric_limits<float>::quiet_NaN());
  }
  AttendChunk(backend(), *pool, 0, sequence, 0, 36, shape.Options());
  EXPECT_TRUE(
      SameBits(AttendChunk(backend(), *pool, 0, sequence, 36, 4, shape.Options()), expected));
}

TEST_P(AttentionTest, LayersAreSeparate) {
  Random random(8);
  const Shape shape;
  const Sequence first = RandomSequence(random, shape, 30, 2);
  const Sequence second = RandomSequence(random, shape, 30, 2);
  const auto pool = NewKvPool(backend(), shape.Pool(2));
  const HostMatrix expected = AttendChunk(backend(), *pool, 0, first, 0, 30, shape.Options());
  AttendChunk(backend(), *pool, 1, second, 0, 30, shape.Options());
  DeviceMatrix q(backend(), first.q), out(backend(), first.q.rows, first.q.cols);
  const AttentionSegment segment = first.Segment(0, 30);
  backend().BeginStep({&segment, 1}, 30);
  backend().PagedAttention(q.view(), *pool, 0, shape.Options(), out.view());
  EXPECT_TRUE(SameBits(out.Read(), expected));
}

TEST_P(AttentionTest, ScoresOfAnySizeStayFinite) {
  Random random(9);
  const Shape shape;
  Sequence sequence = RandomSequence(random, shape, 50, 4);
  for (float& value : sequence.q.values) value *= 1e4f;
  const auto ours = NewKvPool(backend(), shape.Pool(4));
  const auto theirs = NewKvPool(reference(), shape.Pool(4));
  // One position takes all the weight, so the results agree although the scores are coarse.
  EXPECT_TRUE(IsNear(AttendChunk(backend(), *ours, 0, sequence, 0, 50, shape.Options()),
                     AttendChunk(reference(), *theirs, 0, sequence, 0, 50, shape.Options()), 0.05));
}

// What a step was begun with is the backend's: the caller's may change.
TEST_P(AttentionTest, BlockTablesAreReadWhenTheStepBegins) {
  Random random(14);
  const Shape shape;
  const Sequence sequence = RandomSequence(random, shape, 40, 6);
  const auto pool = NewKvPool(backend(), shape.Pool(6));
  const HostMatrix expected = AttendChunk(backend(), *pool, 0, sequence, 0, 40, shape.Options());
  std::vector<int32_t> table = sequence.block_table;
  std::vector<AttentionSegment> segments = {
      {.first_row = 0, .num_rows = 40, .first_position = 0, .block_table = table}};
  const DeviceMatrix q(backend(), sequence.q), k(backend(), sequence.k), v(backend(), sequence.v);
  DeviceMatrix out(backend(), 40, sequence.q.cols);
  backend().BeginStep(segments, 40);
  std::fill(table.begin(), table.end(), -1);
  segments[0].num_rows = 1;
  StoreKv(backend(), k.view(), v.view(), 1, *pool);
  backend().PagedAttention(q.view(), *pool, 1, shape.Options(), out.view());
  EXPECT_TRUE(SameBits(out.Read(), expected));
}

TEST_P(AttentionTest, AShortBlockTableIsABrokenInvariant) {
  Random random(10);
  const Shape shape;
  Sequence sequence = RandomSequence(random, shape, 17, 4);
  sequence.block_table.resize(1);
  const auto pool = NewKvPool(backend(), shape.Pool(4));
  EXPECT_DEATH(AttendChunk(backend(), *pool, 0, sequence, 0, 17, shape.Options()),
               "broken invariant");
}

}  // namespace
}  // namespace sluice::testing
