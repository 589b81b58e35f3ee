// The tile unit of AMX in plain loops, as the manual words it, adding up in the order that was
// found on hardware (docs/decisions/030): kernels on tiles are tested on machines without one. A
// unit by type (Tiles of gemm_amx-inl.h): one thread at a time.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/check.h"
#include "kernels/dtype.h"

namespace sluice {

// What a unit may do wrong.
enum class TileFault {
  kNone,
  kSumsAreKept,      // a tile is zeroed once only
  kLastRowIsLost,    // of a load
  kPairsAreCrossed,  // the two elements of a pair change places on one side
  kSumsAreShared,    // tile 2 is tile 0
  kLastPairIsLost,   // of a product
  kSumsAreInOrder,   // one chain of all inputs, not two
};

struct PlainTiles {
  static inline TileFault fault = TileFault::kNone;
  static inline bool begun = false;
  static inline int64_t most_few_rows = 0;  // that go by vectors
  static inline int rows_of_tiles = 16;     // of those below 6
  static inline std::byte tiles[8][16][64];

  static int64_t MostFewRows() { return most_few_rows; }

  static void Begin(int64_t rows) {
    SLUICE_CHECK(rows >= 1 && rows <= 16);
    begun = true;
    rows_of_tiles = static_cast<int>(rows);
    std::memset(tiles, 0xff, sizeof(tiles));  // NaN: what is not set is noticed
  }
  static void End() { begun = false; }

  template <int kTile>
  static void Zero() {
    if (fault == TileFault::kSumsAreKept && !WasNeverSet(kTile)) return;
    std::memset(tiles[Place(kTile)], 0, sizeof(tiles[kTile]));
  }
  template <int kTile>
  static void Load(const void* from, int64_t bytes) {
    SLUICE_CHECK(begun);
    const int place = Place(kTile);
    const int rows = RowsOf(kTile) - (fault == TileFault::kLastRowIsLost ? 1 : 0);
    for (int row = 0; row < rows; ++row) {
      std::memcpy(tiles[place][row], static_cast<const std::byte*>(from) + row * bytes, 64);
    }
    if (rows < RowsOf(kTile)) std::memset(tiles[place][rows], 0, 64);
  }
  template <int kTile>
  static void LoadOnce(const void* from, int64_t bytes) {
    Load<kTile>(from, bytes);
  }
  template <int kTile>
  static void Store(void* to, int64_t bytes) {
    for (int row = 0; row < RowsOf(kTile); ++row) {
      std::memcpy(static_cast<std::byte*>(to) + row * bytes, tiles[Place(kTile)][row], 64);
    }
  }
  template <int kSums, int kLeft, int kRight>
  static void Dot() {
    const int crossed = fault == TileFault::kPairsAreCrossed ? 1 : 0;
    const int pairs = fault == TileFault::kLastPairIsLost ? 15 : 16;
    for (int m = 0; m < RowsOf(kSums); ++m) {
      auto* sums = reinterpret_cast<float*>(tiles[Place(kSums)][m]);
      const auto* left = reinterpret_cast<const uint16_t*>(tiles[kLeft][m]);
      for (int n = 0; n < 16; ++n) {
        float chains[2] = {};  // of even and of odd inputs
        for (int p = 0; p < pairs; ++p) {
          const auto* right = reinterpret_cast<const uint16_t*>(tiles[kRight][p]);
          for (int i = 0; i < 2; ++i) {
            const float a = Flushed(FloatFromBFloat16(left[2 * p + (i ^ crossed)]));
            const float b = Flushed(FloatFromBFloat16(right[2 * n + i]));
            float& chain = chains[fault == TileFault::kSumsAreInOrder ? 0 : i];
            chain = Flushed(std::fma(a, b, chain));
          }
        }
        sums[n] = Flushed(Flushed(sums[n]) + Flushed(chains[0] + chains[1]));
      }
    }
  }

 private:
  // Subnormal numbers are read and written as zero.
  static float Flushed(float value) {
    const bool is_subnormal = std::fabs(value) < std::numeric_limits<float>::min();
    return is_subnormal ? std::copysign(0.0f, value) : value;
  }
  static int RowsOf(int tile) { return tile < 6 ? rows_of_tiles : 16; }
  static int Place(int tile) { return fault == TileFault::kSumsAreShared && tile == 2 ? 0 : tile; }
  static bool WasNeverSet(int tile) { return tiles[tile][0][3] == std::byte{0xff}; }
};

}  // namespace sluice
