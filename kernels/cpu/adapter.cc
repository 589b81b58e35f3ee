#include "kernels/cpu/adapter.h"

#include <algorithm>

#include "kernels/check.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/route.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/adapter.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/simd-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace sluice {
namespace HWY_NAMESPACE {
namespace {

constexpr int kChains = 4;
constexpr int kRankVectors = kMaxFloatLanes / hn::MaxLanes(FloatTag());

// sums[0, 16) = the sums over `count` inputs of x times sixteen ranks, a [count, 16].
void SumSlice(const float* HWY_RESTRICT x, const float* HWY_RESTRICT a, int64_t count,
              float* HWY_RESTRICT sums) {
  const FloatTag d;
  const int64_t lanes = hn::Lanes(d);
  hn::Vec<FloatTag> chains[kChains][kRankVectors];
  for (auto& chain : chains) {
    for (auto& vector : chain) vector = hn::Zero(d);
  }
  int64_t k = 0;
  for (; k + kChains <= count; k += kChains) {
    for (int c = 0; c < kChains; ++c) {
      const auto input = hn::Set(d, x[k + c]);
      for (int v = 0; v < kRankVectors; ++v) {
        chains[c][v] = hn::MulAdd(input, hn::LoadU(d, a + (k + c) * kAdapterRankStep + v * lanes),
                                  chains[c][v]);
      }
    }
  }
  for (int c = 0; k < count; ++k, ++c) {
    const auto input = hn::Set(d, x[k]);
    for (int v = 0; v < kRankVectors; ++v) {
      chains[c][v] =
          hn::MulAdd(input, hn::LoadU(d, a + k * kAdapterRankStep + v * lanes), chains[c][v]);
    }
  }
  for (int v = 0; v < kRankVectors; ++v) {
    const auto even = hn::Add(chains[0][v], chains[1][v]);
    hn::StoreU(hn::Add(even, hn::Add(chains[2][v], chains[3][v])), d, sums + v * lanes);
  }
}

// The slices' sums joined in the tree: sums[0, 16).
void SumSlices(const float* x, const float* a, int64_t depth, int num_slices, float* sums) {
  if (num_slices == 1) return SumSlice(x, a, depth, sums);
  const int half = num_slices / 2;
  HWY_ALIGN float right[kAdapterRankStep];
  SumSlices(x, a, depth, half, sums);
  SumSlices(x + half * depth, a + half * depth * kAdapterRankStep, depth, half, right);
  for (int64_t r = 0; r < kAdapterRankStep; ++r) sums[r] += right[r];
}

// out[0, count) += the sum over ranks of sums[r] * b[r, 0 .. count), rows of b being `stride` apart.
void AddRanks(const float* HWY_RESTRICT sums, const float* HWY_RESTRICT b, int64_t stride,
              int64_t rank, int64_t count, float* HWY_RESTRICT out) {
  constexpr int kTogether = 4;
  const FloatTag d;
  const int64_t lanes = hn::Lanes(d);
  int64_t i = 0;
  for (; i + kTogether * lanes <= count; i += kTogether * lanes) {
    hn::Vec<FloatTag> totals[kTogether];
    for (int v = 0; v < kTogether; ++v) {
      totals[v] = hn::Mul(hn::Set(d, sums[0]), hn::LoadU(d, b + i + v * lanes));
    }
    for (int64_t r = 1; r < rank; ++r) {
      const auto sum = hn::Set(d, sums[r]);
      for (int v = 0; v < kTogether; ++v) {
        totals[v] = hn::MulAdd(sum, hn::LoadU(d, b + r * stride + i + v * lanes), totals[v]);
      }
    }
    for (int v = 0; v < kTogether; ++v) {
      float* const to = out + i + v * lanes;
      hn::StoreU(hn::Add(hn::LoadU(d, to), totals[v]), d, to);
    }
  }
  ForEachVector(count - i, [&](auto one, int64_t j) HWY_ATTR {
    auto total = hn::Mul(hn::Set(one, sums[0]), hn::LoadU(one, b + i + j));
    for (int64_t r = 1; r < rank; ++r) {
      total = hn::MulAdd(hn::Set(one, sums[r]), hn::LoadU(one, b + r * stride + i + j), total);
    }
    hn::StoreU(hn::Add(hn::LoadU(one, out + i + j), total), one, out + i + j);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sluice
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice {
namespace {

// Rows that read an adapter's matrix while it is in cache, and outputs written at a time.
constexpr int64_t kRowsOfRun = 16;
constexpr int64_t kOutputsOfUnit = 512;

}  // namespace

HWY_EXPORT(SumSlices);
HWY_EXPORT(AddRanks);

void CpuAdapters::FindRows(absl::Span<const int32_t> slots, FactorsBySlot factors) {
  rows_.clear();
  for (size_t t = 0; t < slots.size(); ++t) {
    if (slots[t] < 0 || factors[slots[t]] == nullptr) continue;
    const auto row = static_cast<int64_t>(t);
    rows_.push_back({.in = row, .out = row, .factors = factors[slots[t]]});
  }
}

void CpuAdapters::FindExpertRows(const Routing& routing, absl::Span<const int32_t> slots,
                                 FactorsBySlot factors) {
  rows_.clear();
  for (int expert = 0; expert < routing.num_experts; ++expert) {
    for (int32_t g = routing.first[expert]; g < routing.first[expert + 1]; ++g) {
      const int32_t slot = slots[routing.rows[g]];
      if (slot < 0) continue;
      const AdapterFactors* const of = factors[slot * routing.num_experts + expert];
      if (of != nullptr) rows_.push_back({.in = g, .out = g, .factors = of});
    }
  }
}

void CpuAdapters::FindRuns(int64_t most) {
  runs_.clear();
  for (int64_t row = 0; row < static_cast<int64_t>(rows_.size()); ++row) {
    const bool continues = !runs_.empty() && row - runs_.back().begin < most &&
                           rows_[runs_.back().begin].factors == rows_[row].factors;
    if (!continues) runs_.push_back({row, row});
    runs_.back().end = row + 1;
  }
}

void CpuAdapters::SumInputs(MatrixView x, MatrixView sums) {
  FindRuns(kRowsOfRun);
  const int64_t blocks = sums.cols / kAdapterRankStep;
  const auto num_runs = static_cast<int64_t>(runs_.size());
  context_.pool.ParallelFor(num_runs * blocks, [&](int64_t unit, int) {
    const Run& run = runs_[unit / blocks];
    const AdapterFactors& factors = *rows_[run.begin].factors;
    const int64_t first = unit % blocks * kAdapterRankStep;
    for (int64_t i = run.begin; i < run.end; ++i) {
      const Row& row = rows_[i];
      float* const to = sums.Row(row.out) + first;
      if (first >= factors.rank) {
        std::fill_n(to, kAdapterRankStep, 0.0F);
        continue;
      }
      HWY_DYNAMIC_DISPATCH(SumSlices)
      (x.Row(row.in), factors.a + first * factors.num_inputs,
       factors.num_inputs / factors.num_slices, factors.num_slices, to);
      if (row.weight == 1) continue;
      for (int64_t r = 0; r < kAdapterRankStep; ++r) to[r] *= row.weight;
    }
  });
}

void CpuAdapters::SumAdapterInputs(MatrixView x, absl::Span<const int32_t> slots,
                                   FactorsBySlot factors, MatrixView sums) {
  SLUICE_CHECK(x.dtype == DType::kF32 && sums.rows == x.rows);
  SLUICE_CHECK(static_cast<int64_t>(slots.size()) == x.rows && sums.cols % kAdapterRankStep == 0);
  FindRows(slots, factors);
  size_t next = 0;
  for (int64_t t = 0; t < sums.rows; ++t) {
    if (next < rows_.size() && rows_[next].out == t) {
      ++next;
    } else {
      std::fill_n(sums.Row(t), sums.cols, 0.0F);
    }
  }
  SumInputs(x, sums);
}

void CpuAdapters::SumExpertInputs(MatrixView x, const Routing& routing,
                                  absl::Span<const int32_t> slots, FactorsBySlot factors,
                                  const ExpertInputOptions& options, MatrixView sums) {
  SLUICE_CHECK(x.dtype == DType::kF32 && sums.cols % kAdapterRankStep == 0);
  FindExpertRows(routing, slots, factors);
  size_t next = 0;
  for (int64_t g = 0; g < sums.rows; ++g) {
    if (next < rows_.size() && rows_[next].out == g) {
      if (!options.is_grouped) rows_[next].in = routing.rows[g];
      if (options.weighted) rows_[next].weight = routing.weights[g];
      ++next;
    } else {
      std::fill_n(sums.Row(g), sums.cols, 0.0F);
    }
  }
  SumInputs(x, sums);
}

// A row may be met several times, by one thread.
void CpuAdapters::AddOutputs(MatrixView sums, MatrixView out) {
  FindRuns(kRowsOfRun);
  const int64_t parts = (out.cols + kOutputsOfUnit - 1) / kOutputsOfUnit;
  const auto num_runs = static_cast<int64_t>(runs_.size());
  const bool shares_rows = !std::is_sorted(
      rows_.begin(), rows_.end(), [](const Row& a, const Row& b) { return a.out <= b.out; });
  const int64_t outer = shares_rows ? 1 : num_runs;
  context_.pool.ParallelFor(outer * parts, [&](int64_t unit, int) {
    const int64_t begin = unit % parts * kOutputsOfUnit;
    const int64_t end = std::min(begin + kOutputsOfUnit, out.cols);
    const int64_t first_run = shares_rows ? 0 : unit / parts;
    const int64_t end_run = shares_rows ? num_runs : first_run + 1;
    for (int64_t r = first_run; r < end_run; ++r) {
      for (const AdapterOutputs& part : rows_[runs_[r].begin].factors->outputs) {
        const int64_t from = std::max(begin, part.first_output);
        const int64_t to = std::min(end, part.first_output + part.num_outputs);
        if (from >= to) continue;
        for (int64_t i = runs_[r].begin; i < runs_[r].end; ++i) {
          HWY_DYNAMIC_DISPATCH(AddRanks)
          (sums.Row(rows_[i].in) + part.first_rank, part.b + (from - part.first_output),
           part.num_outputs, part.rank, to - from, out.Row(rows_[i].out) + from);
        }
      }
    }
  });
}

void CpuAdapters::AddAdapterOutputs(MatrixView sums, absl::Span<const int32_t> slots,
                                    FactorsBySlot factors, const float* scores, MatrixView out) {
  SLUICE_CHECK(out.dtype == DType::kF32 && sums.rows == out.rows);
  FindRows(slots, factors);
  if (scores != nullptr) {
    for (const Row& row : rows_) {
      float weight = 1;
      SigmoidOf(scores + row.in, 1, &weight);
      for (int64_t r = 0; r < row.factors->rank; ++r) sums.Row(row.in)[r] *= weight;
    }
  }
  AddOutputs(sums, out);
}

void CpuAdapters::GemmWithAddends(MatrixView x, const PackedMatrix& weights, MatrixView out,
                                  const GemmEpilogue& epilogue, const SumAddends& addends) {
  Gemm(context_, x, static_cast<const CpuPackedMatrix&>(weights), out, epilogue, addends);
}

void CpuAdapters::ClearAddends(MatrixView values, uint8_t* rows) const {
  std::fill_n(rows, values.rows, uint8_t{0});
  for (const Row& row : rows_) {
    rows[row.out] = 1;
    std::fill_n(values.Row(row.out), values.cols, 0.0F);
  }
}

void CpuAdapters::WriteAddends(MatrixView sums, absl::Span<const int32_t> slots,
                               FactorsBySlot factors, MatrixView values, uint8_t* rows) {
  FindRows(slots, factors);
  ClearAddends(values, rows);
  AddOutputs(sums, values);
}

void CpuAdapters::WriteExpertAddends(MatrixView sums, const Routing& routing,
                                     absl::Span<const int32_t> slots, FactorsBySlot factors,
                                     MatrixView values, uint8_t* rows) {
  FindExpertRows(routing, slots, factors);
  ClearAddends(values, rows);
  AddOutputs(sums, values);
}

void CpuAdapters::AddExpertOutputs(MatrixView sums, const Routing& routing,
                                   absl::Span<const int32_t> slots, FactorsBySlot factors,
                                   bool weighted, MatrixView out) {
  FindExpertRows(routing, slots, factors);
  for (Row& row : rows_) {
    row.out = routing.rows[row.in];
    if (!weighted) continue;
    for (int64_t r = 0; r < row.factors->rank; ++r) {
      sums.Row(row.in)[r] *= routing.weights[row.in];
    }
  }
  AddOutputs(sums, out);
}

}  // namespace sluice
#endif  // HWY_ONCE
