// Number of sequences a GenerateRequest returns. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sluice/v1/generation.pb.h"

namespace sluice {

// How many sequences a Generate request returns.
inline int32_t NumReturned(const v1::GenerateRequest& request) {
  if (!request.has_beams()) return request.has_n() ? request.n() : 1;
  const v1::BeamSearch& beams = request.beams();
  if (beams.has_num_return()) return beams.num_return();
  return beams.stochastic() ? beams.beam_width() : 1;
}

}  // namespace sluice
