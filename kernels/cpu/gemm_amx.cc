#include <algorithm>

#include "kernels/cpu/amx_tile_config.h"
#include "kernels/cpu/gemm_amx-inl.h"
#include "kernels/cpu/gemm_amx_quantized-inl.h"

namespace sluice {
namespace {

// In assembler, because GCC 12's intrinsics want tile numbers as literals, not as constants.
struct AmxTiles {
  static int64_t MostFewRows();

  static void Begin(int64_t rows) {
    AmxTileConfig config;
    std::fill_n(config.rows, kTilesOfRows, static_cast<uint8_t>(rows));
    asm volatile("ldtilecfg %0" : : "m"(config));
  }
  static void End() { asm volatile("tilerelease"); }

  template <int kTile>
  static void Zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  template <int kTile>
  static void Load(const void* from, int64_t bytes) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(bytes), "i"(kTile) : "memory");
  }
  template <int kTile>
  static void LoadOnce(const void* from, int64_t bytes) {
    asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2"
                 :
                 : "r"(from), "r"(bytes), "i"(kTile)
                 : "memory");
  }
  template <int kTile>
  static void Store(void* to, int64_t bytes) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(bytes), "i"(kTile) : "memory");
  }
  template <int kSums, int kLeft, int kRight>
  static void Dot() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kLeft), "i"(kRight));
  }
};

int64_t AmxTiles::MostFewRows() { return VectorsHaveBitsOfTiles() ? kMostFewRows : 0; }

}  // namespace

// It was found out on one processor, and is looked at on each.
bool VectorsHaveBitsOfTiles() {
  static const bool have = FewRowsHaveBitsOf<AmxTiles>();
  return have;
}

MultiplySlice* AmxMultiply(WeightFormat format) { return MultiplyOnTiles<AmxTiles>(format); }

}  // namespace sluice
