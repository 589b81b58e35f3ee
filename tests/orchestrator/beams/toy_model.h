// A language model of few tokens whose probabilities are a hash of the tokens before.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "orchestrator/beams/beam_search.h"

namespace sluice {

using Text = std::vector<TokenId>;

class ToyModel {
 public:
  ToyModel(uint32_t seed, int vocabulary) : seed_(seed), vocabulary_(vocabulary) {}

  int vocabulary() const { return vocabulary_; }

  // Log-probabilities of all tokens after `text`, as floats.
  std::vector<float> Logprobs(const Text& text) const {
    std::vector<uint32_t> key = {seed_};
    key.insert(key.end(), text.begin(), text.end());
    std::seed_seq sequence(key.begin(), key.end());
    std::mt19937 random(sequence);
    std::vector<double> logits(vocabulary_);
    double total = 0;
    for (double& logit : logits) {
      logit = std::uniform_real_distribution<double>(-2, 2)(random);
      total += std::exp(logit);
    }
    std::vector<float> logprobs;
    for (const double logit : logits) {
      logprobs.push_back(static_cast<float>(logit - std::log(total)));
    }
    return logprobs;
  }

 private:
  uint32_t seed_;
  int vocabulary_;
};

inline Text TextOf(const BeamSearch& search, BeamNode node) {
  Text text;
  for (const BeamNode step : search.PathTo(node, 0)) text.push_back(search.TokenOf(step));
  return text;
}

}  // namespace sluice
