// Times Backend::PagedAttention with the heads of real models.
#pragma once

#include <cstdint>
#include <string_view>

#include "kernels/backend.h"
#include "tests/kernels/meter.h"

namespace sluice::testing {

struct HeadShape {
  std::string_view name;
  int kv_heads;
  int group;  // query heads of each
  int head_dim;
};

inline constexpr HeadShape kHeadShapes[] = {
    {"smollm2-360m", 5, 3, 64}, {"tinyllama-1.1b", 4, 8, 64}, {"llama3.1-8b", 8, 4, 128}};

struct AttentionShape {
  int64_t sequences;
  int64_t rows;     // of each sequence in the step
  int64_t context;  // positions of each sequence, those rows included
  int layers = 1;   // one after another, so that no cache holds what is read
};

// The result is checked against the reference first; a wrong one ends the program.
void MeasureAttention(Meter& meter, Backend& backend, const HeadShape& heads,
                      const AttentionShape& shape, DType dtype);

}  // namespace sluice::testing
