// What the products of bfloat16 pairs share: vdpbf16ps adds x[k] w[k] + x[k + 1] w[k + 1] to a sum.
//
// Weights are a stream of vectors. A vector holds, for 16 neighbouring outputs, the inputs k and
// k + 1 (a "pair") side by side; vector i of a panel of V vectors belongs to pair i / V and to the
// outputs from 16 (i % V) on.
//
// Everything here belongs to the file that includes it, which is compiled for these instructions
// alone: nothing of it may run on a machine without them, so nothing inline that other files share
// is used.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/gemm_kernel.h"

namespace sluice {
namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kVectorBytes = 64;
constexpr int64_t kGroupPairs = kWeightGroup / 2;

constexpr int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }

template <class T>
T* At(std::byte* bytes) {
  return reinterpret_cast<T*>(bytes);
}

inline __m512bh Pairs(__m512i vector) { return reinterpret_cast<__m512bh>(vector); }
inline __m512bh BroadcastPair(uint32_t pair) {
  return Pairs(_mm512_set1_epi32(static_cast<int>(pair)));
}

// ---- Activations ----

// Some rows of a tile, at the first pair of a run.
struct TileRows {
  const uint32_t* pairs;  // of pair p and row r at pairs[p * step + r]
  const float* sums;      // of group g and row r at sums[g * step + r]
  int64_t step;           // rows of the whole tile
};

// Tile `index` of a run.
inline TileRows TileOf(const SliceRun& run, int64_t index, int64_t first_pair) {
  const int64_t first_row = index * run.tile_rows;
  const int64_t rows = Least(run.tile_rows, run.rows - first_row);
  const int64_t pair = run.first_input / 2 + first_pair;
  return {static_cast<const uint32_t*>(run.x) + first_row * (run.x_stride / 2) + pair * rows,
          run.x_sums + first_row * run.sums_stride + pair / kGroupPairs * rows, rows};
}

}  // namespace
}  // namespace sluice
