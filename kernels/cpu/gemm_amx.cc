#include "kernels/cpu/gemm_amx-inl.h"

namespace sluice {
namespace {

// The operand of ldtilecfg: eight tiles of 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);

// In assembler, because GCC 12's intrinsics want tile numbers as literals, not as constants.
struct AmxTiles {
  static void Begin() {
    const TileConfig config;
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
  static void Store(void* to, int64_t bytes) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(bytes), "i"(kTile) : "memory");
  }
  template <int kSums, int kLeft, int kRight>
  static void Dot() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kLeft), "i"(kRight));
  }
};

}  // namespace

void MultiplyWithAmx(const SliceRun& run) { AmxGemm<AmxTiles>::Multiply(run); }

}  // namespace sluice
