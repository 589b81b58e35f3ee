// The functions between the two projections of an MLP.
#pragma once

#include <cstdint>

namespace sluice {

enum class Activation : uint8_t {
  kRelu,      // max(z, 0)
  kSilu,      // z / (1 + exp(-z))
  kGelu,      // z/2 (1 + erf(z / sqrt(2))) (Hendrycks and Gimpel 2016)
  kGeluTanh,  // z/2 (1 + tanh(sqrt(2/pi) (z + 0.044715 z^3))), its approximation in the same paper
  // Of a gate and its up: (u + 1) g / (1 + exp(-alpha g)), g being the gate up to a limit and u the
  // up within plus and minus it (gpt-oss). GatedClamp has both constants.
  kClampedSwiGlu,
};

struct GatedClamp {
  float alpha = 0;
  float limit = 0;  // > 0
};

}  // namespace sluice
