// The weight matrices of real models, as a shard and the sampler multiply them.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::testing {

struct MatrixShape {
  std::string_view name;
  int64_t inputs;
  int64_t outputs;
  int num_slices = 1;  // of the reduction, as ReductionSlices has them
  bool gated = false;  // with SwiGLU in the product
};

struct ModelShape {
  std::string_view name;
  MatrixShape layer[4];
};

inline constexpr ModelShape kModelShapes[] = {
    {"smollm2-360m",
     {{"qkv", 960, 1600},
      {"o", 960, 960},
      {"gate_up", 960, 5120, 1, true},
      {"down", 2560, 960, 8}}},
    {"tinyllama-1.1b",
     {{"qkv", 2048, 2560},
      {"o", 2048, 2048, 8},
      {"gate_up", 2048, 11264, 1, true},
      {"down", 5632, 2048, 8}}},
    {"llama3.1-8b",
     {{"qkv", 4096, 6144},
      {"o", 4096, 4096, 8},
      {"gate_up", 4096, 28672, 1, true},
      {"down", 14336, 4096, 8}}},
};

}  // namespace sluice::testing
