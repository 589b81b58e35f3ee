#include "tests/kernels/peak_x86.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernels/cpu/amx_tile_config.h"

namespace sluice::testing {
namespace {

// Independent sums that hide the latency of an instruction: more than the six cycles that two
// VDPBF16PS a cycle take on a Zen 5 call for, where twelve miss 7% of its rate.
constexpr int kChains = 16;

__attribute__((target("avx512f,avx512bf16"))) double Avx512BF16(int64_t rounds, float* result) {
  // 1 + 2^-7 as bfloat16, twice a lane. Grows to infinity, which costs no time.
  const auto x = reinterpret_cast<__m512bh>(_mm512_set1_epi32(0x3F813F81));
  __m512 sums[kChains];
  for (int c = 0; c < kChains; ++c) sums[c] = _mm512_set1_ps(static_cast<float>(c) + *result);
  for (int64_t round = 0; round < rounds; ++round) {
    for (int c = 0; c < kChains; ++c) sums[c] = _mm512_dpbf16_ps(sums[c], x, x);
  }
  for (int c = 1; c < kChains; ++c) sums[0] = _mm512_add_ps(sums[0], sums[c]);
  *result = _mm512_cvtss_f32(sums[0]);
  return 2.0 * 32 * kChains * static_cast<double>(rounds);
}

__attribute__((target("avx512f,avx512vnni"))) double Avx512Int8(int64_t rounds, float* result) {
  const __m512i x = _mm512_set1_epi32(0x01010101);
  __m512i sums[kChains];
  for (int c = 0; c < kChains; ++c) sums[c] = _mm512_set1_epi32(c + static_cast<int>(*result));
  for (int64_t round = 0; round < rounds; ++round) {
    for (int c = 0; c < kChains; ++c) sums[c] = _mm512_dpbusd_epi32(sums[c], x, x);
  }
  for (int c = 1; c < kChains; ++c) sums[0] = _mm512_add_epi32(sums[0], sums[c]);
  alignas(64) int32_t lanes[16];
  _mm512_store_si512(lanes, sums[0]);
  *result = static_cast<float>(lanes[0] & 1);
  return 2.0 * 64 * kChains * static_cast<double>(rounds);
}

// Two tiles of each operand and four of sums, as a kernel would hold them: tiles 0 to 3 are sums.
// A macro because the tiles are part of the instruction.
#define SLUICE_AMX_LOOP(multiply)                      \
  const AmxTileConfig config;                          \
  alignas(64) static const uint8_t operand[1024] = {}; \
  _tile_loadconfig(&config);                           \
  _tile_zero(0);                                       \
  _tile_zero(1);                                       \
  _tile_zero(2);                                       \
  _tile_zero(3);                                       \
  _tile_loadd(4, operand, 64);                         \
  _tile_loadd(5, operand, 64);                         \
  _tile_loadd(6, operand, 64);                         \
  _tile_loadd(7, operand, 64);                         \
  for (int64_t round = 0; round < rounds; ++round) {   \
    multiply(0, 4, 6);                                 \
    multiply(1, 4, 7);                                 \
    multiply(2, 5, 6);                                 \
    multiply(3, 5, 7);                                 \
  }                                                    \
  alignas(64) float sums[256];                         \
  _tile_stored(3, sums, 64);                           \
  _tile_release();                                     \
  *result = sums[0]

__attribute__((target("amx-tile,amx-bf16"))) double AmxBF16(int64_t rounds, float* result) {
  SLUICE_AMX_LOOP(_tile_dpbf16ps);
  return 2.0 * 16 * 16 * 32 * 4 * static_cast<double>(rounds);
}

__attribute__((target("amx-tile,amx-int8"))) double AmxInt8(int64_t rounds, float* result) {
  SLUICE_AMX_LOOP(_tile_dpbusd);
  return 2.0 * 16 * 16 * 64 * 4 * static_cast<double>(rounds);
}

#undef SLUICE_AMX_LOOP

// What leaf 7 of CPUID says of AMX.
constexpr unsigned kAmxBF16 = 1U << 22, kAmxTile = 1U << 24, kAmxInt8 = 1U << 25;

// Linux lends the tiles' registers to a process that asks for them, once for all its threads.
bool SystemLendsTiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  static const bool lent = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return lent;
}

bool HasAmx(unsigned feature) {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  const unsigned wanted = feature | kAmxTile;
  return (edx & wanted) == wanted && SystemLendsTiles();
}

}  // namespace

PeakLoop X86BF16Loop() {
  if (HasAmx(kAmxBF16)) return {"TDPBF16PS", AmxBF16};
  if (__builtin_cpu_supports("avx512bf16")) return {"VDPBF16PS", Avx512BF16};
  return {};
}

PeakLoop X86Int8Loop() {
  if (HasAmx(kAmxInt8)) return {"TDPBUSD", AmxInt8};
  if (__builtin_cpu_supports("avx512vnni")) return {"VPDPBUSD", Avx512Int8};
  return {};
}

}  // namespace sluice::testing

#else

namespace sluice::testing {

PeakLoop X86BF16Loop() { return {}; }
PeakLoop X86Int8Loop() { return {}; }

}  // namespace sluice::testing

#endif
