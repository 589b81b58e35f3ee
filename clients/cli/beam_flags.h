// The flags of a search for the most probable texts. Ranges, and what does not go together, are the
// server's to judge.
#pragma once

#include <cstdint>
#include <optional>

#include "services/options/flags.h"
#include "sluice/v1/generation.pb.h"

namespace sluice {

// What is given of these.
struct BeamFlags {
  std::optional<int32_t> beam_width;
  std::optional<float> length_penalty;
  v1::EarlyStopping early_stopping = v1::EARLY_STOPPING_UNSPECIFIED;
  std::optional<int32_t> num_return;
  bool stochastic = false;
};

// --beam_width, --num_return, --length_penalty, --early_stopping, --stochastic_beams.
void AddBeamFlags(FlagSet& flags, BeamFlags* into);

// Sets the request's beams where a width was given. INVALID_ARGUMENT where the others were given
// without.
absl::Status SetBeams(const BeamFlags& flags, v1::GenerateRequest& request);

}  // namespace sluice
