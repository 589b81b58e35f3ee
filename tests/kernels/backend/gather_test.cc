#include <vector>

#include "tests/kernels/testing/backend_cases.h"
#include "tests/kernels/testing/tensors.h"

namespace sluice::testing {
namespace {

using GatherTest = BackendTest;
SLUICE_FOR_ALL_BACKENDS(GatherTest);

TEST_P(GatherTest, CopiesAndWidensRowsExactly) {
  Random random(1);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (int i = 0; i < 20; ++i) {
      const int64_t vocabulary = RandomInt(random, 1, 300), width = RandomInt(random, 1, 700);
      const HostMatrix table = RoundedToBFloat16(RandomMatrix(random, vocabulary, width));
      std::vector<int32_t> ids(RandomInt(random, 1, 60));
      HostMatrix expected(static_cast<int64_t>(ids.size()), width);
      for (size_t t = 0; t < ids.size(); ++t) {
        ids[t] = static_cast<int32_t>(RandomInt(random, 0, vocabulary - 1));
        for (int64_t h = 0; h < width; ++h) expected.At(t, h) = table.At(ids[t], h);
      }
      DeviceMatrix device_table(backend(), table, i % 5, dtype);
      DeviceMatrix out(backend(), expected.rows, width, i % 3);
      backend().GatherRows(device_table.view(), ids, out.view());
      EXPECT_TRUE(SameBits(out.Read(), expected)) << Name(dtype);
    }
  }
}

TEST_P(GatherTest, ElementsComeInTheOrderAskedFor) {
  Random random(2);
  const HostMatrix x = RandomMatrix(random, 7, 300);
  std::vector<MatrixElement> elements;
  std::vector<float> expected;
  for (int i = 0; i < 100; ++i) {
    const int64_t row = RandomInt(random, 0, 6), col = RandomInt(random, 0, 299);
    elements.push_back({.row = row, .col = col});
    expected.push_back(x.At(row, col));
  }
  const DeviceMatrix device(backend(), x, 5);
  std::vector<float> values(expected.size());
  ASSERT_TRUE(backend().GatherElements(device.view(), elements, absl::MakeSpan(values)).ok());
  EXPECT_EQ(values, expected);
}

TEST_P(GatherTest, AnElementOutsideTheMatrixIsABrokenInvariant) {
  const DeviceMatrix x(backend(), HostMatrix(4, 2));
  float value = 0;
  const auto gather = [&](const MatrixElement& element) {
    backend().GatherElements(x.view(), {element}, absl::MakeSpan(&value, 1)).IgnoreError();
  };
  EXPECT_DEATH(gather({.row = 4, .col = 0}), "broken invariant");
  EXPECT_DEATH(gather({.row = 0, .col = 2}), "broken invariant");
}

TEST_P(GatherTest, ARowOutsideTheTableIsABrokenInvariant) {
  DeviceMatrix table(backend(), HostMatrix(4, 2)), out(backend(), 1, 2);
  const auto gather = [&](int32_t id) {
    backend().GatherRows(table.view(), {id}, out.view());
    backend().Synchronize().IgnoreError();  // where the work is done later
  };
  EXPECT_DEATH(gather(4), "broken invariant");
  EXPECT_DEATH(gather(-1), "broken invariant");
}

}  // namespace
}  // namespace sluice::testing
