#include "orchestrator/drafts/speculation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "orchestrator/drafts/draft_lengths.h"
#include "orchestrator/drafts/expected_drafter.h"
#include "orchestrator/drafts/ngram_drafter.h"

namespace sluice {
namespace {

// Longer drafts of likely tokens win little: at a chance of 0.9 the ninth is right in 0.4 of cases.
constexpr int32_t kMostProposed = 8;
// Nearly all of a forced text's are right.
constexpr int32_t kMostLikely = 16;
// Tokens at a time of what is sure.
constexpr int32_t kMostForced = 32;
// Of all proposals together, so that choosing stays a matter of microseconds.
constexpr int32_t kMostPieces = 256;
// A token in a sequence's own record, and in that of all.
constexpr double kOwnWeight = 1.0 / 16;
constexpr double kCommonWeight = 1.0 / 256;
// Less likely ones are not worth looking at.
constexpr double kLeastChance = 0.02;
// Drafts must win so much beside the same step without; and beside going ahead.
constexpr double kMargin = 0.02;
constexpr double kMarginOverAhead = 0.05;
// Sequences that had a token in the last so many steps are at work.
constexpr int64_t kAtWork = 4;
// So often, for so many steps, sequences go ahead though drafts win: what that takes changes.
constexpr int64_t kProbePeriod = 512;
constexpr int64_t kProbeSteps = 2;

}  // namespace

// ---- Sequences ----

Speculation::State& Speculation::StateOf(const SequenceSpec& spec, int32_t num_prompt) {
  const auto [it, added] = states_.try_emplace(spec.id);
  State& state = it->second;
  if (!added) return state;
  state.max_drafts = spec.max_drafts;
  state.chances = chances_;
  if (options_.mode == DraftMode::kNone) return state;
  if (spec.expected_tokens != nullptr) {
    state.sources.push_back(
        {std::make_unique<ExpectedDrafter>(num_prompt, spec.expected_tokens), {}});
  }
  state.sources.push_back({std::make_unique<NgramDrafter>(), {}});
  if (!spec.use_prefix_cache) return state;
  state.shared = shared_.TextOf(spec.tenant, absl::StrCat(spec.cache_salt, "\n", spec.adapter));
  state.sources.push_back({std::make_unique<SharedDrafter>(state.shared), {}});
  return state;
}

void Speculation::OnTokens(const SequenceSpec& spec, int32_t num_prompt,
                           absl::Span<const TokenId> tokens) {
  State& state = StateOf(spec, num_prompt);
  const absl::Span<const TokenId> came = tokens.subspan(state.num_tokens);
  Judge(state, came);
  if (ModelDrafter* const model = rounds_.model(); model != nullptr) {
    JudgeModel(state, model->ProposalOf(spec.id), came);
    model->OnTokens(spec, num_prompt, tokens);
  }
  state.num_tokens = static_cast<int32_t>(tokens.size());
  state.latest = num_steps_;
  if (ForcedOf(state, state.num_tokens).empty()) Forget(state);
  Propose(state, tokens);
  waits_.reset();
}

void Speculation::Forget(State& state) {
  if (state.forced.empty()) return;
  state.forced.clear();
  --num_forced_;
}

void Speculation::Judge(State& state, absl::Span<const TokenId> came) {
  for (const Source& source : state.sources) Judge(state, source.proposal, came);
  Judge(state, state.likely, came);
  state.likely.clear();
}

void Speculation::Judge(State& state, absl::Span<const DraftToken> proposal,
                        absl::Span<const TokenId> came) {
  for (size_t i = 0; i < came.size() && i < proposal.size(); ++i) {
    const bool right = proposal[i].token == came[i];
    JudgeOne(state, proposal[i], right);
    if (!right) break;
  }
}

void Speculation::JudgeOne(State& state, const DraftToken& proposed, bool right) {
  state.chances.Count(proposed.kind, right, kOwnWeight);
  chances_.Count(proposed.kind, right, kCommonWeight);
}

void Speculation::JudgeModel(State& state, absl::Span<const DraftToken> proposal,
                             absl::Span<const TokenId> came) {
  for (size_t i = 0; i < came.size() && i < proposal.size(); ++i) {
    const bool right = proposal[i].token == came[i];
    JudgeOne(state, proposal[i], right);
    JudgeOne(state, {.kind = DraftKind::kModelAny}, right);
    if (!right) break;
  }
}

bool Speculation::GoesOn(SequenceId sequence, absl::Span<const DraftToken> proposal) const {
  const auto found = states_.find(sequence);
  return found != states_.end() && rounds_.GoesOn(proposal, found->second.chances);
}

double Speculation::ExpectedOf(const State& state, absl::Span<const DraftToken> proposal) {
  double expected = 0, all_right = 1;
  for (const DraftToken& token : proposal) {
    all_right *= state.chances.Of(token.kind);
    expected += all_right;
  }
  return expected;
}

void Speculation::Propose(State& state, absl::Span<const TokenId> tokens) {
  const int32_t most = std::min(state.max_drafts, kMostProposed);
  state.proposal.clear();
  double best = 0;
  for (Source& source : state.sources) {
    source.proposal.clear();
    if (hopeless_) continue;
    source.drafter->Learn(tokens);
    source.drafter->Propose(tokens, most, source.proposal);
    const double expected = ExpectedOf(state, source.proposal);
    if (expected <= best) continue;
    best = expected;
    state.proposal = source.proposal;
  }
}

void Speculation::Consider(State& state, absl::Span<const DraftToken> proposal) {
  if (ExpectedOf(state, proposal) <= ExpectedOf(state, state.proposal)) return;
  state.proposal.assign(proposal.begin(), proposal.end());
}

void Speculation::OnEnd(SequenceId sequence, absl::Span<const TokenId> tokens) {
  const auto found = states_.find(sequence);
  if (found == states_.end()) return;
  Forget(found->second);
  if (found->second.shared != nullptr && !hopeless_) found->second.shared->Add(tokens);
  states_.erase(found);
  rounds_.OnEnd(sequence);
  if (rounds_.model() != nullptr) rounds_.model()->OnEnd(sequence);
}

void Speculation::OnForced(SequenceId sequence, int32_t position, std::vector<TokenId> tokens) {
  const auto found = states_.find(sequence);
  if (found == states_.end()) return;
  Forget(found->second);
  found->second.forced_at = position;
  found->second.forced = std::move(tokens);
  ++num_forced_;
}

void Speculation::OnLikely(SequenceId sequence, int32_t position,
                           absl::Span<const TokenId> tokens) {
  if (options_.mode == DraftMode::kNone || hopeless_) return;
  const auto found = states_.find(sequence);
  if (found == states_.end() || found->second.num_tokens != position) return;
  State& state = found->second;
  state.likely.clear();
  const size_t most = std::min(state.max_drafts, kMostLikely);
  for (size_t i = 0; i < tokens.size() && i < most; ++i) {
    const bool last = i + 1 == tokens.size();
    state.likely.push_back({tokens[i], last ? DraftKind::kSpelledEnd : DraftKind::kSpelled});
  }
  if (ExpectedOf(state, state.likely) <= ExpectedOf(state, state.proposal)) return;
  state.proposal = state.likely;
  waits_.reset();
}

absl::Span<const TokenId> Speculation::ForcedOf(const State& state, int32_t num_tokens) {
  const int32_t since = num_tokens - state.forced_at;
  if (since < 0 || since >= std::ssize(state.forced)) return {};
  return absl::MakeConstSpan(state.forced).subspan(since);
}

// ---- Steps ----

void Speculation::OnStep() {
  ++num_steps_;
  rounds_.OnStep();
  waits_.reset();
}

bool Speculation::IsHopeless(int32_t num_decodes) const {
  const int32_t most = kMostProposed * num_decodes;
  for (int32_t rows = num_decodes + 1; rows <= num_decodes + most; rows += (rows + 7) / 8) {
    const double rate = rows / steps_->Expected(rows);
    if (rate > num_decodes / steps_->Expected(num_decodes) * (1 + kMargin)) return false;
  }
  return true;
}

std::vector<double> Speculation::ChancesOf(const State& state, int32_t most) {
  std::vector<double> chances;
  double all_right = 1;
  for (const DraftToken& token : state.proposal) {
    all_right *= state.chances.Of(token.kind);
    if (std::ssize(chances) >= most || all_right < kLeastChance) break;
    chances.push_back(all_right);
  }
  return chances;
}

bool Speculation::AllWait(int32_t num_running) {
  if (always()) {
    const bool guesses = options_.mode != DraftMode::kNone || rounds_.model() != nullptr;
    return guesses && !states_.empty();
  }
  if (!waits_.has_value()) {
    hopeless_ = steps_->knows_rows() && IsHopeless(num_running);
    waits_ = DecideToWait(num_running);
  }
  return *waits_;
}

bool Speculation::IsAtWork(const State& state) const {
  return num_steps_ - state.latest <= kAtWork;
}

double Speculation::RateOfProposals(int32_t num_running) const {
  const int32_t most_each = std::max(1, kMostPieces / num_running);
  std::vector<std::vector<double>> chances;
  for (const auto& [id, state] : states_) {
    if (!IsAtWork(state) || state.proposal.empty()) continue;
    chances.push_back(ChancesOf(state, most_each));
  }
  if (chances.empty()) return 0;
  return ChooseLengths(num_running, chances, kMostPieces, kMargin,
                       [this](int32_t rows) { return steps_->Expected(rows); })
      .rate;
}

std::vector<RoundCandidate> Speculation::CandidatesOfRound() const {
  std::vector<RoundCandidate> candidates;
  if (rounds_.model() == nullptr) return candidates;
  for (const auto& [id, state] : states_) {
    if (!IsAtWork(state)) continue;
    candidates.push_back({.sequence = id,
                          .chance = state.chances.Of(DraftKind::kModelAny),
                          .most = std::min(state.max_drafts, ModelRounds::kMostTokens)});
  }
  // Not in the order of the table, which differs from run to run.
  std::sort(candidates.begin(), candidates.end(),
            [](const auto& a, const auto& b) { return a.sequence < b.sequence; });
  return candidates;
}

bool Speculation::DecideToWait(int32_t num_running) {
  const bool is_probing_ahead = num_steps_ % kProbePeriod < kProbeSteps;
  if (states_.empty() || num_running < 1 || is_probing_ahead || hopeless_ ||
      !steps_->knows_rows()) {
    return rounds_.DecideAgainst();
  }
  const double rate_ahead = num_running / steps_->ExpectedAhead(num_running);
  const double rate = RateOfProposals(num_running);
  const bool round = rounds_.Decide(
      num_running, CandidatesOfRound(), [this](int32_t rows) { return steps_->Expected(rows); },
      std::max(rate, rate_ahead));
  return round || rate > rate_ahead * (1 + kMarginOverAhead);
}

bool Speculation::Waits(SequenceId sequence) {
  if (num_forced_ == 0) return false;
  const auto found = states_.find(sequence);
  // With one alone nothing would be won: going ahead chooses it as soon.
  return found != states_.end() && ForcedOf(found->second, found->second.num_tokens).size() > 1;
}

// ---- Drafting ----

bool Speculation::DraftForced(const State& state, DraftCandidate& candidate, int32_t& left) {
  const auto forced = ForcedOf(state, static_cast<int32_t>(candidate.tokens.size()));
  if (forced.empty()) return false;
  const auto count = std::min<ptrdiff_t>({std::ssize(forced), candidate.most, left, kMostForced});
  candidate.draft.assign(forced.begin(), forced.begin() + count);
  left -= static_cast<int32_t>(count);
  return true;
}

std::vector<int32_t> Speculation::FullLengths(absl::Span<const Guess> guesses, int32_t most) {
  std::vector<int32_t> lengths;
  for (const Guess& guess : guesses) {
    const auto size = static_cast<int32_t>(guess.state->proposal.size());
    lengths.push_back(std::min({size, guess.candidate->most, most}));
    most -= lengths.back();
  }
  return lengths;
}

std::vector<int32_t> Speculation::PayingLengths(int32_t num_decodes,
                                                absl::Span<const Guess> guesses,
                                                int32_t most) const {
  if (!steps_->knows_rows() || IsHopeless(num_decodes)) return std::vector<int32_t>(guesses.size());
  const int32_t most_each = std::max(1, kMostPieces / num_decodes);
  std::vector<std::vector<double>> chances;
  for (const Guess& guess : guesses) {
    chances.push_back(ChancesOf(*guess.state, std::min(guess.candidate->most, most_each)));
  }
  return ChooseLengths(num_decodes, chances, most, kMargin,
                       [this](int32_t rows) { return steps_->Expected(rows); })
      .of;
}

void Speculation::Draft(const DraftRoom& room, absl::Span<DraftCandidate> candidates) {
  int32_t left = room.tokens;
  std::vector<Guess> guesses;
  ModelDrafter* const model = rounds_.model();
  for (DraftCandidate& candidate : candidates) {
    const auto found = states_.find(candidate.sequence);
    if (found == states_.end()) continue;
    State& state = found->second;
    if (model != nullptr) Consider(state, model->ProposalOf(candidate.sequence));
    if (DraftForced(state, candidate, left) || state.proposal.empty()) continue;
    guesses.push_back({.candidate = &candidate, .state = &state});
  }
  if (guesses.empty() || room.beside_prompts) return;
  const std::vector<int32_t> lengths =
      always() ? FullLengths(guesses, left) : PayingLengths(room.num_decodes, guesses, left);
  for (size_t i = 0; i < guesses.size(); ++i) {
    for (int32_t j = 0; j < lengths[i]; ++j) {
      guesses[i].candidate->draft.push_back(guesses[i].state->proposal[j].token);
    }
  }
}

}  // namespace sluice
