#include "clients/cli/preference.h"

#include <algorithm>
#include <cmath>

namespace sluice {

Preference PreferenceOf(const PairLogprobs& policy, const PairLogprobs& reference, double beta) {
  Preference preference{.policy = policy, .reference = reference};
  preference.chosen_reward = beta * (policy.chosen - reference.chosen);
  preference.rejected_reward = beta * (policy.rejected - reference.rejected);
  preference.margin = preference.chosen_reward - preference.rejected_reward;
  preference.probability = 1 / (1 + std::exp(-preference.margin));
  // log(1 + exp(-margin)), without an exponential that overflows.
  preference.loss =
      std::max(-preference.margin, 0.0) + std::log1p(std::exp(-std::abs(preference.margin)));
  return preference;
}

PreferenceTotals TotalsOf(const std::vector<Preference>& preferences) {
  PreferenceTotals totals{.num_pairs = static_cast<int>(preferences.size())};
  for (const Preference& preference : preferences) {
    totals.accuracy += preference.margin > 0 ? 1 : 0;
    totals.mean_margin += preference.margin;
    totals.mean_probability += preference.probability;
    totals.mean_loss += preference.loss;
  }
  const double count = std::max(1, totals.num_pairs);
  for (double* mean :
       {&totals.accuracy, &totals.mean_margin, &totals.mean_probability, &totals.mean_loss}) {
    *mean /= count;
  }
  return totals;
}

}  // namespace sluice
