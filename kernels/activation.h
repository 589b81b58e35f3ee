// The functions between the two projections of an MLP.
#pragma once

#include <cstdint>

namespace sluice {

enum class Activation : uint8_t {
  kRelu,      // max(z, 0)
  kSilu,      // z / (1 + exp(-z))
  kGelu,      // z/2 (1 + erf(z / sqrt(2))) (Hendrycks and Gimpel 2016)
  kGeluTanh,  // z/2 (1 + tanh(sqrt(2/pi) (z + 0.044715 z^3))), its approximation in the same paper
};

}  // namespace sluice
