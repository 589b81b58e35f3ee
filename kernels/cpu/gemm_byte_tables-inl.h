// Tables by which a byte becomes a bfloat16 number: the low and the high bytes of the numbers that
// its seven lower bits stand for. Belongs to the file that includes it, as gemm_avx512-inl.h does.
#pragma once

#include <cstdint>

namespace sluice {
namespace {

struct ByteTables {
  alignas(64) uint8_t low[128];
  alignas(64) uint8_t high[128];
};

// Entry `index` becomes m * 2^power, m in [0, 127].
constexpr void PutNumber(int m, int power, int index, ByteTables& tables) {
  if (m == 0) return;
  int exponent = 0;
  while (m >> (exponent + 1) != 0) ++exponent;
  const int bits = (127 + exponent + power) << 7 | (m << (7 - exponent) & 127);
  tables.low[index] = static_cast<uint8_t>(bits & 255);
  tables.high[index] = static_cast<uint8_t>(bits >> 8);
}

// Of INT8: the numbers 0 to 127.
constexpr ByteTables MakeInt8Tables() {
  ByteTables tables{};
  for (int m = 0; m < 128; ++m) PutNumber(m, 0, m, tables);
  return tables;
}

// Of the codes of FP8 (kernels/fp8.h); 480 for that of no number.
constexpr ByteTables MakeFp8Tables() {
  ByteTables tables{};
  for (int code = 0; code < 128; ++code) {
    const int exponent = code >> 3, mantissa = code & 7;
    if (exponent == 0) {
      PutNumber(mantissa, -9, code, tables);
    } else {
      PutNumber(8 + mantissa, exponent - 10, code, tables);
    }
  }
  return tables;
}

constexpr ByteTables kInt8Tables = MakeInt8Tables();
constexpr ByteTables kFp8Tables = MakeFp8Tables();

}  // namespace
}  // namespace sluice
