// The operand of ldtilecfg (Intel's Architecture Instruction Set Extensions, "TILECFG"): eight
// tiles of 16 rows of 64 bytes, as large as they get, unless some are given fewer rows.
#pragma once

#include <cstdint>

namespace sluice {

struct alignas(64) AmxTileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(AmxTileConfig) == 64);

}  // namespace sluice
