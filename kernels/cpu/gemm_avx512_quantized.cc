// Products of quantised weights (gemm_quantized_codes-inl.h), turned into the stream of bfloat16
// pairs.
//
// The sums of a group are kept apart until the group's scale is known: sum += scale * group.
#include <type_traits>

#include "kernels/cpu/gemm_avx512-inl.h"
#include "kernels/cpu/gemm_quantized_codes-inl.h"
#include "kernels/cpu/gemm_quantized_stream.h"
#include "kernels/cpu/pair_products-inl.h"

namespace sluice {
namespace {

// Rows whose sums fit the registers beside what weights are unpacked with: sixteen chains of
// multiply-adds, which keep the multipliers busy. More chains, which rows that need not unpack have
// room for, are slower: all their sums end at once with a group.
constexpr int kTileRows = 8;
constexpr int64_t kGroupSums = kTileRows * kPanelWidth;

struct GroupedRun {
  TileRows x;
  const std::byte* w;       // groups of the panel,
  const std::byte* scales;  // their scales,
  std::byte* stream;        // and their weights unpacked
  int64_t groups;
  // [rows, kPanelWidth]; or, in pieces, those of each group, [groups, kTileRows, kPanelWidth].
  float* sums;
  // What to fetch meanwhile: where the weights are packed and no other tile fetches any, what lies
  // beyond the slice where its own scales are; else so many cache lines with every group.
  const std::byte* ahead = nullptr;
  int64_t ahead_lines = 0;
};

// Where the weights of a group come from.
enum class Source {
  kPacked,    // unpacked in registers
  kUnpacked,  // the stream
  kBoth,      // unpacked in registers, and left in the stream for the tiles that follow
};

template <class Code>
constexpr bool kIsPublished = IsPublished(Code::kFormat);
template <class Code>
constexpr bool kHasTwoLevels = HasTwoLevelScales(Code::kFormat);
// Whether sums start at a multiple of the sum of the activations that its group says.
template <class Code>
constexpr bool kHasExcessOf = kIsPublished<Code>&& Code::kExcess != 0;

// Runs of a group that have scales of their own.
template <class Code>
constexpr int64_t RunsOfGroup() {
  if constexpr (kHasTwoLevels<Code>) return Code::Scales::Layout::kRunsOfPart;
  return 1;
}

// The sums of one group of weights, without their scale. Sums of all groups wait in memory.
template <class Code, class Products, int kRows, int kVectors>
struct GroupSums {
  using Scales = typename Code::Scales;
  __m512 group[kRows][kVectors];

  GroupSums(const float* starts, const std::byte* scales) {
    __m512 excess[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      if constexpr (kHasExcessOf<Code>) excess[v] = Code::ExcessOf(scales + v * Scales::kBytes);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        group[r][v] = Code::kExcess != 0 ? _mm512_set1_ps(starts[r]) : _mm512_setzero_ps();
        if constexpr (kHasExcessOf<Code>) group[r][v] = _mm512_mul_ps(group[r][v], excess[v]);
      }
    }
  }

  // Adds a vector of each part of the panel, all of one pair.
  void Add(const typename Products::Rows& x, const __m512i* vectors) {
    typename Products::Weight weights[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) weights[v] = Products::WeightOf(vectors[v]);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const auto activation = x.Of(r);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        group[r][v] = Products::Add(group[r][v], activation, weights[v]);
      }
    }
  }

  void Store(float* sums) const {
#pragma GCC unroll 16
    for (int i = 0; i < kRows * kVectors; ++i) {
      const int r = i / kVectors, v = i % kVectors;
      _mm512_storeu_ps(sums + r * kPanelWidth + v * kLanes, group[r][v]);
    }
  }

  // AddScaled with scales of two levels, those of run `run` of group `part`; with the last run what is
  // subtracted from each weight, times the sums of the activations at `starts`.
  void AddTwoLevels(const std::byte* scales, int64_t part, int64_t run, const float* starts,
                    float* sums) const {
    const bool is_last = run + 1 == RunsOfGroup<Code>();
    __m512 scale[kVectors], minimum[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const std::byte* const of_vector = scales + v * Scales::kBytes;
      scale[v] = _mm512_mul_ps(Scales::Load(of_vector, part, run), _mm512_set1_ps(Code::kScale));
      minimum[v] = Scales::Minimums(of_vector, part);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows * kVectors; ++i) {
      const int r = i / kVectors, v = i % kVectors;
      float* const sum = sums + r * kPanelWidth + v * kLanes;
      __m512 next = _mm512_fmadd_ps(scale[v], group[r][v], _mm512_loadu_ps(sum));
      if (is_last) next = _mm512_fmadd_ps(minimum[v], _mm512_set1_ps(starts[r]), next);
      _mm512_storeu_ps(sum, next);
      asm volatile("" : : : "memory");  // as below
    }
  }

  // Reads and writes one sum after the other. Where the compiler lets reads overtake writes, the
  // processor takes sums of the group before for ready that are not, and begins anew: a third of
  // the time of eight rows of INT4.
  void AddScaled(const std::byte* scales, float* sums) const {
    __m512 scale[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) scale[v] = Scales::Load(scales + v * Scales::kBytes);
#pragma GCC unroll 16
    for (int i = 0; i < kRows * kVectors; ++i) {
      const int r = i / kVectors, v = i % kVectors;
      float* const sum = sums + r * kPanelWidth + v * kLanes;
      _mm512_storeu_ps(sum, _mm512_fmadd_ps(scale[v], group[r][v], _mm512_loadu_ps(sum)));
      asm volatile("" : : : "memory");  // keeps the order
    }
  }
};

template <class Code, class Products, Source kSource, int kRows, int kVectors>
void AddGroups(const GroupedRun& run, typename Products::Rows x) {
  constexpr int64_t kOfChunk = kSource == Source::kUnpacked ? kVectors : Code::kVectorsOfChunk;
  constexpr int64_t kChunks = kGroupPairs * kVectors / kOfChunk;
  constexpr int64_t kScaleLines =  // of a group's share
      (kScalesBytes<Code, kVectors> / Code::kScaleGroups + 63) / 64;
  const Code code;
  const std::byte* chunk = run.w;
  std::byte* stream = run.stream;
  for (int64_t g = 0; g < run.groups; ++g) {
    const std::byte* const scales = ScalesAt<Code, kVectors>(run.scales, g);
    if constexpr (kSource == Source::kPacked) {
      Fetch<_MM_HINT_T0>(chunk + kNearBytes, kGroupBytes<Code, kVectors> / 64);
      // What the next slice has in place of this one's weights.
      Fetch<_MM_HINT_T1>(
          ScalesAt<Code, kVectors>(run.ahead, g) + g % Code::kScaleGroups * kScaleLines * 64,
          kScaleLines);
    } else {
      Fetch<_MM_HINT_T0>(run.ahead + g * run.ahead_lines * 64, run.ahead_lines);
    }
    const float* const starts = run.x.sums + g * run.x.step;
#pragma GCC unroll 2
    for (int64_t part = 0; part < RunsOfGroup<Code>(); ++part) {
      GroupSums<Code, Products, kRows, kVectors> sums(starts, scales);
#pragma GCC unroll 4
      for (int64_t i = 0; i < kChunks / RunsOfGroup<Code>(); ++i) {
        __m512i vectors[kOfChunk];
        if constexpr (kSource == Source::kUnpacked) {
#pragma GCC unroll 2
          for (int64_t v = 0; v < kVectors; ++v) vectors[v] = _mm512_load_si512(stream + v * 64);
        } else {
          if constexpr (kSource == Source::kPacked) {
            Fetch<_MM_HINT_T1>(chunk + kFarBytes, Code::kLinesOfChunk);
          }
          code.Unpack(chunk, vectors);
          chunk += Code::kLinesOfChunk * 64;
        }
        if constexpr (kSource == Source::kBoth) {
#pragma GCC unroll 4
          for (int64_t v = 0; v < kOfChunk; ++v) _mm512_store_si512(stream + v * 64, vectors[v]);
        }
        stream += kOfChunk * 64;
#pragma GCC unroll 4
        for (int64_t v = 0; v < kOfChunk; v += kVectors, x.Next()) sums.Add(x, vectors + v);
      }
      if constexpr (Products::kInPieces) {
        sums.Store(run.sums + g * kGroupSums);
      } else if constexpr (kHasTwoLevels<Code>) {
        sums.AddTwoLevels(scales, g % Code::kScaleGroups, part, starts, run.sums);
      } else {
        sums.AddScaled(scales, run.sums);
      }
    }
  }
}

// AddGroups of 1 to kMost rows.
template <class Code, class Products, Source kSource, int kVectors, int kMost = kTileRows>
void AddRows(const GroupedRun& run, const typename Products::Rows& x) {
  if (x.step == kMost) return AddGroups<Code, Products, kSource, kMost, kVectors>(run, x);
  if constexpr (kMost > 1) AddRows<Code, Products, kSource, kVectors, kMost - 1>(run, x);
}

// AddScaledGroups of 1 to kMost groups.
template <class Scales, int kVectors, int kMost = kGroupsAdded>
void AddScaled(const GroupRun& groups, int64_t rows, float* sums) {
  if constexpr (kMost > 1) {
    if (groups.count < kMost) return AddScaled<Scales, kVectors, kMost - 1>(groups, rows, sums);
  }
  __m512 scales[kMost][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kMost * kVectors; ++i) {
    const std::byte* const of_group = groups.scales + i / kVectors * groups.scales_step;
    scales[i / kVectors][i % kVectors] = Scales::Load(of_group + i % kVectors * Scales::kBytes);
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

// From the scales of one of kGroupsAdded groups to those of the next.
template <class Code, int kVectors>
constexpr int64_t kScalesStep = Code::kScaleGroups == 1 ? kScalesBytes<Code, kVectors> : 0;

// Groups [first, first + count) of a run, with sums elsewhere.
template <class Code, Source kSource, int kVectors>
GroupedRun PartOf(const GroupedRun& run, int64_t first, int64_t count, float* sums) {
  const bool is_packed = kSource == Source::kPacked;
  return {.x = {run.x.pairs + first * kGroupPairs * run.x.step, run.x.sums + first * run.x.step,
                run.x.step},
          .w = run.w + first * kGroupBytes<Code, kVectors>,
          .scales = ScalesAt<Code, kVectors>(run.scales, first),
          .stream = is_packed ? nullptr : run.stream + first * kGroupPairs * kVectors * 64,
          .groups = count,
          .sums = sums,
          .ahead = is_packed ? ScalesAt<Code, kVectors>(run.ahead, first)
                             : run.ahead + first * run.ahead_lines * 64,
          .ahead_lines = run.ahead_lines};
}

// All groups of a run. In pieces, scales wait until the rules of products no longer hold.
template <class Code, class Products, Source kSource, int kVectors>
void AddRun(const GroupedRun& run) {
  if constexpr (!Products::kInPieces) {
    AddRows<Code, Products, kSource, kVectors>(run, {run.x.pairs, run.x.step});
  } else {
    static_assert(kGroupsAdded % Code::kScaleGroups == 0);
    alignas(64) float sums[kGroupsAdded * kGroupSums];
    for (int64_t first = 0; first < run.groups; first += kGroupsAdded) {
      const int64_t count = Least(kGroupsAdded, run.groups - first);
      const GroupedRun part = PartOf<Code, kSource, kVectors>(run, first, count, sums);
      {
        const typename Products::Rules rules;
        const typename Products::template Tile<kGroupsAdded * kGroupPairs * kTileRows> x(
            part.x, count * kGroupPairs);
        AddRows<Code, Products, kSource, kVectors>(part, x.rows);
      }
      AddScaled<typename Code::Scales, kVectors>({.scales = part.scales,
                                                  .scales_step = kScalesStep<Code, kVectors>,
                                                  .sums = sums,
                                                  .sums_step = kGroupSums,
                                                  .count = count},
                                                 run.x.step, run.sums);
    }
  }
}

// The stream of `groups` groups.
template <class Code, int kVectors>
void UnpackGroups(const std::byte* w, int64_t groups, std::byte* stream) {
  constexpr int64_t kChunks = kGroupPairs * kVectors / Code::kVectorsOfChunk;
  const Code code;
  for (int64_t g = 0; g < groups; ++g) {
    for (int64_t chunk = 0; chunk < kChunks; ++chunk, w += Code::kLinesOfChunk * 64) {
      __m512i vectors[Code::kVectorsOfChunk];
      code.Unpack(w, vectors);
      for (const __m512i& vector : vectors) {
        _mm512_store_si512(stream, vector);
        stream += 64;
      }
    }
  }
}

// Bytes of the scales of a slice, which are whole lines.
template <class Code, int kVectors>
constexpr int64_t ScaleLinesOf(int64_t groups) {
  return (groups / Code::kScaleGroups * kScalesBytes<Code, kVectors> + 63) / 64 * 64;
}
template <class Code, int kVectors>
constexpr int64_t SliceBytesOf(int64_t groups) {
  return ScaleLinesOf<Code, kVectors>(groups) + groups * kGroupBytes<Code, kVectors>;
}

template <class Code, class Products, int kVectors>
void MultiplyGroupedPanel(const SliceRun& run) {
  constexpr int64_t kBytes = kGroupBytes<Code, kVectors>;
  // Groups whose stream stays in the first-level cache while the tiles use it.
  constexpr int64_t kStep = kUnpackedBytes / (kGroupPairs * kVectors * 64);
  static_assert(kStep % Code::kScaleGroups == 0);
  const int64_t groups = run.depth / kWeightGroup;
  const std::byte* const w = run.w + ScaleLinesOf<Code, kVectors>(groups);
  for (float* sum = run.sums; sum != run.sums + run.rows * kPanelWidth; sum += kLanes) {
    _mm512_storeu_ps(sum, _mm512_setzero_ps());
  }
  const int64_t num_tiles = (run.rows + run.tile_rows - 1) / run.tile_rows;
  // Memory brings the next groups while these are multiplied: each tile asks for as many.
  constexpr int64_t kAllBytes = kBytes + kScalesBytes<Code, kVectors>;
  const int64_t lines = (kAllBytes + num_tiles * 64 - 1) / (num_tiles * 64);
  if (num_tiles == 1) {  // no other rows need what these unpack
    return AddRun<Code, Products, Source::kPacked, kVectors>(
        {.x = TileOf(run, 0, 0),
         .w = w,
         .scales = run.w,
         .stream = nullptr,
         .groups = groups,
         .sums = run.sums,
         .ahead = w + groups * kBytes + kFarBytes});
  }
  for (int64_t first = 0; first < groups; first += kStep) {
    const int64_t count = Least(kStep, groups - first);
    for (int64_t tile = 0; tile < num_tiles; ++tile) {
      const GroupedRun part{.x = TileOf(run, tile, first * kGroupPairs),
                            .w = w + first * kBytes,
                            .scales = ScalesAt<Code, kVectors>(run.w, first),
                            .stream = run.unpacked,
                            .groups = count,
                            .sums = run.sums + tile * run.tile_rows * kPanelWidth,
                            .ahead = w + (first + kStep) * kBytes + tile * lines * count * 64,
                            .ahead_lines = lines};
      if (tile == 0) {
        AddRun<Code, Products, Source::kBoth, kVectors>(part);
      } else {
        AddRun<Code, Products, Source::kUnpacked, kVectors>(part);
      }
    }
  }
}

template <class Code, class Products>
void MultiplyGrouped(const SliceRun& run) {
  // One row waits for memory, and for what there is to do beside multiplying.
  if constexpr (Products::kInPieces) {
    if (run.rows == 1) return MultiplyGrouped<Code, ByInstruction>(run);
  }
  return run.width == kPanelWidth ? MultiplyGroupedPanel<Code, Products, 2>(run)
                                  : MultiplyGroupedPanel<Code, Products, 1>(run);
}

template <class Code>
int64_t SliceBytes(int64_t width, int64_t depth) {
  const int64_t groups = depth / kWeightGroup;
  return width == kPanelWidth ? SliceBytesOf<Code, 2>(groups) : SliceBytesOf<Code, 1>(groups);
}

// Puts what precedes the codes of group `part`, among those of one header, of a lane.
template <class Code>
void PutScales(const std::byte* header, int64_t part, int64_t lane, std::byte* to) {
  if constexpr (kHasTwoLevels<Code> || TraitsOf(Code::kFormat).codes == WeightCodes::kFp4) {
    Code::Scales::Put(header, part, lane, to);
  } else if constexpr (kIsPublished<Code>) {
    Code::Scales::Put(*reinterpret_cast<const uint32_t*>(header), lane, to);
  } else {
    Code::Scales::Put(*reinterpret_cast<const uint16_t*>(header), lane, to);
  }
}

// The numbers of that group, as Code::Put takes them.
template <class Code>
void ReadNumbers(const std::byte* header, int64_t part, int* numbers) {
  constexpr int kBits = TraitsOf(Code::kFormat).bits;
  constexpr int64_t kPartBytes = kWeightGroup * kBits / 8;
  constexpr int64_t kHeader = TraitsOf(Code::kFormat).group_bytes - Code::kScaleGroups * kPartBytes;
  if constexpr (kIsPublished<Code> && kBits != 6) {
    const std::byte* const codes = header + kHeader + part * kPartBytes;
    for (int64_t k = 0; k < kWeightGroup; ++k) {
      const int byte = static_cast<int>(codes[k * kBits / 8]);
      numbers[k] = kBits == 8 ? byte : byte >> (k % 2 * 4) & 15;
    }
  } else {
    int8_t quotients[kWeightGroup];
    if constexpr (kIsPublished<Code>) {
      ReadInt6(header + kHeader + part * kPartBytes, quotients);
    } else {
      ReadQuotients(Code::kFormat, header, quotients);
    }
    for (int64_t k = 0; k < kWeightGroup; ++k) numbers[k] = quotients[k];
  }
}

template <class Code>
void PackGrouped(const PackRun& run) {
  constexpr int64_t kHeaderStep = TraitsOf(Code::kFormat).group_bytes;
  const int64_t vectors = run.width / kLanes;
  const int64_t groups = run.depth / kWeightGroup;
  std::byte* scales = run.out;
  std::byte* out =
      run.out + SliceBytes<Code>(run.width, run.depth) - groups * vectors * kGroupBytes<Code, 1>;
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t unit = g / Code::kScaleGroups, part = g % Code::kScaleGroups;
    for (int64_t n = 0; n < run.outputs; ++n) {
      const std::byte* const header = run.rows + n * run.row_bytes + unit * kHeaderStep;
      PutScales<Code>(header, part, n % kLanes,
                      scales + (unit * vectors + n / kLanes) * Code::Scales::kBytes);
      int numbers[kWeightGroup];
      ReadNumbers<Code>(header, part, numbers);
      for (int64_t k = 0; k < kWeightGroup; ++k) {
        const int64_t i = k / 2 * vectors + n / kLanes;
        Code::Put(numbers[k], i % Code::kVectorsOfChunk, n % kLanes * 2 + k % 2,
                  out + i / Code::kVectorsOfChunk * Code::kLinesOfChunk * 64);
      }
    }
    out += vectors * kGroupBytes<Code, 1>;
  }
}

template <class Code>
void UnpackPanel(const std::byte* w, int64_t width, int64_t groups, std::byte* stream) {
  return width == kPanelWidth ? UnpackGroups<Code, 2>(w, groups, stream)
                              : UnpackGroups<Code, 1>(w, groups, stream);
}

template <class Scales>
void AddScaledOf(const GroupRun& groups, int64_t rows, int64_t width, float* sums) {
  return width == kPanelWidth ? AddScaled<Scales, 2>(groups, rows, sums)
                              : AddScaled<Scales, 1>(groups, rows, sums);
}

template <class Code>
QuantizedSlice SliceOf(const std::byte* w, int64_t width, int64_t groups) {
  const int64_t vectors = width / kLanes;
  const int64_t group_bytes = vectors * kGroupBytes<Code, 1>;
  const int64_t slice_bytes = SliceBytes<Code>(width, groups * kWeightGroup);
  return {.scales = w,
          .scales_step = vectors * kScalesBytes<Code, 1>,
          .groups = w + slice_bytes - groups * group_bytes,
          .group_bytes = group_bytes};
}

template <class Code, class Products>
constexpr GemmKernel kKernel{.activations = ActivationLayout::kBFloat16Tiles,
                             .sums_excess = Code::kExcess,
                             .depth_step = kWeightGroup,
                             .tile_rows = kTileRows,
                             .slice_bytes = SliceBytes<Code>,
                             .pack = PackGrouped<Code>,
                             .multiply = MultiplyGrouped<Code, Products>};

template <class Products>
const GemmKernel& KernelFor(WeightFormat format) {
  if (IsPublished(format)) {
    return WithPublishedCode(format, []<class Code>() -> const GemmKernel& {
      // Sums in pieces know one scale for a group alone.
      using Used = std::conditional_t<kHasTwoLevels<Code>, ByInstruction, Products>;
      return kKernel<Code, Used>;
    });
  }
  return WithCode(format,
                  []<class Code, class>() -> const GemmKernel& { return kKernel<Code, Products>; });
}

}  // namespace

const GemmKernel& Avx512QuantizedGemmKernel(WeightFormat format, PairProducts products) {
  return products == PairProducts::kFloats ? KernelFor<ByFloats>(format)
                                           : KernelFor<ByInstruction>(format);
}

QuantizedSlice QuantizedSliceOf(WeightFormat format, const std::byte* w, int64_t width,
                                int64_t groups) {
  return WithCode(format, [&]<class Code, class>() { return SliceOf<Code>(w, width, groups); });
}

void UnpackQuantized(WeightFormat format, const std::byte* w, int64_t width, int64_t groups,
                     std::byte* stream) {
  WithCode(format, [&]<class, class Numbers>() { UnpackPanel<Numbers>(w, width, groups, stream); });
}

void AddScaledGroups(WeightFormat format, const GroupRun& groups, int64_t rows, int64_t width,
                     float* sums) {
  WithCode(format, [&]<class Code, class>() {
    AddScaledOf<typename Code::Scales>(groups, rows, width, sums);
  });
}

}  // namespace sluice
