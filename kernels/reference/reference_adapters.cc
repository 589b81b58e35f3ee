#include "kernels/reference/reference_adapters.h"

#include <algorithm>
#include <cmath>

#include "kernels/reference/element.h"

namespace sluice {
namespace {

const AdapterFactors* FactorsOfRow(absl::Span<const int32_t> slots, FactorsBySlot factors,
                                   int64_t row) {
  return slots[row] < 0 ? nullptr : factors[slots[row]];
}

int ExpertOfGrouped(const Routing& routing, int64_t grouped) {
  int expert = 0;
  while (grouped >= routing.first[expert + 1]) ++expert;
  return expert;
}

// Null where the grouped row has none.
const AdapterFactors* FactorsOfGrouped(const Routing& routing, absl::Span<const int32_t> slots,
                                       FactorsBySlot factors, int64_t grouped) {
  const int32_t slot = slots[routing.rows[grouped]];
  return slot < 0 ? nullptr
                  : factors[slot * routing.num_experts + ExpertOfGrouped(routing, grouped)];
}

void SumRow(MatrixView x, int64_t from, const AdapterFactors* factors, double weight,
            MatrixView sums, int64_t to) {
  std::fill_n(sums.Row(to), sums.cols, 0.0F);
  if (factors == nullptr) return;
  for (int64_t r = 0; r < factors->rank; ++r) {
    const float* const a =
        factors->a + r / kAdapterRankStep * factors->num_inputs * kAdapterRankStep;
    double sum = 0;
    for (int64_t k = 0; k < factors->num_inputs; ++k) {
      sum += double{LoadElement(x, from, k)} * a[k * kAdapterRankStep + r % kAdapterRankStep];
    }
    sums.Row(to)[r] = static_cast<float>(weight * sum);
  }
}

void AddRow(MatrixView sums, int64_t from, const AdapterFactors* factors, double weight,
            MatrixView out, int64_t to) {
  if (factors == nullptr) return;
  for (const AdapterOutputs& part : factors->outputs) {
    for (int64_t n = 0; n < part.num_outputs; ++n) {
      double sum = 0;
      for (int64_t r = 0; r < part.rank; ++r) {
        sum += double{sums.Row(from)[part.first_rank + r]} * part.b[r * part.num_outputs + n];
      }
      out.Row(to)[part.first_output + n] += static_cast<float>(weight * sum);
    }
  }
}

void WriteRow(MatrixView sums, const AdapterFactors* factors, MatrixView values, int64_t row,
              uint8_t* rows) {
  rows[row] = factors == nullptr ? 0 : 1;
  if (factors == nullptr) return;
  std::fill_n(values.Row(row), values.cols, 0.0F);
  AddRow(sums, row, factors, 1, values, row);
}

}  // namespace

void ReferenceAdapters::SumAdapterInputs(MatrixView x, absl::Span<const int32_t> slots,
                                         FactorsBySlot factors, MatrixView sums) {
  for (int64_t t = 0; t < x.rows; ++t) {
    SumRow(x, t, FactorsOfRow(slots, factors, t), 1, sums, t);
  }
}

void ReferenceAdapters::AddAdapterOutputs(MatrixView sums, absl::Span<const int32_t> slots,
                                          FactorsBySlot factors, const float* scores,
                                          MatrixView out) {
  for (int64_t t = 0; t < out.rows; ++t) {
    const double weight = scores == nullptr ? 1 : 1 / (1 + std::exp(-double{scores[t]}));
    AddRow(sums, t, FactorsOfRow(slots, factors, t), weight, out, t);
  }
}

void ReferenceAdapters::WriteAddends(MatrixView sums, absl::Span<const int32_t> slots,
                                     FactorsBySlot factors, MatrixView values, uint8_t* rows) {
  for (int64_t t = 0; t < values.rows; ++t) {
    WriteRow(sums, FactorsOfRow(slots, factors, t), values, t, rows);
  }
}

void ReferenceAdapters::SumExpertInputs(MatrixView x, const Routing& routing,
                                        absl::Span<const int32_t> slots, FactorsBySlot factors,
                                        const ExpertInputOptions& options, MatrixView sums) {
  for (int64_t g = 0; g < sums.rows; ++g) {
    SumRow(x, options.is_grouped ? g : routing.rows[g],
           FactorsOfGrouped(routing, slots, factors, g), options.weighted ? routing.weights[g] : 1,
           sums, g);
  }
}

void ReferenceAdapters::WriteExpertAddends(MatrixView sums, const Routing& routing,
                                           absl::Span<const int32_t> slots, FactorsBySlot factors,
                                           MatrixView values, uint8_t* rows) {
  for (int64_t g = 0; g < values.rows; ++g) {
    WriteRow(sums, FactorsOfGrouped(routing, slots, factors, g), values, g, rows);
  }
}

void ReferenceAdapters::AddExpertOutputs(MatrixView sums, const Routing& routing,
                                         absl::Span<const int32_t> slots, FactorsBySlot factors,
                                         bool weighted, MatrixView out) {
  for (int64_t g = 0; g < sums.rows; ++g) {
    AddRow(sums, g, FactorsOfGrouped(routing, slots, factors, g), weighted ? routing.weights[g] : 1,
           out, routing.rows[g]);
  }
}

}  // namespace sluice
