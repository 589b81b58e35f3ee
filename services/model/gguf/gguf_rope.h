// How a GGUF file says that positions are scaled, as the object `rope_scaling` of a config.json.
// Only .cc files include this header: nlohmann-json is heavy to compile.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "services/model/gguf/gguf_fields.h"

namespace sluice {

// What the scaling depends on beside its own keys.
struct GgufRopeShape {
  std::string prefix;  // of the architecture's keys, such as "llama."
  double theta = 10000;
  int64_t dim = 0;  // elements of a head that are turned
  int64_t max_positions = 0;
};

// The object, or null where positions are not scaled: from <prefix>rope.scaling.*, from the tensors
// rope_factors_long and rope_factors_short (LongRoPE), or from rope_freqs (Llama 3, whose
// parameters are recognised where the divisors follow from them). Errors go to `fields`.
nlohmann::json GgufRopeScaling(GgufFields& fields, const GgufRopeShape& shape);

// The tensor with what frequencies are divided by.
inline constexpr char kGgufDivisors[] = "rope_freqs.weight";
// Such a vector, with a number for each of `pairs` pairs; empty, with an error, where it is no such.
std::vector<double> GgufDivisors(GgufFields& fields, const char* name, int64_t pairs);

}  // namespace sluice
