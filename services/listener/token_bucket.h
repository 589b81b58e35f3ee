// A token bucket: how much may happen at once, and how much forever. A pure state machine; times
// are of a steady clock.
#pragma once

#include <algorithm>

#include "absl/time/time.h"

namespace sluice {

class TokenBucket {
 public:
  // Begins full.
  TokenBucket(double tokens_per_second, double most_tokens, absl::Duration now)
      : rate_(tokens_per_second), most_(most_tokens), tokens_(most_tokens), at_(now) {}

  bool Has(double tokens, absl::Duration now) {
    Refill(now);
    return tokens_ >= tokens;
  }

  // Whether there are `tokens`; takes them if so.
  bool TryTake(double tokens, absl::Duration now) {
    if (!Has(tokens, now)) return false;
    tokens_ -= tokens;
    return true;
  }

  // Takes `tokens` even where there are fewer. Returns whether there were as many.
  bool Take(double tokens, absl::Duration now) {
    Refill(now);
    tokens_ = std::max(tokens_ - tokens, -most_);
    return tokens_ >= 0;
  }

  void Give(double tokens) { tokens_ = std::min(most_, tokens_ + tokens); }

  // Tokens that have been taken and not come back.
  double missing(absl::Duration now) const {
    TokenBucket then = *this;
    then.Refill(now);
    return most_ - then.tokens_;
  }

 private:
  void Refill(absl::Duration now) {
    if (now <= at_) return;
    tokens_ = std::min(most_, tokens_ + rate_ * absl::ToDoubleSeconds(now - at_));
    at_ = now;
  }

  double rate_;
  double most_;
  double tokens_;
  absl::Duration at_;
};

}  // namespace sluice
