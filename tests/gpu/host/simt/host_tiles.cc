#include "tests/gpu/host/simt/host_tiles.h"

#include <cstddef>
#include <cstring>

#include "kernels/cuda/fragment.h"
#include "kernels/dtype.h"
#include "tests/gpu/host/simt/host_grid.h"

namespace sluice::cuda {
namespace {

struct LoadArguments {
  const void* row;
  bool transposed;
  uint32_t* out;
};

struct MultiplyArguments {
  const uint32_t* a;
  uint32_t b[2];
  float* c;
};

float Half(uint32_t pair, int which) {
  return FloatFromBFloat16(static_cast<uint16_t>(pair >> (16 * which)));
}

uint16_t At(void* const (&lanes)[kWarpSize], int matrix, int row, int col) {
  uint16_t element;
  const auto* const from =
      static_cast<const char*>(static_cast<LoadArguments*>(lanes[matrix * 8 + row])->row);
  std::memcpy(&element, from + ptrdiff_t{col} * 2, sizeof(element));
  return element;
}

void LoadForAll(void* const (&lanes)[kWarpSize]) {
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const auto& arguments = *static_cast<LoadArguments*>(lanes[lane]);
    const auto [row, col] = ElementOfLoadedMatrix(lane);
    for (int matrix = 0; matrix < 4; ++matrix) {
      const bool t = arguments.transposed;
      const uint32_t low = t ? At(lanes, matrix, col, row) : At(lanes, matrix, row, col);
      const uint32_t high = t ? At(lanes, matrix, col + 1, row) : At(lanes, matrix, row, col + 1);
      arguments.out[matrix] = low | high << 16;
    }
  }
}

void MultiplyForAll(void* const (&lanes)[kWarpSize]) {
  double a[16][16];
  EightDoubles b[16];
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const auto& arguments = *static_cast<MultiplyArguments*>(lanes[lane]);
    for (int i = 0; i < 8; ++i) {
      const auto [row, col] = ElementOfA(lane, i);
      a[row][col] = Half(arguments.a[i / 2], i % 2);
    }
    for (int i = 0; i < 4; ++i) {
      const auto [row, col] = ElementOfB(lane, i);
      b[row].Set(col, Half(arguments.b[i / 2], i % 2));
    }
  }
  EightDoubles sums[16];
  for (int row = 0; row < 16; ++row) sums[row] = SumOfProducts(a[row], b, 16);
  for (int lane = 0; lane < kWarpSize; ++lane) {
    float* const c = static_cast<MultiplyArguments*>(lanes[lane])->c;
    for (int i = 0; i < 4; ++i) {
      const auto [row, col] = ElementOfC(lane, i);
      c[i] = static_cast<float>(c[i] + sums[row][col]);
    }
  }
}

}  // namespace

EightDoubles SumOfProducts(const double* a, const EightDoubles* b, int count) {
  EightDoubles::Pair first{}, second{}, third{}, fourth{};
  for (int k = 0; k < count; ++k) {
    const EightDoubles::Pair twice = {a[k], a[k]};
    first += twice * b[k].pairs[0];
    second += twice * b[k].pairs[1];
    third += twice * b[k].pairs[2];
    fourth += twice * b[k].pairs[3];
  }
  return {{first, second, third, fourth}};
}

void HostLoadMatrices(const void* row, bool transposed, uint32_t (&out)[4]) {
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0) {
    FailKernel("ldmatrix of a row whose address is no multiple of 16");
  }
  LoadArguments arguments{row, transposed, out};
  HostThread::Current().Meet(LoadForAll, &arguments);
}

void HostMultiplyTiles(const uint32_t (&a)[4], uint32_t b0, uint32_t b1, float (&c)[4]) {
  MultiplyArguments arguments{a, {b0, b1}, c};
  HostThread::Current().Meet(MultiplyForAll, &arguments);
}

}  // namespace sluice::cuda
