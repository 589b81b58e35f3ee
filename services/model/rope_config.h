// Rotary position embeddings of a model (Su et al. 2021), context extension included. A plain
// value; rope_fields.h reads it from config.json.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice {

// What is done to the frequencies theta^(-2i/dim) so that a model reaches further than the
// `original_positions` it was trained on. `factor` is by how much.
enum class RopeScaling : uint8_t {
  kNone,
  kLinear,      // all of them over factor: position interpolation (Chen et al. 2023)
  kNtk,         // theta * factor^(dim / (dim - 2)): the fastest pair keeps its frequency, the
                // slowest is interpolated ("NTK-aware scaled RoPE", bloc97 2023)
  kDynamicNtk,  // the same by a factor that grows with the sequence once it is longer than
                // original_positions (emozilla 2023)
  kYarn,        // slow pairs over factor, fast ones kept, the band between blended by pair; cosines
                // and sines times the attention factor (Peng et al. 2023)
  kLlama3,      // slow pairs over factor, fast ones kept, the band between blended by wavelength
  kLongRope,    // each pair over a divisor of its own, from one list for sequences of up to
                // original_positions and from another beyond (Ding et al. 2024)
  kProportional,  // all of them over factor, and none of the pairs behind the fastest turned_pairs
};

struct RopeConfig {
  double theta = 10000;      // > 0
  int dim = 0;               // elements of a head that are turned, its first ones; even, >= 2, <= D
  bool interleaved = false;  // pairs 2i with 2i + 1 (Su et al. 2021), not i with i + dim/2
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1;           // >= 1
  int original_positions = 0;  // >= 1
  // Cosines and sines are multiplied by it, so that scores grow by its square; > 0.
  double attention_factor = 1;

  // kYarn: turns within the original context above which a pair is fast and below which it is slow.
  double beta_fast = 32;
  double beta_slow = 1;
  bool truncate = true;  // the blended band ends at whole pairs
  // What latent attention multiplies its scale with: of all elements of a query, not only of those
  // that are turned, so it is no matter of cosines and sines. >= 1.
  double latent_scale = 1;

  // kLlama3: the same two limits.
  double high_freq_factor = 4;
  double low_freq_factor = 1;

  int turned_pairs = 0;  // kProportional: in [0, dim / 2]

  // kLongRope: [dim / 2] each, all > 0.
  std::vector<double> short_factors;
  std::vector<double> long_factors;

  // Whether a sequence's length decides how its positions turn, all of them: keys that were
  // computed while it was shorter are then of no use.
  bool depends_on_length() const {
    return scaling == RopeScaling::kDynamicNtk || scaling == RopeScaling::kLongRope;
  }
  // The longest sequence that turns as one of `length` positions does. Two lengths turn alike
  // exactly where this is the same.
  int32_t RopeLengthClass(int32_t length) const;
};

}  // namespace sluice
