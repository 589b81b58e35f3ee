// What a product multiplies: the format of its weights and that of its activations. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/weight_format.h"

namespace sluice {

// What a product rounds its activations to before it multiplies them.
enum class ActivationFormat : uint8_t {
  kOperand,  // nothing with F32 weights, BF16 with all others
  kFp8,      // FP8, slice by slice (kernels/fp8_activations.h)
};

struct MatrixFormat {
  // Weights alone name the product that every format has.
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr MatrixFormat(WeightFormat weights = WeightFormat::kF32,
                         ActivationFormat activations = ActivationFormat::kOperand)
      : weights(weights), activations(activations) {}

  constexpr bool operator==(const MatrixFormat&) const = default;

  // Whether there are such products.
  constexpr bool IsSupported() const {
    return activations == ActivationFormat::kOperand || TraitsOf(weights).takes_fp8_activations;
  }

  WeightFormat weights;
  ActivationFormat activations;
};

// All that are supported: those with activations as operands first.
inline std::vector<MatrixFormat> MatrixFormats() {
  std::vector<MatrixFormat> formats;
  for (const auto activations : {ActivationFormat::kOperand, ActivationFormat::kFp8}) {
    for (const WeightFormatTraits& traits : kWeightFormats) {
      const MatrixFormat format(traits.format, activations);
      if (format.IsSupported()) formats.push_back(format);
    }
  }
  return formats;
}

}  // namespace sluice
