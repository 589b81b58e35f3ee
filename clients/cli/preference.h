// The preference of a model over a reference model for one of two answers, as direct preference
// optimization defines it (Rafailov et al. 2023): their log-probabilities are rewards relative to a
// reference. Pure functions.
#pragma once

#include <vector>

namespace sluice {

// Natural logarithms of the probabilities of whole answers.
struct PairLogprobs {
  double chosen = 0;
  double rejected = 0;
};

struct Preference {
  PairLogprobs policy, reference;
  // Implicit rewards, beta * (log policy - log reference); their difference.
  double chosen_reward = 0, rejected_reward = 0, margin = 0;
  // That the chosen answer is preferred (Bradley and Terry 1952): 1 / (1 + exp(-margin)).
  double probability = 0;
  double loss = 0;  // -log(probability)
};

// REQUIRES: beta > 0.
Preference PreferenceOf(const PairLogprobs& policy, const PairLogprobs& reference, double beta);

struct PreferenceTotals {
  int num_pairs = 0;
  double accuracy = 0;  // share of pairs with a margin above 0
  double mean_margin = 0, mean_probability = 0, mean_loss = 0;
};

// Zeros where there are none.
PreferenceTotals TotalsOf(const std::vector<Preference>& preferences);

}  // namespace sluice
