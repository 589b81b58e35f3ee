// Low-rank adapters, on every backend that computes them.
#include <algorithm>
#include <memory>
#include <tuple>
#include <vector>

#include "kernels/adapter_memory.h"
#include "kernels/adapter_ops.h"
#include "tests/kernels/testing/backend_cases.h"
#include "tests/kernels/testing/tensors.h"

namespace sluice::testing {
namespace {

class AdapterTest : public BackendTest {
 protected:
  void SetUp() override {
    BackendTest::SetUp();
    if (backend().adapters() == nullptr) GTEST_SKIP() << "computes no adapters";
  }
};
SLUICE_FOR_ALL_PRODUCTS(AdapterTest);

// Adapters of a matrix [N, K] in two runs of outputs, which have ranks of their own.
struct Adapters {
  int64_t num_inputs = 0, first_outputs = 0, num_outputs = 0;
  struct Parts {
    HostMatrix first_a, first_b, second_a, second_b;
  };
  std::vector<Parts> parts;

  Adapters(Random& random, int64_t k, int64_t first, int64_t n, const std::vector<int64_t>& ranks)
      : num_inputs(k), first_outputs(first), num_outputs(n) {
    for (const int64_t rank : ranks) {
      parts.push_back({RandomMatrix(random, rank, k), RandomMatrix(random, first, rank),
                       RandomMatrix(random, rank + 3, k),
                       RandomMatrix(random, n - first, rank + 3)});
    }
  }
};

// They and their memory on a backend, by slot; a slot that is not among `slots` is empty.
class OnDevice {
 public:
  OnDevice(Backend& backend, const Adapters& adapters, const std::vector<int>& slots,
           int num_slices, int64_t first_input, int64_t num_inputs)
      : memory_(backend) {
    const int most = *std::max_element(slots.begin(), slots.end());
    by_slot_.resize(most + 1, nullptr);
    factors_.reserve(slots.size());
    for (size_t i = 0; i < slots.size(); ++i) {
      const Adapters::Parts& parts = adapters.parts[i];
      const HostMatrix first = parts.first_a.Columns(first_input, num_inputs);
      const HostMatrix second = parts.second_a.Columns(first_input, num_inputs);
      const PlainAdapter plain[] = {{.a = first.values,
                                     .b = parts.first_b.values,
                                     .rank = first.rows,
                                     .num_outputs = adapters.first_outputs},
                                    {.a = second.values,
                                     .b = parts.second_b.values,
                                     .rank = second.rows,
                                     .first_output = adapters.first_outputs,
                                     .num_outputs = adapters.num_outputs - adapters.first_outputs}};
      factors_.push_back(*memory_.Add(plain, num_inputs, num_slices));
      by_slot_[slots[i]] = &factors_.back();
    }
  }

  FactorsBySlot get() const { return by_slot_; }

 private:
  AdapterMemory memory_;
  std::vector<AdapterFactors> factors_;
  std::vector<const AdapterFactors*> by_slot_;
};

constexpr int64_t kSumsWidth = 96;

HostMatrix SumsOf(Backend& backend, const HostMatrix& x, const std::vector<int32_t>& slots,
                  FactorsBySlot factors) {
  const DeviceMatrix inputs(backend, x, 3);
  const DeviceMatrix sums(backend, x.rows, kSumsWidth);
  backend.adapters()->SumAdapterInputs(inputs.view(), slots, factors, sums.view());
  return sums.Read();
}

HostMatrix Adapted(Backend& backend, const HostMatrix& x, const std::vector<int32_t>& slots,
                   FactorsBySlot factors, const HostMatrix& base) {
  const DeviceMatrix sums(backend, SumsOf(backend, x, slots, factors));
  const DeviceMatrix out(backend, base, 5);
  backend.adapters()->AddAdapterOutputs(sums.view(), slots, factors, nullptr, out.view());
  return out.Read();
}

TEST_P(AdapterTest, ProductsAreThoseOfTheReference) {
  Random random(1);
  for (const auto& [k, first, n] :
       {std::tuple(5, 1, 2), std::tuple(64, 40, 100), std::tuple(333, 77, 1300)}) {
    const Adapters adapters(random, k, first, n, {1, 4, 16, 29});
    const std::vector<int> places = {3, 0, 5, 1};
    const OnDevice ours(backend(), adapters, places, 1, 0, k);
    const OnDevice plain(reference(), adapters, places, 1, 0, k);
    const std::vector<int32_t> slots = {5, 5, -1, 0, 2, 3, 1, 5, -1, 0};
    const HostMatrix x = RandomMatrix(random, 10, k), base = RandomMatrix(random, 10, n);
    EXPECT_TRUE(IsNear(SumsOf(backend(), x, slots, ours.get()),
                       SumsOf(reference(), x, slots, plain.get()), 1e-4, 1e-5));
    const HostMatrix out = Adapted(backend(), x, slots, ours.get(), base);
    EXPECT_TRUE(IsNear(out, Adapted(reference(), x, slots, plain.get(), base), 2e-3, 1e-5));
    for (const int64_t row : {2, 4, 8}) {  // without one, or with an empty slot
      EXPECT_TRUE(SameBits(out.Rows(row, 1), base.Rows(row, 1)));
    }
  }
}

TEST_P(AdapterTest, RowsHaveTheBitsThatTheyHaveAlone) {
  Random random(2);
  const int64_t k = 200, n = 700;
  const Adapters adapters(random, k, 300, n, {8, 24});
  const OnDevice factors(backend(), adapters, {0, 1}, 4, 0, k);
  const OnDevice moved(backend(), adapters, {6, 2}, 4, 0, k);
  std::vector<int32_t> slots;
  for (int i = 0; i < 70; ++i) slots.push_back(static_cast<int32_t>(RandomInt(random, -1, 1)));
  const HostMatrix x = RandomMatrix(random, 70, k), base = RandomMatrix(random, 70, n);
  const HostMatrix together = Adapted(backend(), x, slots, factors.get(), base);
  for (int row = 0; row < 70; ++row) {
    const int32_t slot = slots[row] < 0 ? -1 : slots[row] == 0 ? 6 : 2;
    EXPECT_TRUE(SameBits(together.Rows(row, 1), Adapted(backend(), x.Rows(row, 1), {slot},
                                                        moved.get(), base.Rows(row, 1))));
  }
}

// Ranks have runs of the inputs, and join their sums as a tree of neighbours.
TEST_P(AdapterTest, SumsOfRanksJoinToThoseOfOne) {
  Random random(3);
  const int64_t k = 8 * 24;
  const Adapters adapters(random, k, 10, 20, {16});
  const HostMatrix x = RandomMatrix(random, 3, k);
  const std::vector<int32_t> slots = {0, 0, 0};
  const OnDevice whole(backend(), adapters, {0}, 8, 0, k);
  const HostMatrix expected = SumsOf(backend(), x, slots, whole.get());
  for (const int ranks : {2, 4, 8}) {
    std::vector<DeviceMatrix> partials;
    std::vector<MatrixView> views;
    partials.reserve(ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      const int64_t width = k / ranks;
      const OnDevice part(backend(), adapters, {0}, 8 / ranks, rank * width, width);
      partials.emplace_back(backend(),
                            SumsOf(backend(), x.Columns(rank * width, width), slots, part.get()));
      views.push_back(partials.back().view());
    }
    const DeviceMatrix joined(backend(), 3, kSumsWidth);
    backend().TreeAdd(views, joined.view());
    EXPECT_TRUE(SameBits(joined.Read(), expected)) << ranks << " ranks";
  }
}

// Before the activation, and bit for bit what other rows have without any.
TEST_P(AdapterTest, AddendsAreAddedBeforeBiasAndActivation) {
  Random random(4);
  const int64_t k = 96, f = 70;
  const HostMatrix weights = RandomMatrix(random, 2 * f, k, 0.1F);
  const PackSpec spec{.gated = true};
  const auto ours = Pack(backend(), weights, spec);
  const auto plain = Pack(reference(), weights, spec);
  const HostMatrix x = RandomMatrix(random, 4, k), values = RandomMatrix(random, 4, 2 * f);
  const auto run = [&](Backend& on, const PackedMatrix& matrix, std::vector<uint8_t> marks) {
    const DeviceMatrix inputs(on, x), addends(on, values), out(on, 4, f);
    auto rows = *on.Allocate(marks.size());
    on.CopyIn({reinterpret_cast<const std::byte*>(marks.data()), marks.size()}, rows->data());
    on.adapters()->GemmWithAddends(
        inputs.view(), matrix, out.view(), {.activation = Activation::kSilu},
        {.values = addends.view(), .rows = static_cast<const uint8_t*>(rows->data())});
    return out.Read();
  };
  const HostMatrix some = run(backend(), *ours, {1, 0, 1, 0});
  EXPECT_TRUE(IsNear(some, run(reference(), *plain, {1, 0, 1, 0}), 1e-4, 1e-4));
  const HostMatrix none = run(backend(), *ours, {0, 0, 0, 0});
  EXPECT_TRUE(SameBits(some.Rows(1, 1), none.Rows(1, 1)));
  EXPECT_TRUE(SameBits(some.Rows(3, 1), none.Rows(3, 1)));
  EXPECT_FALSE(SameBits(some.Rows(0, 1), none.Rows(0, 1)));
  const DeviceMatrix inputs(backend(), x), out(backend(), 4, f);
  backend().Gemm(inputs.view(), *ours, out.view(), {.activation = Activation::kSilu});
  EXPECT_TRUE(SameBits(out.Read(), none));
}

}  // namespace
}  // namespace sluice::testing
