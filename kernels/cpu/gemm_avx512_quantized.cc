// Products of INT8, INT4 and FP8 weights, turned into the stream of bfloat16 pairs:
//
//   INT8  per group of 32 inputs: a scale per output (BF16), then chunks of 64 bytes that unpack
//         into two vectors of the stream. A byte is the sign and seven bits of magnitude, which
//         index tables of the low and high bytes of bfloat16 numbers. In each 16 bytes of a chunk
//         the first 8 belong to the first vector, the others to the second
//   FP8   the same, with codes in place of sign and magnitude
//   INT4  the same, a chunk unpacking into four vectors. Half-byte j of each 16 bits of a chunk
//         belongs to vector j and is q + 8; below the exponent of 128 it makes the bfloat16
//         128 + 8 + q, so sums start at -136 times the sum of the activations
//
// The sums of a group are kept apart until the group's scale is known: sum += scale * group.
#include "kernels/cpu/gemm_avx512-inl.h"
#include "kernels/cpu/gemm_byte_tables-inl.h"
#include "kernels/cpu/gemm_quantized_stream.h"

namespace sluice {
namespace {

// Rows whose sums fit the registers beside what weights are unpacked with: sixteen chains of
// multiply-adds, which keep the multipliers busy. More chains, which rows that need not unpack have
// room for, are slower: all their sums end at once with a group.
constexpr int kTileRows = 8;
// How far ahead one tile asks for weights. The processor itself foresees that they are read one after
// the other, but too late: few bytes hold many weights, and are done with soon.
constexpr int64_t kAheadBytes = 8192;

__m512 LoadScales(const std::byte* from) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

// Unpacks INT8 chunks.
struct Int8 {
  static constexpr int kVectorsOfChunk = 2;
  static constexpr bool kNeedsSums = false;

  explicit Int8(const ByteTables& bytes = kInt8Tables)
      : low0(_mm512_load_si512(bytes.low)),
        low1(_mm512_load_si512(bytes.low + 64)),
        high0(_mm512_load_si512(bytes.high)),
        high1(_mm512_load_si512(bytes.high + 64)) {}

  void Unpack(const std::byte* chunk, __m512i* vectors) const {
    constexpr int kHighOrSign = 0xEA;  // (a & b) | c
    const __m512i bytes = _mm512_loadu_si512(chunk);
    const __m512i low = _mm512_permutex2var_epi8(low0, bytes, low1);
    const __m512i high = _mm512_ternarylogic_epi64(
        bytes, sign, _mm512_permutex2var_epi8(high0, bytes, high1), kHighOrSign);
    vectors[0] = _mm512_unpacklo_epi8(low, high);
    vectors[1] = _mm512_unpackhi_epi8(low, high);
  }

  // Weight q as word `word` (2 * output + input, of 16 outputs and 2 inputs) of vector `vector`.
  static void Put(int q, int64_t vector, int64_t word, std::byte* chunk) {
    chunk[word / 8 * 16 + vector * 8 + word % 8] = static_cast<std::byte>(q < 0 ? 0x80 | -q : q);
  }
  static int Get(const std::byte* group, int64_t k) {
    return static_cast<signed char>(group[2 + k]);
  }

  const __m512i low0, low1, high0, high1;
  const __m512i sign = _mm512_set1_epi8(static_cast<char>(0x80));
};

// Unpacks FP8 chunks.
struct Fp8 : Int8 {
  Fp8() : Int8(kFp8Tables) {}

  static void Put(int code, int64_t vector, int64_t word, std::byte* chunk) {
    chunk[word / 8 * 16 + vector * 8 + word % 8] = static_cast<std::byte>(code);
  }
  static int Get(const std::byte* group, int64_t k) { return static_cast<int>(group[2 + k]); }
};

// Unpacks INT4 chunks.
struct Int4 {
  static constexpr int kVectorsOfChunk = 4;
  static constexpr bool kNeedsSums = true;

  void Unpack(const std::byte* chunk, __m512i* vectors) const {
    constexpr int kMaskedOr = 0xEA;  // (a & b) | c
    const __m512i bits = _mm512_loadu_si512(chunk);
    vectors[0] = _mm512_ternarylogic_epi64(bits, mask, exponent, kMaskedOr);
    vectors[1] = _mm512_ternarylogic_epi64(_mm512_srli_epi16(bits, 4), mask, exponent, kMaskedOr);
    vectors[2] = _mm512_ternarylogic_epi64(_mm512_srli_epi16(bits, 8), mask, exponent, kMaskedOr);
    vectors[3] = _mm512_ternarylogic_epi64(_mm512_srli_epi16(bits, 12), mask, exponent, kMaskedOr);
  }

  static void Put(int q, int64_t vector, int64_t word, std::byte* chunk) {
    chunk[word * 2 + vector / 2] |= static_cast<std::byte>((q + 8) << (vector % 2 * 4));
  }
  static int Get(const std::byte* group, int64_t k) {
    return (static_cast<int>(group[2 + k / 2]) >> (k % 2 * 4) & 15) - 8;
  }

  const __m512i mask = _mm512_set1_epi16(0x000f);
  const __m512i exponent = _mm512_set1_epi16(0x4300);
};

// Bytes of a group of a panel.
template <class Code, int kVectors>
constexpr int64_t kGroupBytes = kVectors*(kLanes * 2 + kGroupPairs * 64 / Code::kVectorsOfChunk);

struct GroupedRun {
  TileRows x;
  const std::byte* w;  // groups of the panel
  std::byte* stream;   // their weights unpacked
  int64_t groups;
  float* sums;                       // [rows, kPanelWidth]
  const std::byte* ahead = nullptr;  // what to fetch meanwhile,
  int64_t ahead_lines = 0;           // so many cache lines with every group
};

// Where the weights of a group come from.
enum class Source {
  kPacked,    // unpacked in registers
  kUnpacked,  // the stream
  kBoth,      // unpacked in registers, and left in the stream for the tiles that follow
};

// The sums of one group of weights, without their scale. Sums of all groups wait in memory.
template <class Code, int kRows, int kVectors>
struct GroupSums {
  __m512 group[kRows][kVectors];

  explicit GroupSums(const float* starts) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        group[r][v] = Code::kNeedsSums ? _mm512_set1_ps(starts[r]) : _mm512_setzero_ps();
      }
    }
  }

  // Adds a vector of each part of the panel, all of one pair.
  void Add(const uint32_t* x, const __m512i* weights) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m512bh activation = BroadcastPair(x[r]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        group[r][v] = _mm512_dpbf16_ps(group[r][v], activation, Pairs(weights[v]));
      }
    }
  }

  // Reads and writes one sum after the other. Where the compiler lets reads overtake writes, the
  // processor takes sums of the group before for ready that are not, and begins anew: a third of
  // the time of eight rows of INT4.
  void AddScaled(const std::byte* scales, float* sums) const {
    __m512 scale[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) scale[v] = LoadScales(scales + v * kLanes * 2);
#pragma GCC unroll 16
    for (int i = 0; i < kRows * kVectors; ++i) {
      const int r = i / kVectors, v = i % kVectors;
      float* const sum = sums + r * kPanelWidth + v * kLanes;
      _mm512_storeu_ps(sum, _mm512_fmadd_ps(scale[v], group[r][v], _mm512_loadu_ps(sum)));
      asm volatile("" : : : "memory");  // keeps the order
    }
  }
};

template <class Code, Source kSource, int kRows, int kVectors>
void AddGroups(const GroupedRun& run) {
  constexpr int64_t kOfChunk = kSource == Source::kUnpacked ? kVectors : Code::kVectorsOfChunk;
  constexpr int64_t kChunks = kGroupPairs * kVectors / kOfChunk;
  const Code code;
  const uint32_t* x = run.x.pairs;
  const std::byte* w = run.w;
  std::byte* stream = run.stream;
  const std::byte* ahead = run.ahead;
  for (int64_t g = 0; g < run.groups; ++g) {
    for (int64_t i = 0; i < run.ahead_lines; ++i, ahead += 64) _mm_prefetch(ahead, _MM_HINT_T0);
    GroupSums<Code, kRows, kVectors> sums(run.x.sums + g * run.x.step);
    const std::byte* chunk = w + kVectors * kLanes * 2;
#pragma GCC unroll 4
    for (int64_t i = 0; i < kChunks; ++i, chunk += 64) {
      __m512i vectors[kOfChunk];
      if constexpr (kSource == Source::kUnpacked) {
#pragma GCC unroll 2
        for (int64_t v = 0; v < kVectors; ++v) vectors[v] = _mm512_load_si512(stream + v * 64);
      } else {
        code.Unpack(chunk, vectors);
      }
      if constexpr (kSource == Source::kBoth) {
#pragma GCC unroll 4
        for (int64_t v = 0; v < kOfChunk; ++v) _mm512_store_si512(stream + v * 64, vectors[v]);
      }
      stream += kOfChunk * 64;
#pragma GCC unroll 4
      for (int64_t v = 0; v < kOfChunk; v += kVectors, x += run.x.step) sums.Add(x, vectors + v);
    }
    sums.AddScaled(w, run.sums);
    w += kGroupBytes<Code, kVectors>;
  }
}

// AddGroups of 1 to kMost rows.
template <class Code, Source kSource, int kVectors, int kMost = kTileRows>
void AddRows(const GroupedRun& run) {
  if (run.x.step == kMost) return AddGroups<Code, kSource, kMost, kVectors>(run);
  if constexpr (kMost > 1) AddRows<Code, kSource, kVectors, kMost - 1>(run);
}

// The stream of `groups` groups.
template <class Code, int kVectors>
void UnpackGroups(const std::byte* w, int64_t groups, std::byte* stream) {
  constexpr int64_t kChunks = kGroupPairs * kVectors / Code::kVectorsOfChunk;
  const Code code;
  for (int64_t g = 0; g < groups; ++g) {
    w += kVectors * kLanes * 2;
    for (int64_t chunk = 0; chunk < kChunks; ++chunk, w += 64) {
      __m512i vectors[Code::kVectorsOfChunk];
      code.Unpack(w, vectors);
      for (const __m512i& vector : vectors) {
        _mm512_store_si512(stream, vector);
        stream += 64;
      }
    }
  }
}

template <class Code, int kVectors>
void MultiplyGroupedPanel(const SliceRun& run) {
  constexpr int64_t kBytes = kGroupBytes<Code, kVectors>;
  // Groups whose stream stays in the first-level cache while the tiles use it.
  constexpr int64_t kStep = kUnpackedBytes / (kGroupPairs * kVectors * 64);
  const int64_t groups = run.depth / kWeightGroup;
  for (float* sum = run.sums; sum != run.sums + run.rows * kPanelWidth; sum += kLanes) {
    _mm512_storeu_ps(sum, _mm512_setzero_ps());
  }
  const int64_t num_tiles = (run.rows + run.tile_rows - 1) / run.tile_rows;
  // Memory brings the next groups while these are multiplied: each tile asks for as many.
  const int64_t lines = (kBytes + num_tiles * 64 - 1) / (num_tiles * 64);
  if (num_tiles == 1) {  // no other rows need what these unpack
    return AddRows<Code, Source::kPacked, kVectors>({.x = TileOf(run, 0, 0),
                                                     .w = run.w,
                                                     .stream = nullptr,
                                                     .groups = groups,
                                                     .sums = run.sums,
                                                     .ahead = run.w + kAheadBytes,
                                                     .ahead_lines = lines});
  }
  for (int64_t first = 0; first < groups; first += kStep) {
    const int64_t count = Least(kStep, groups - first);
    for (int64_t tile = 0; tile < num_tiles; ++tile) {
      const GroupedRun part{.x = TileOf(run, tile, first * kGroupPairs),
                            .w = run.w + first * kBytes,
                            .stream = run.unpacked,
                            .groups = count,
                            .sums = run.sums + tile * run.tile_rows * kPanelWidth,
                            .ahead = run.w + (first + kStep) * kBytes + tile * lines * count * 64,
                            .ahead_lines = lines};
      if (tile == 0) {
        AddRows<Code, Source::kBoth, kVectors>(part);
      } else {
        AddRows<Code, Source::kUnpacked, kVectors>(part);
      }
    }
  }
}

template <class Code>
void MultiplyGrouped(const SliceRun& run) {
  return run.width == kPanelWidth ? MultiplyGroupedPanel<Code, 2>(run)
                                  : MultiplyGroupedPanel<Code, 1>(run);
}

template <class Code>
void PackGrouped(const PackRun& run) {
  const int64_t vectors = run.width / kLanes;
  const int64_t data_bytes = vectors * kGroupPairs * 64 / Code::kVectorsOfChunk;
  const int64_t code_bytes = 2 + kWeightGroup * 2 / Code::kVectorsOfChunk;
  std::byte* out = run.out;
  for (int64_t g = 0; g < run.depth / kWeightGroup; ++g) {
    auto* scales = At<uint16_t>(out);
    out += run.width * 2;
    for (int64_t n = 0; n < run.outputs; ++n) {
      const std::byte* group = run.rows + n * run.row_bytes + g * code_bytes;
      scales[n] = *reinterpret_cast<const uint16_t*>(group);
      for (int64_t k = 0; k < kWeightGroup; ++k) {
        const int64_t i = k / 2 * vectors + n / kLanes;
        Code::Put(Code::Get(group, k), i % Code::kVectorsOfChunk, n % kLanes * 2 + k % 2,
                  out + i / Code::kVectorsOfChunk * 64);
      }
    }
    out += data_bytes;
  }
}

// The same without the excess.
struct Int4Numbers : Int4 {
  void Unpack(const std::byte* chunk, __m512i* vectors) const {
    const __m512i bits = _mm512_loadu_si512(chunk);
    vectors[0] = _mm512_permutexvar_epi16(bits, numbers);
    vectors[1] = _mm512_permutexvar_epi16(_mm512_srli_epi16(bits, 4), numbers);
    vectors[2] = _mm512_permutexvar_epi16(_mm512_srli_epi16(bits, 8), numbers);
    vectors[3] = _mm512_permutexvar_epi16(_mm512_srli_epi16(bits, 12), numbers);
  }

  // -8 to 7 as bfloat16, twice: five bits of an index count.
  const __m512i numbers = _mm512_broadcast_i64x4(_mm256_setr_epi16(
      Bits(0xC100), Bits(0xC0E0), Bits(0xC0C0), Bits(0xC0A0), Bits(0xC080), Bits(0xC040),
      Bits(0xC000), Bits(0xBF80), 0, 0x3F80, 0x4000, 0x4040, 0x4080, 0x40A0, 0x40C0, 0x40E0));

 private:
  static constexpr int16_t Bits(int bits) { return static_cast<int16_t>(bits); }
};

template <class Code>
void UnpackPanel(const std::byte* w, int64_t width, int64_t groups, std::byte* stream) {
  return width == kPanelWidth ? UnpackGroups<Code, 2>(w, groups, stream)
                              : UnpackGroups<Code, 1>(w, groups, stream);
}

template <int kVectors, int kMost = kGroupsAdded>
void AddScaled(const GroupRun& groups, int64_t rows, float* sums) {
  if constexpr (kMost > 1) {
    if (groups.count < kMost) return AddScaled<kVectors, kMost - 1>(groups, rows, sums);
  }
  __m512 scales[kMost][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kMost * kVectors; ++i) {
    const std::byte* const of_group = groups.scales + i / kVectors * groups.scales_step;
    scales[i / kVectors][i % kVectors] = LoadScales(of_group + i % kVectors * kLanes * 2);
  }
  const float* group = groups.sums;
  for (int64_t r = 0; r < rows; ++r, sums += kPanelWidth, group += kPanelWidth) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      __m512 sum = _mm512_loadu_ps(sums + v * kLanes);
#pragma GCC unroll 4
      for (int g = 0; g < kMost; ++g) {
        const float* const of_group = group + g * groups.sums_step + v * kLanes;
        sum = _mm512_fmadd_ps(scales[g][v], _mm512_loadu_ps(of_group), sum);
      }
      _mm512_storeu_ps(sums + v * kLanes, sum);
    }
  }
}

constexpr GemmKernel kInt8{.activations = ActivationLayout::kBFloat16Tiles,
                           .needs_sums = false,
                           .depth_step = kWeightGroup,
                           .tile_rows = kTileRows,
                           .pack = PackGrouped<Int8>,
                           .multiply = MultiplyGrouped<Int8>};
constexpr GemmKernel kInt4{.activations = ActivationLayout::kBFloat16Tiles,
                           .needs_sums = true,
                           .depth_step = kWeightGroup,
                           .tile_rows = kTileRows,
                           .pack = PackGrouped<Int4>,
                           .multiply = MultiplyGrouped<Int4>};
constexpr GemmKernel kFp8{.activations = ActivationLayout::kBFloat16Tiles,
                          .needs_sums = false,
                          .depth_step = kWeightGroup,
                          .tile_rows = kTileRows,
                          .pack = PackGrouped<Fp8>,
                          .multiply = MultiplyGrouped<Fp8>};

}  // namespace

const GemmKernel& Avx512QuantizedGemmKernel(WeightFormat format) {
  return format == WeightFormat::kInt8 ? kInt8 : format == WeightFormat::kInt4 ? kInt4 : kFp8;
}

int64_t QuantizedGroupBytes(WeightFormat format, int64_t width) {
  const int64_t of_vector =
      format == WeightFormat::kInt4 ? kGroupBytes<Int4, 1> : kGroupBytes<Int8, 1>;
  return width / kLanes * of_vector;
}

void UnpackQuantized(WeightFormat format, const std::byte* w, int64_t width, int64_t groups,
                     std::byte* stream) {
  if (format == WeightFormat::kInt4) return UnpackPanel<Int4Numbers>(w, width, groups, stream);
  if (format == WeightFormat::kFp8) return UnpackPanel<Fp8>(w, width, groups, stream);
  return UnpackPanel<Int8>(w, width, groups, stream);
}

void AddScaledGroups(const GroupRun& groups, int64_t rows, int64_t width, float* sums) {
  return width == kPanelWidth ? AddScaled<2>(groups, rows, sums) : AddScaled<1>(groups, rows, sums);
}

}  // namespace sluice
