#include "orchestrator/beams/beam_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "kernels/check.h"

namespace sluice {
namespace {

bool RanksBefore(const BeamSearch::Expansion& a, const BeamSearch::Expansion& b) {
  return std::tuple(-a.order, a.token, a.parent) < std::tuple(-b.order, b.token, b.parent);
}

double Log1mExp(double x) {  // of x <= 0
  return x > -0.6931471805599453 ? std::log(-std::expm1(x)) : std::log1p(-std::exp(x));
}

}  // namespace

int32_t NumCandidates(const BeamOptions& options) {
  if (options.stochastic) return options.width;
  const auto num_stops = static_cast<int32_t>(options.stop_tokens.size());
  return 2 * options.width + std::max(num_stops - 1, 0);
}

double ConditionedGumbel(double parent, double largest, double own) {
  if (own >= largest) return parent;
  const double v = parent - own + Log1mExp(own - largest);
  return parent - std::max(0.0, v) - std::log1p(std::exp(-std::abs(v)));
}

BeamSearch::BeamSearch(BeamOptions options)
    : options_(std::move(options)),
      stop_tokens_(options_.stop_tokens.begin(), options_.stop_tokens.end()),
      live_(1) {
  SLUICE_CHECK(1 <= options_.num_return && options_.num_return <= options_.width &&
               options_.max_length >= 1);
}

void BeamSearch::Rank(absl::Span<const std::vector<BeamCandidate>> candidates) {
  SLUICE_CHECK(!over() && candidates.size() == live_.size());
  ranked_.clear();
  for (size_t i = 0; i < live_.size(); ++i) {
    const LiveBeam& beam = live_[i];
    double largest = -std::numeric_limits<double>::infinity();
    for (const BeamCandidate& candidate : candidates[i]) {
      largest = std::max(largest, beam.sum + candidate.perturbed);
    }
    for (const BeamCandidate& candidate : candidates[i]) {
      if (std::isinf(candidate.logprob)) continue;  // it can't come
      const double sum = beam.sum + candidate.logprob;
      ranked_.push_back(
          {.parent = static_cast<int32_t>(i),
           .token = candidate.token,
           .logprob = candidate.logprob,
           .sum = sum,
           .order = options_.stochastic
                        ? ConditionedGumbel(beam.perturbed, largest, beam.sum + candidate.perturbed)
                        : sum,
           .judged = !options_.judges || stop_tokens_.contains(candidate.token),
           .ends = stop_tokens_.contains(candidate.token)});
    }
  }
  std::sort(ranked_.begin(), ranked_.end(), RanksBefore);
}

// Those that would be live or finished if all that is not known went on: the walk comes no further
// than that.
std::vector<int32_t> BeamSearch::ToJudge() const {
  std::vector<int32_t> unknown;
  int32_t num_live = 0;
  for (size_t i = 0; i < ranked_.size() && num_live < options_.width; ++i) {
    if (!ranked_[i].judged) unknown.push_back(static_cast<int32_t>(i));
    if (!ranked_[i].ends) ++num_live;
  }
  return unknown;
}

void BeamSearch::Judge(int32_t index, bool ends) {
  ranked_[index].judged = true;
  ranked_[index].ends = ends;
}

void BeamSearch::Advance() {
  if (options_.stochastic) {
    AdvanceByPerturbed();
  } else {
    AdvanceBySum();
  }
  ranked_.clear();
  if (over()) return;
  if (length() == options_.max_length) {
    FinishLive();
  } else if (IsSettled()) {
    live_.clear();
  }
}

void BeamSearch::AdvanceBySum() {
  std::vector<LiveBeam> next;
  for (int32_t rank = 0; rank < std::ssize(ranked_) && std::ssize(next) < options_.width; ++rank) {
    const Expansion& expansion = ranked_[rank];
    if (!expansion.ends) {
      next.push_back({.node = Grow(expansion), .sum = expansion.sum, .parent = expansion.parent});
    } else if (rank < options_.width) {
      Finish(expansion, Grow(expansion), EndOf(expansion));
    }
  }
  live_ = std::move(next);
}

// The first `width` of what has ended and what goes on.
void BeamSearch::AdvanceByPerturbed() {
  std::vector<LiveBeam> next;
  const std::vector<FinishedBeam> before = std::exchange(finished_, {});
  auto kept = before.begin();
  auto expansion = ranked_.begin();
  for (int32_t i = 0; i < options_.width; ++i) {
    const bool is_kept =
        kept != before.end() && (expansion == ranked_.end() || kept->score >= expansion->order);
    if (is_kept) {
      finished_.push_back(*kept++);
    } else if (expansion == ranked_.end()) {
      break;
    } else {
      const BeamNode node = Grow(*expansion);
      if (expansion->ends) {
        finished_.push_back({node, expansion->sum, expansion->order, EndOf(*expansion)});
      } else {
        next.push_back({.node = node,
                        .sum = expansion->sum,
                        .perturbed = expansion->order,
                        .parent = expansion->parent});
      }
      ++expansion;
    }
  }
  live_ = std::move(next);
}

BeamEnd BeamSearch::EndOf(const Expansion& expansion) const {
  return stop_tokens_.contains(expansion.token) ? BeamEnd::kStopToken : BeamEnd::kStopString;
}

BeamNode BeamSearch::Grow(const Expansion& expansion) {
  const BeamNode parent = live_[expansion.parent].node;
  nodes_.push_back({.parent = parent,
                    .token = expansion.token,
                    .logprob = expansion.logprob,
                    .beam_before = expansion.parent,
                    .length = LengthOf(parent) + 1});
  return num_nodes() - 1;
}

// What comes too late among equals, or is worse than all that may be kept, goes.
void BeamSearch::Finish(const Expansion& expansion, BeamNode node, BeamEnd end) {
  const double score = expansion.sum / std::pow(LengthOf(node), options_.length_penalty);
  const auto place =
      std::find_if(finished_.begin(), finished_.end(),
                   [score](const FinishedBeam& other) { return other.score < score; });
  finished_.insert(place, {.node = node, .sum = expansion.sum, .score = score, .end = end});
  if (std::ssize(finished_) > options_.width) finished_.pop_back();
}

void BeamSearch::FinishLive() {
  for (const LiveBeam& beam : std::exchange(live_, {})) {
    if (!options_.stochastic) {
      Finish({.sum = beam.sum}, beam.node, BeamEnd::kLength);
      continue;
    }
    const auto place =
        std::find_if(finished_.begin(), finished_.end(),
                     [&beam](const FinishedBeam& other) { return other.score < beam.perturbed; });
    finished_.insert(place, {beam.node, beam.sum, beam.perturbed, BeamEnd::kLength});
  }
}

bool BeamSearch::IsSettled() const {
  if (options_.stochastic || std::ssize(finished_) < options_.width) return false;
  if (options_.early_stopping == EarlyStopping::kAtOnce) return true;
  const bool may_grow =
      options_.early_stopping == EarlyStopping::kNever && options_.length_penalty > 0;
  const double best_length = may_grow ? options_.max_length : length();
  const double attainable = live_.front().sum / std::pow(best_length, options_.length_penalty);
  return finished_.back().score >= attainable;
}

std::vector<FinishedBeam> BeamSearch::Best() const {
  const auto count = std::min<ptrdiff_t>(options_.num_return, std::ssize(finished_));
  return {finished_.begin(), finished_.begin() + count};
}

std::vector<BeamNode> BeamSearch::PathTo(BeamNode node, int32_t from) const {
  std::vector<BeamNode> path(std::max(LengthOf(node) - from, 0));
  for (auto place = path.rbegin(); place != path.rend(); ++place) {
    *place = node;
    node = nodes_[node].parent;
  }
  return path;
}

BeamNode BeamSearch::CommonOf(BeamNode a, BeamNode b) const {
  while (a != b) {
    if (LengthOf(a) < LengthOf(b)) std::swap(a, b);
    a = nodes_[a].parent;
  }
  return a;
}

BeamNode BeamSearch::Common() const {
  std::optional<BeamNode> common;
  const auto add = [&](BeamNode node) {
    common = common.has_value() ? CommonOf(*common, node) : node;
  };
  for (const LiveBeam& beam : live_) add(beam.node);
  for (const FinishedBeam& beam : Best()) add(beam.node);
  return common.value_or(kPrompt);
}

}  // namespace sluice
