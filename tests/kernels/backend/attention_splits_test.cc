// Contexts that are longer than a split (kernels/attention_splits.h).
#include <algorithm>
#include <vector>

#include "tests/kernels/backend/attention_shapes.h"
#include "tests/kernels/testing/backend_cases.h"
#include "tests/kernels/testing/paged_sequence.h"
#include "tests/kernels/testing/tensors.h"

namespace sluice::testing {
namespace {

// Splits in blocks that divide them, that don't, and that are longer.
const AttentionShape kSplitShapes[] = {
    {.num_kv_heads = 1, .group = 3, .head_dim = 24},
    {.block_size = 5, .num_kv_heads = 2, .group = 1, .head_dim = 7, .dtype = DType::kBF16},
    {.block_size = 700, .num_kv_heads = 1, .group = 2, .head_dim = 16},
    {.block_size = 16, .num_kv_heads = 2, .group = 2, .head_dim = 8, .window = 600},
    {.block_size = 64, .num_kv_heads = 1, .group = 9, .head_dim = 4, .window = 513},
};

// A sequence of one of these shapes, and what attention gives for all of its rows at once.
struct Prefilled {
  AttentionShape shape;
  KvPoolSpec pool;
  Sequence sequence;
  HostMatrix whole;
};

class AttentionSplitsTest : public BackendTest {
 protected:
  // Positions; the kernels of GPUs take their time on the host.
  int64_t length() const { return GetParam().is_gpu ? 700 : 1300; }

  Prefilled Prefill(const AttentionShape& shape) {
    const KvPoolSpec spec = shape.Pool(static_cast<int>(length() / shape.block_size) + 2);
    const Sequence sequence = RandomSequence(random_, shape, length(), spec.num_blocks);
    const auto pool = NewKvPool(backend(), spec);
    return {shape, spec, sequence,
            AttendChunk(backend(), *pool, 0, sequence, 0, length(), shape.Options(), 3)};
  }

  // `count` rows from `first` on, whose predecessors are in `pool`, have the bits of the whole.
  void ExpectBits(const Prefilled& expected, Backend& backend, KvPool& pool, int64_t first,
                  int64_t count) {
    EXPECT_TRUE(SameBits(
        AttendChunk(backend, pool, 0, expected.sequence, first, count, expected.shape.Options()),
        expected.whole.Rows(first, count)))
        << count << " positions from " << first << ", " << expected.shape;
  }

 private:
  Random random_{12};
};
SLUICE_FOR_ALL_BACKENDS(AttentionSplitsTest);

TEST_P(AttentionSplitsTest, LongContextsAgreeWithReference) {
  for (const AttentionShape& shape : kSplitShapes) {
    const Prefilled ours = Prefill(shape);
    const auto pool = NewKvPool(reference(), ours.pool);
    const HostMatrix theirs =
        AttendChunk(reference(), *pool, 0, ours.sequence, 0, length(), shape.Options());
    EXPECT_TRUE(IsNear(ours.whole, theirs, AttentionTolerance())) << shape;
  }
}

// Decode rows around the ends of splits, on few threads and on many: what a prefill gave them.
TEST_P(AttentionSplitsTest, EverySharingGivesTheSameBits) {
  for (const AttentionShape& shape : kSplitShapes) {
    const Prefilled expected = Prefill(shape);
    for (const int num_threads :
         GetParam().is_gpu ? std::vector<int>{7} : std::vector<int>{1, 2, 7}) {
      SCOPED_TRACE(::testing::Message() << num_threads << " threads");
      const auto other = NewBackend(num_threads);
      const auto pool = NewKvPool(*other, expected.pool);
      for (int64_t first = 0, count; first < length(); first += count) {
        const int64_t to_boundary = 511 - first % 512;
        count = to_boundary < 3 || to_boundary > 509 ? 1 : std::min(to_boundary - 2, int64_t{300});
        count = std::min(count, length() - first);
        ExpectBits(expected, *other, *pool, first, count);
      }
    }
  }
}

// Drafted rows: some of one sequence after a long context, on few threads and on many.
TEST_P(AttentionSplitsTest, RowsTogetherHaveTheBitsOfRowsInTurn) {
  for (const AttentionShape& shape : kSplitShapes) {
    const Prefilled expected = Prefill(shape);
    for (const int num_threads : {1, 3}) {
      SCOPED_TRACE(::testing::Message() << num_threads << " threads");
      const auto other = NewBackend(num_threads);
      const auto pool = NewKvPool(*other, expected.pool);
      ExpectBits(expected, *other, *pool, 0, length());
      for (int64_t rows = 2; rows <= 9; rows += GetParam().is_gpu ? 7 : 1) {
        ExpectBits(expected, *other, *pool, length() - rows, rows);
      }
    }
  }
}

}  // namespace
}  // namespace sluice::testing
