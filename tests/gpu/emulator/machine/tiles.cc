// ldmatrix and mma.
#include <array>
#include <cstdint>
#include <string>

#include "tests/gpu/emulator/machine/numbers.h"
#include "tests/gpu/emulator/machine/program.h"
#include "tests/gpu/emulator/machine/tensor_sum.h"
#include "tests/gpu/emulator/machine/thread.h"

namespace sluice::cuda::emulator {
namespace {

constexpr int kMatrixRows = 8;

// Of 16 rows of 8 sums, the first of two that a lane has next to each other: half 0 the upper 8 rows,
// half 1 the lower.
struct Place {
  int row = 0;
  int column = 0;
};
Place SumPlace(int lane, int half) { return {lane / 4 + 8 * half, 2 * (lane % 4)}; }

// ldmatrix.x4 {a, b, c, d}, [row]: lane i says where row i % 8 of matrix i / 8 is, eight numbers of 16
// bits, and each lane gets two of each matrix.
template <bool kTransposed>
void LoadMatrices(Warp& warp, const Step& step) {
  uint16_t matrices[4][kMatrixRows][8];
  for (int i = 0; i < kWarpThreads; ++i) {
    Thread& lane = *warp.lanes[i];
    NoteTraffic(lane, step, Space::kShared, lane.SharedAddress(step, 4), 16);
    const std::string wrong =
        warp.block->shared->Read(lane.SharedAddress(step, 4), 16, 16, lane.accessor(),
                                 matrices[i / kMatrixRows][i % kMatrixRows]);
    if (!wrong.empty()) return lane.Fault(wrong);
  }
  for (int i = 0; i < kWarpThreads; ++i) {
    const int row = i / 4, column = 2 * (i % 4);
    for (int m = 0; m < 4; ++m) {
      const uint32_t low = kTransposed ? matrices[m][column][row] : matrices[m][row][column];
      const uint32_t high =
          kTransposed ? matrices[m][column + 1][row] : matrices[m][row][column + 1];
      warp.lanes[i]->Set<uint32_t>(step.r[m], high << 16 | low);
    }
  }
}

// mma.m16n8k16 {d0..d3}, {a0..a3}, {b0, b1}, {c0..c3}.
void MultiplyTile(Warp& warp, const Step& step) {
  float a[16][16], b[8][16];
  for (int i = 0; i < kWarpThreads; ++i) {
    const Thread& lane = *warp.lanes[i];
    for (int part = 0; part < 4; ++part) {
      const auto pair = lane.Get<uint32_t>(step.r[4 + part]);
      const int row = i / 4 + 8 * (part % 2), column = 2 * (i % 4) + 8 * (part / 2);
      a[row][column] = FromBFloat16(pair);
      a[row][column + 1] = FromBFloat16(pair >> 16);
    }
    for (int part = 0; part < 2; ++part) {
      const auto pair = lane.Get<uint32_t>(step.r[8 + part]);
      b[i / 4][2 * (i % 4) + 8 * part] = FromBFloat16(pair);
      b[i / 4][2 * (i % 4) + 8 * part + 1] = FromBFloat16(pair >> 16);
    }
  }
  for (int i = 0; i < kWarpThreads; ++i) {
    for (int j = 0; j < 4; ++j) {
      const Place place = SumPlace(i, j / 2);
      const int column = place.column + j % 2;
      const auto sum = warp.lanes[i]->Get<float>(step.r[10 + j]);
      warp.lanes[i]->Set<float>(step.r[j],
                                TensorSum(a[place.row], b[column], 16, sum, kBFloat16Precision));
    }
  }
}

}  // namespace

bool PrepareTiles(const Instruction& instruction, Step& step) {
  const std::string& name = instruction.parts[0];
  step.execute = MeetWarp;
  if (name == "ldmatrix" && instruction.Has("x4") && instruction.Has("b16")) {
    step.together = instruction.Has("trans") ? LoadMatrices<true> : LoadMatrices<false>;
    return true;
  }
  if (name == "mma" && instruction.Has("m16n8k16") && instruction.Has("bf16")) {
    step.together = MultiplyTile;
    return true;
  }
  return false;
}

}  // namespace sluice::cuda::emulator
