// Times a mixture of experts as a step of many rows computes it, beside its products alone.
#pragma once

#include <cstdint>

#include "kernels/backend.h"
#include "tests/kernels/meter.h"

namespace sluice::testing {

struct MixtureShape {
  const char* name;
  int64_t hidden;
  int num_experts;
  int num_chosen;
  int64_t width;
};

// The layers of models that tests/benchmarks measures.
inline constexpr MixtureShape kMixtureShapes[] = {{"qwen3-a3b-4l", 2048, 128, 8, 768}};

// Prints a line: seconds of the router, of routing, of the products of grouped rows and of combining
// them; and seconds of the products of the same rows that were grouped beforehand, each of one expert.
// Medians of turns. REQUIRES: a backend that computes mixtures in the host's memory.
void MeasureExperts(Backend& backend, const MixtureShape& shape, WeightFormat format, int64_t rows,
                    int num_threads, OutputFormat output);

}  // namespace sluice::testing
