#include "orchestrator/drafts/model_rounds.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace sluice {
namespace {

// A round must win so much beside going on without.
constexpr double kMarginOfRounds = 0.05;
// Tokens of a probe: the first may come with several positions to compute, the others show what a
// step of the model takes.
constexpr int32_t kProbeTokens = 4;
// Steps of the served model between probes, at first and at most.
constexpr int64_t kFirstPeriod = 16;
constexpr int64_t kLongestPeriod = 2048;
// A draft is waited for so many times as long as it should take, and at least so long.
constexpr double kPatience = 3;
constexpr absl::Duration kLeastPatience = absl::Milliseconds(2);

}  // namespace

absl::Duration ModelRounds::NextTimeout() const {
  absl::Duration next = absl::InfiniteDuration();
  for (const auto& [sequence, asked] : asked_) {
    if (asked.waits && asked.until > now_) next = std::min(next, asked.until);
  }
  return next;
}

bool ModelRounds::Waits(SequenceId sequence) const {
  const auto found = asked_.find(sequence);
  return found != asked_.end() && found->second.waits && now_ < found->second.until &&
         model_->IsAtWork(sequence);
}

bool ModelRounds::AnyWaits() const {
  return std::any_of(asked_.begin(), asked_.end(),
                     [this](const auto& entry) { return Waits(entry.first); });
}

bool ModelRounds::DecideAgainst() {
  length_ = 0;
  return AnyWaits();
}

// ---- Deciding ----

ModelRounds::Choice ModelRounds::BestLength(int32_t num_decodes,
                                            absl::Span<const RoundCandidate> candidates,
                                            const CostOfRows& cost) const {
  Choice best;
  if (!knows_steps()) return best;
  std::vector<double> all_right(candidates.size(), 1.0);
  double expected = num_decodes;
  int32_t rows = num_decodes;
  const double draft_step = StepOf(static_cast<int32_t>(candidates.size()));
  for (int32_t length = 1; length <= kMostTokens; ++length) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (candidates[i].most < length) continue;
      all_right[i] *= candidates[i].chance;
      expected += all_right[i];
      ++rows;
    }
    const double rate = expected / (cost(rows) + length * draft_step);
    if (rate > best.rate) best = {.length = length, .rate = rate};
  }
  return best;
}

bool ModelRounds::Decide(int32_t num_decodes, absl::Span<const RoundCandidate> candidates,
                         const CostOfRows& cost, double rate) {
  length_ = 0;
  probed_.reset();
  if (model_ == nullptr || candidates.empty()) return AnyWaits();
  step_time_ = absl::Seconds(cost(num_decodes));
  const double enough = rate * (1 + kMarginOfRounds);
  const bool would_pay = !rests_ && BestLength(num_decodes, candidates, cost).rate > enough;
  const std::vector<RoundCandidate> close = CloseOf(candidates, would_pay);
  const Choice choice = would_pay ? BestLength(num_decodes, close, cost) : Choice();
  if (choice.rate > enough && !close.empty()) {
    length_ = choice.length;
    rate_ = choice.rate;
    num_asked_ = static_cast<int32_t>(close.size());
    probe_period_ = 0;
    next_probe_ = num_steps_ + kFirstPeriod;
    return true;
  }
  if (num_steps_ < next_probe_) return AnyWaits();
  if (close.empty()) {
    model_->CatchUp(candidates.front().sequence);
    return AnyWaits();
  }
  probed_ = close.front().sequence;
  length_ = kProbeTokens;
  rate_ = 0;
  num_asked_ = 1;
  return true;
}

// Those that can be asked, and those that have been. The others are brought close if they are wanted.
std::vector<RoundCandidate> ModelRounds::CloseOf(absl::Span<const RoundCandidate> candidates,
                                                 bool are_wanted) {
  std::vector<RoundCandidate> close;
  for (const RoundCandidate& candidate : candidates) {
    if (model_->IsClose(candidate.sequence) || Waits(candidate.sequence)) {
      close.push_back(candidate);
    } else if (are_wanted) {
      model_->CatchUp(candidate.sequence);
    }
  }
  return close;
}

void ModelRounds::PutOffProbe() {
  probe_period_ = std::clamp(2 * probe_period_, kFirstPeriod, kLongestPeriod);
  next_probe_ = num_steps_ + probe_period_;
}

// ---- Waiting ----

absl::Duration ModelRounds::Patience() const {
  const absl::Duration step =
      knows_steps() ? absl::Seconds(StepOf(std::max(num_asked_, 1))) : step_time_;
  return std::max(kLeastPatience, kPatience * length_ * step);
}

bool ModelRounds::Holds(SequenceId sequence, int32_t num_tokens) {
  if (model_ == nullptr) return false;
  if (policy_ == DraftPolicy::kAlways) return HoldsAlways(sequence, num_tokens);
  const auto found = asked_.find(sequence);
  if (found != asked_.end() && found->second.num_tokens == num_tokens) {
    if (!found->second.waits) return false;
    if (Waits(sequence)) {
      last_wait_ = now_;
      return true;
    }
    found->second.waits = false;
    if (!model_->IsAtWork(sequence)) {
      if (!model_->ProposalOf(sequence).empty()) rests_ = false;
    } else {
      rests_ = true;
      PutOffProbe();
    }
    return false;
  }
  const bool is_asked = length_ > 0 && (!probed_.has_value() || *probed_ == sequence);
  if (!is_asked || !model_->Begin(sequence, length_)) return false;
  if (probed_.has_value()) PutOffProbe();
  const bool waits = model_->IsAtWork(sequence);
  if (waits) last_wait_ = now_;
  asked_[sequence] = {.num_tokens = num_tokens, .until = now_ + Patience(), .waits = waits};
  return waits;
}

bool ModelRounds::HoldsAlways(SequenceId sequence, int32_t num_tokens) {
  Asked& asked = asked_[sequence];
  if (asked.num_tokens != num_tokens) {
    asked = {.num_tokens = num_tokens, .until = now_ + kMostPatience, .waits = true};
  }
  if (!asked.waits) return false;
  if (!asked.begun) asked.begun = model_->Begin(sequence, kMostTokens);
  if (!asked.begun) model_->CatchUp(sequence);
  asked.waits = now_ < asked.until && model_->IsComputing(sequence);
  if (asked.waits) last_wait_ = now_;
  return asked.waits;
}

// In the time that the step takes, the round's rate would bring as many tokens.
bool ModelRounds::GoesOn(absl::Span<const DraftToken> proposal, const Chances& chances) const {
  if (policy_ == DraftPolicy::kAlways || !knows_steps()) return true;
  double gain = chances.Of(DraftKind::kModelAny);
  for (const DraftToken& token : proposal) gain *= chances.Of(token.kind);
  const int32_t asked = std::max(num_asked_, 1);
  return gain * asked > rate_ * StepOf(asked);
}

}  // namespace sluice
