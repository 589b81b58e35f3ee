#include "services/sampler/perturbation.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "services/sampler/philox.h"

namespace sluice {

double GumbelFor(const NoisePlace& place, int32_t token) {
  const double uniform = UniformFor(place.seed, place.sequence_index, place.position,
                                    DrawPurpose::kGumbel, static_cast<uint32_t>(token));
  return -std::log(-std::log1p(-std::max(uniform, 0x1p-54)));
}

std::vector<PerturbedToken> MostPerturbed(absl::Span<const TokenLogprob> tokens,
                                          const NoisePlace& place, int count) {
  std::vector<PerturbedToken> all;
  all.reserve(tokens.size());
  for (const TokenLogprob& token : tokens) {
    all.push_back({token, token.logprob + GumbelFor(place, token.id)});
  }
  const auto kept = std::min<ptrdiff_t>(count, std::ssize(all));
  std::partial_sort(all.begin(), all.begin() + kept, all.end(),
                    [](const PerturbedToken& a, const PerturbedToken& b) {
                      return std::tuple(-a.perturbed, a.token.id) <
                             std::tuple(-b.perturbed, b.token.id);
                    });
  all.resize(kept);
  return all;
}

}  // namespace sluice
