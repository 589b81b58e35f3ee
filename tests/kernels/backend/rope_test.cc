#include <cmath>
#include <vector>

#include "tests/kernels/testing/backend_cases.h"
#include "tests/kernels/testing/primitives.h"
#include "tests/kernels/testing/tensors.h"

namespace sluice::testing {
namespace {

using RopeTest = BackendTest;
SLUICE_FOR_ALL_BACKENDS(RopeTest);

struct Rotation {
  HostMatrix cos, sin;
};

Rotation RandomRotation(Random& random, int64_t rows, int64_t pairs) {
  const HostMatrix angles = RandomMatrix(random, rows, pairs, 3);
  Rotation rotation{angles, angles};
  for (float& value : rotation.cos.values) value = std::cos(value);
  for (float& value : rotation.sin.values) value = std::sin(value);
  return rotation;
}

HostMatrix Rotated(Backend& backend, const HostMatrix& x, int head_dim, const Rotation& rotation,
                   RopeLayout layout, int64_t padding = 0) {
  DeviceMatrix in(backend, x, padding), cos(backend, rotation.cos), sin(backend, rotation.sin);
  Rope(backend, in.view(), head_dim, {cos.view(), sin.view(), RopeTables::Index::kRow}, layout);
  return in.Read();
}

TEST_P(RopeTest, AgreesWithReference) {
  Random random(1);
  for (int i = 0; i < 60; ++i) {
    const RopeLayout layout = i % 2 == 0 ? RopeLayout::kHalfSplit : RopeLayout::kInterleaved;
    const int64_t rows = RandomInt(random, 1, 30), heads = RandomInt(random, 1, 6);
    const int head_dim = static_cast<int>(RandomInt(random, 2, 140));
    const int64_t pairs = RandomInt(random, 1, head_dim / 2);
    const HostMatrix x = RandomMatrix(random, rows, heads * head_dim);
    const Rotation rotation = RandomRotation(random, rows, pairs);
    EXPECT_TRUE(IsNear(Rotated(backend(), x, head_dim, rotation, layout, i % 3),
                       Rotated(reference(), x, head_dim, rotation, layout), 1e-6))
        << rows << " rows of " << heads << " heads of " << head_dim << ", " << pairs << " pairs";
  }
}

TEST_P(RopeTest, PartialRotationLeavesTheRestOfTheHead) {
  const HostMatrix x(1, 6, {1, 2, 3, 4, 5, 6});
  const Rotation quarter{HostMatrix(1, 2, {0, 0}), HostMatrix(1, 2, {1, 1})};
  EXPECT_TRUE(SameBits(Rotated(backend(), x, 6, quarter, RopeLayout::kHalfSplit),
                       HostMatrix(1, 6, {-3, -4, 1, 2, 5, 6})));
  EXPECT_TRUE(SameBits(Rotated(backend(), x, 6, quarter, RopeLayout::kInterleaved),
                       HostMatrix(1, 6, {-2, 1, -4, 3, 5, 6})));
}

TEST_P(RopeTest, RowsAndThreadsDoNotMatter) {
  Random random(2);
  for (const RopeLayout layout : {RopeLayout::kHalfSplit, RopeLayout::kInterleaved}) {
    const HostMatrix x = RandomMatrix(random, 60, 12 * 70);
    const Rotation rotation = RandomRotation(random, 60, 35);
    const HostMatrix together = Rotated(backend(), x, 70, rotation, layout);
    EXPECT_TRUE(SameBits(Rotated(*NewBackend(4), x, 70, rotation, layout), together));
    for (int64_t row = 0; row < x.rows; ++row) {
      const Rotation one{rotation.cos.Rows(row, 1), rotation.sin.Rows(row, 1)};
      EXPECT_TRUE(
          SameBits(Rotated(backend(), x.Rows(row, 1), 70, one, layout), together.Rows(row, 1)));
    }
  }
}

// Tables by position give a row what tables by row do.
TEST_P(RopeTest, TablesOfAllPositionsServeEveryStep) {
  Random random(3);
  const Rotation all = RandomRotation(random, 50, 8);
  const HostMatrix x = RandomMatrix(random, 7, 40);
  const DeviceMatrix cos(backend(), all.cos), sin(backend(), all.sin);
  const std::vector<int32_t> first = {0, 1, 2, 3}, second = {4};
  const std::vector<AttentionSegment> segments = {
      {.first_row = 2, .num_rows = 4, .first_position = 46, .block_table = first},
      {.num_rows = 1, .first_position = 9, .block_table = second}};
  Rotation by_row{HostMatrix(7, 8), HostMatrix(7, 8)};
  const int64_t positions[] = {9, 0, 46, 47, 48, 49, 0};  // rows of no segment turn like position 0
  for (int64_t row = 0; row < 7; ++row) {
    for (int64_t i = 0; i < 8; ++i) {
      by_row.cos.At(row, i) = all.cos.At(positions[row], i);
      by_row.sin.At(row, i) = all.sin.At(positions[row], i);
    }
  }
  DeviceMatrix turned(backend(), x);
  Rope(backend(), turned.view(), 20, {cos.view(), sin.view()}, RopeLayout::kHalfSplit, segments);
  EXPECT_TRUE(SameBits(turned.Read(), Rotated(backend(), x, 20, by_row, RopeLayout::kHalfSplit)));
}

}  // namespace
}  // namespace sluice::testing
