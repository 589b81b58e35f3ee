// Multiplies by four warps, on the host: each warp its 16 rows, when it waits for them.
#include <cstddef>
#include <cstring>

#include "kernels/cuda/shared_descriptor.h"
#include "kernels/dtype.h"
#include "kernels/fp8.h"
#include "tests/gpu/host/simt/host_grid.h"
#include "tests/gpu/host/simt/host_tiles.h"

namespace sluice::cuda {
namespace {

constexpr int kInputs = 16;  // of one multiply: BF16 numbers, or pairs of FP8 ones

// B^T as it lies there now, by token and input.
std::vector<uint16_t> ReadDescribed(const HostBlock& block, uint64_t descriptor, int tokens) {
  if (!IsSwizzled(descriptor)) FailKernel("a descriptor of a matrix that is not swizzled");
  std::vector<uint16_t> elements(static_cast<size_t>(tokens) * kInputs);
  for (int token = 0; token < tokens; ++token) {
    for (int k = 0; k < kInputs; ++k) {
      const uint32_t address = DescribedAddress(descriptor, token, k);
      if (address + 2 > block.shape().shared_bytes) {
        FailKernel("a descriptor of a matrix outside shared memory");
      }
      std::memcpy(&elements[token * kInputs + k], block.shared_memory() + address, 2);
    }
  }
  return elements;
}

// The numbers that elements of 16 bits hold: one each, or two.
constexpr int kMostNumbers = 2 * kInputs;
int NumbersIn(HostMultiply::Numbers numbers) {
  return numbers == HostMultiply::Numbers::kBFloat16 ? kInputs : kMostNumbers;
}

// Number `n` of a row of elements.
double NumberOf(const uint16_t* elements, int n, HostMultiply::Numbers numbers) {
  if (numbers == HostMultiply::Numbers::kBFloat16) return FloatFromBFloat16(elements[n]);
  return FloatFromFp8(static_cast<uint8_t>(elements[n / 2] >> (n % 2 * 8)));
}

// One warp's 16 rows.
void MultiplyWarp(const uint32_t* const (&a)[kWarpSize], const std::vector<uint16_t>& b,
                  float* const (&c)[kWarpSize], const HostMultiply& asked) {
  uint16_t rows[16][kInputs];
  for (int lane = 0; lane < kWarpSize; ++lane) {
    for (int i = 0; i < 8; ++i) {
      const auto [row, col] = ElementOfA(lane, i);
      rows[row][col] = static_cast<uint16_t>(a[lane][i / 2] >> (i % 2 * 16));
    }
  }
  const int count = NumbersIn(asked.numbers);
  double wide_rows[16][kMostNumbers];
  EightDoubles wide_b[kMostNumbers];
  for (int row = 0; row < 16; ++row) {
    for (int n = 0; n < count; ++n) wide_rows[row][n] = NumberOf(rows[row], n, asked.numbers);
  }
  for (int column = 0; column < asked.columns; ++column) {
    for (int col = 0; col < 8; ++col) {
      const uint16_t* const token = b.data() + ptrdiff_t{column * 8 + col} * kInputs;
      for (int n = 0; n < count; ++n) wide_b[n].Set(col, NumberOf(token, n, asked.numbers));
    }
    EightDoubles sums[16];
    for (int row = 0; row < 16; ++row) sums[row] = SumOfProducts(wide_rows[row], wide_b, count);
    for (int lane = 0; lane < kWarpSize; ++lane) {
      for (int i = 0; i < 4; ++i) {
        const auto [row, col] = ElementOfC(lane, i);
        float& to = c[lane][column * 4 + i];
        to = static_cast<float>(asked.adds ? to + sums[row][col] : sums[row][col]);
      }
    }
  }
}

}  // namespace

uint32_t HostThread::SharedAddress(const void* shared) const {
  const auto offset = static_cast<const std::byte*>(shared) - block_->shared_memory();
  if (offset < 0 || offset >= static_cast<int64_t>(block_->shape().shared_bytes)) {
    FailKernel("an address outside shared memory");
  }
  return static_cast<uint32_t>(offset);
}

void HostThread::Multiply(const HostMultiply& multiply) {
  for (const HostThread* const thread : block_->threads_) {
    if (thread->has_unshown_) FailKernel("copies that multiplies were not shown");
  }
  multiplies_.push_back({.asked = multiply,
                         .a = {multiply.a, multiply.a + 4},
                         .b = lane() == 0 ? ReadDescribed(*block_, multiply.b, multiply.columns * 8)
                                          : std::vector<uint16_t>(),
                         .group = committed_multiplies_});
}

void HostThread::WaitForMultiplies(int most_pending) {
  waited_for_ = committed_multiplies_ - most_pending;
  Meet(CarryOut, this);
}

void HostThread::CarryOut(void* const (&lanes)[kWarpSize]) {
  auto& first = *static_cast<HostThread*>(lanes[0]);
  while (!first.multiplies_.empty() && first.multiplies_.front().group < first.waited_for_) {
    const PendingMultiply& leading = first.multiplies_.front();
    if (leading.b != ReadDescribed(*first.block_, leading.asked.b, leading.asked.columns * 8)) {
      FailKernel("what a multiply reads was changed before it was waited for");
    }
    const uint32_t* a[kWarpSize];
    float* c[kWarpSize];
    for (int lane = 0; lane < kWarpSize; ++lane) {
      auto& thread = *static_cast<HostThread*>(lanes[lane]);
      if (thread.multiplies_.empty() || thread.multiplies_.front().asked.b != leading.asked.b ||
          thread.multiplies_.front().asked.adds != leading.asked.adds) {
        FailKernel("lanes of a warp ask for different multiplies");
      }
      const PendingMultiply& pending = thread.multiplies_.front();
      a[lane] = pending.asked.a;
      c[lane] = pending.asked.c;
      if (std::memcmp(a[lane], pending.a.data(), 16) != 0) {
        FailKernel("registers of a multiply were changed before it was waited for");
      }
    }
    MultiplyWarp(a, leading.b, c, leading.asked);
    for (void* const lane : lanes) {
      auto& pending = static_cast<HostThread*>(lane)->multiplies_;
      pending.erase(pending.begin());
    }
  }
}

}  // namespace sluice::cuda
