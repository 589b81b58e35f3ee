#include <cstring>
#include <limits>
#include <vector>

#include "tests/kernels/testing/backend_cases.h"
#include "tests/kernels/testing/tensors.h"

namespace sluice::testing {
namespace {

using TopKTest = BackendTest;
SLUICE_FOR_ALL_BACKENDS(TopKTest);

struct Top {
  std::vector<float> values;
  std::vector<int32_t> ids;
};

Top TopK(Backend& backend, const HostMatrix& x, int k, int64_t padding = 0) {
  DeviceMatrix in(backend, x, padding);
  Top top{std::vector<float>(x.rows * k), std::vector<int32_t>(x.rows * k)};
  const absl::Status status =
      backend.TopK(in.view(), k, absl::MakeSpan(top.values), absl::MakeSpan(top.ids));
  EXPECT_TRUE(status.ok()) << status;
  return top;
}

bool Same(const Top& a, const Top& b) {
  return a.ids == b.ids &&
         std::memcmp(a.values.data(), b.values.data(), a.values.size() * sizeof(float)) == 0;
}

TEST_P(TopKTest, AgreesWithReferenceTiesAndNaNIncluded) {
  Random random(1);
  for (int i = 0; i < 80; ++i) {
    const int64_t rows = RandomInt(random, 1, 10);
    const int64_t cols = RandomInt(random, 1, i % 10 == 0 ? 20000 : 120);
    HostMatrix x = RandomMatrix(random, rows, cols);
    for (float& value : x.values) {
      if (i % 2 == 0) value = static_cast<float>(static_cast<int>(value));  // many ties
      if (i % 4 < 2 && RandomInt(random, 0, 9) == 0) {
        value = std::numeric_limits<float>::quiet_NaN();
      }
      if (RandomInt(random, 0, 20) == 0) value = -std::numeric_limits<float>::infinity();
    }
    const int k = static_cast<int>(RandomInt(random, 1, std::min<int64_t>(cols, 200)));
    EXPECT_TRUE(Same(TopK(backend(), x, k, i % 3), TopK(reference(), x, k)))
        << "[" << rows << ", " << cols << "], k " << k;
  }
}

TEST_P(TopKTest, TiesGoToTheLowerColumn) {
  EXPECT_EQ(TopK(backend(), HostMatrix(1, 6, {1, 3, 2, 3, 3, 2}), 5).ids,
            (std::vector<int32_t>{1, 3, 4, 2, 5}));
  EXPECT_EQ(TopK(backend(), HostMatrix(1, 3, {-0.0f, 0.0f, -0.0f}), 3).ids,
            (std::vector<int32_t>{0, 1, 2}));
}

TEST_P(TopKTest, NaNRanksBelowMinusInfinity) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(TopK(backend(), HostMatrix(1, 5, {kNaN, -kInfinity, kNaN, 0, kInfinity}), 5).ids,
            (std::vector<int32_t>{4, 3, 1, 0, 2}));
  EXPECT_EQ(TopK(backend(), HostMatrix(1, 2, {kNaN, kNaN}), 1).ids, (std::vector<int32_t>{0}));
}

TEST_P(TopKTest, RowsAndThreadsDoNotMatter) {
  Random random(2);
  const HostMatrix x = RandomMatrix(random, 12, 6000);
  const Top together = TopK(backend(), x, 7);
  EXPECT_TRUE(Same(TopK(*NewBackend(4), x, 7), together));
  for (int64_t row = 0; row < x.rows; ++row) {
    const Top alone = TopK(backend(), x.Rows(row, 1), 7);
    EXPECT_TRUE(std::equal(alone.ids.begin(), alone.ids.end(), together.ids.begin() + row * 7));
  }
}

}  // namespace
}  // namespace sluice::testing
