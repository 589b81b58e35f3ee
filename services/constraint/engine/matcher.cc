#include "services/constraint/engine/matcher.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "services/constraint/json/message.h"

namespace sluice {
namespace {

absl::Status TooMuchWork() {
  return absl::ResourceExhaustedError("the grammar takes too much work for one token");
}

}  // namespace

std::shared_ptr<Constraint> Constraint::Create(std::unique_ptr<Grammar> grammar,
                                               std::shared_ptr<const TokenVocabulary> vocabulary,
                                               const ConstraintLimits& limits) {
  return std::shared_ptr<Constraint>(
      new Constraint(std::move(grammar), std::move(vocabulary), limits));
}

Constraint::Constraint(std::unique_ptr<Grammar> grammar,
                       std::shared_ptr<const TokenVocabulary> vocabulary,
                       const ConstraintLimits& limits)
    : grammar_(std::move(grammar)),
      vocabulary_(std::move(vocabulary)),
      limits_(limits),
      num_exprs_(grammar_->space().size()) {
  absl::MutexLock lock(&mutex_);
  Forget();
  memory_ = grammar_->memory() + made_->automaton.memory();
}

void Constraint::Forget() {
  made_.reset();
  grammar_->space().ShrinkTo(num_exprs_);
  made_ = std::make_unique<Made>(*grammar_, *vocabulary_, limits_);
  ++generation_;
}

void Constraint::Prepare() {
  if (made_->automaton.exhausted() || made_->automaton.memory() > limits_.max_bytes) Forget();
  made_->automaton.GrantWork(limits_.max_work);
  memory_ = grammar_->memory() + made_->automaton.memory() + made_->masks.memory();
}

Matcher::Matcher(std::shared_ptr<Constraint> constraint) : constraint_(std::move(constraint)) {}

absl::StatusOr<Automaton::State> Matcher::State() {
  constraint_->Prepare();
  if (generation_ == constraint_->generation_) return states_.back();
  Automaton& automaton = constraint_->made_->automaton;
  generation_ = 0;
  states_ = {automaton.start()};
  for (const int32_t token : tokens_) {
    automaton.GrantWork(constraint_->limits_.max_work);
    states_.push_back(After(states_.back(), token));
  }
  if (automaton.exhausted()) return TooMuchWork();
  automaton.GrantWork(constraint_->limits_.max_work);
  generation_ = constraint_->generation_;
  return states_.back();
}

Automaton::State Matcher::After(Automaton::State state, int32_t token) {
  Automaton& automaton = constraint_->made_->automaton;
  for (const char c : constraint_->vocabulary_->bytes(token)) {
    if (state == Automaton::kDead) break;
    state = automaton.Step(state, static_cast<uint8_t>(c));
  }
  return state;
}

absl::Status Matcher::Accept(int32_t token) {
  absl::MutexLock lock(&constraint_->mutex_);
  const auto refuse = [&](std::string_view why) {
    return absl::InvalidArgumentError(Message("token ", token, " at ", tokens_.size(), " ", why));
  };
  const TokenVocabulary& vocabulary = *constraint_->vocabulary_;
  if (token < 0 || static_cast<size_t>(token) >= vocabulary.size())
    return refuse("is none of the vocabulary");
  if (ended_) return refuse("follows the end of the text");
  const auto state = State();
  if (!state.ok()) return state.status();
  Automaton& automaton = constraint_->made_->automaton;
  if (vocabulary.IsEnd(token)) {
    if (!automaton.IsAccepting(*state)) return refuse("ends the text too early");
    ended_ = true;
    return absl::OkStatus();
  }
  if (vocabulary.bytes(token).empty()) return refuse("has no text");
  const Automaton::State next = After(*state, token);
  if (automaton.exhausted()) return TooMuchWork();
  if (next == Automaton::kDead) return refuse("is not allowed");
  tokens_.push_back(token);
  states_.push_back(next);
  return absl::OkStatus();
}

absl::Status Matcher::Reset(absl::Span<const int32_t> tokens) {
  const size_t common = static_cast<size_t>(
      std::mismatch(tokens_.begin(), tokens_.end(), tokens.begin(), tokens.end()).first -
      tokens_.begin());
  tokens_.resize(common);
  states_.resize(std::min(states_.size(), common + 1));
  ended_ = false;
  for (const int32_t token : tokens.subspan(common))
    if (absl::Status status = Accept(token); !status.ok()) return status;
  return absl::OkStatus();
}

absl::StatusOr<const TokenMask*> Matcher::Mask() {
  const auto state = State();
  if (!state.ok()) return state.status();
  const TokenMask& mask = constraint_->made_->masks.Mask(*state);
  if (constraint_->made_->automaton.exhausted()) return TooMuchWork();
  return &mask;
}

absl::Status Matcher::FillMask(absl::Span<uint64_t> words) {
  if (ended_) {
    std::fill(words.begin(), words.end(), 0);
    return absl::OkStatus();
  }
  absl::MutexLock lock(&constraint_->mutex_);
  const auto mask = Mask();
  if (!mask.ok()) return mask.status();
  std::copy((*mask)->begin(), (*mask)->end(), words.begin());
  return absl::OkStatus();
}

absl::StatusOr<bool> Matcher::MayEnd() {
  if (ended_) return true;
  absl::MutexLock lock(&constraint_->mutex_);
  const auto state = State();
  if (!state.ok()) return state.status();
  return constraint_->made_->automaton.IsAccepting(*state);
}

absl::StatusOr<std::string> Matcher::ForcedText(size_t max) {
  std::string text;
  if (ended_) return text;
  absl::MutexLock lock(&constraint_->mutex_);
  absl::StatusOr<Automaton::State> state = State();
  if (!state.ok()) return state.status();
  Automaton& automaton = constraint_->made_->automaton;
  while (text.size() < max && !automaton.IsAccepting(*state) &&
         automaton.LiveBytes(*state).count() == 1) {
    const auto byte = static_cast<uint8_t>(automaton.LiveBytes(*state)._Find_first());
    *state = automaton.Step(*state, byte);
    if (automaton.exhausted()) return TooMuchWork();
    text.push_back(static_cast<char>(byte));
  }
  return text;
}

absl::StatusOr<std::vector<int32_t>> Matcher::ForcedTokens(size_t max) {
  Matcher ahead = *this;
  std::vector<int32_t> forced;
  while (forced.size() < max && !ahead.ended_) {
    int32_t only = -1;
    {
      absl::MutexLock lock(&constraint_->mutex_);
      const auto mask = ahead.Mask();
      if (!mask.ok()) return mask.status();
      int count = 0;
      for (size_t i = 0; i < (*mask)->size() && count < 2; ++i) {
        const uint64_t word = (**mask)[i];
        if (word == 0) continue;
        count += std::popcount(word);
        only = static_cast<int32_t>(i * 64) + std::countr_zero(word);
      }
      if (count != 1) break;
    }
    if (absl::Status status = ahead.Accept(only); !status.ok()) return status;
    forced.push_back(only);
  }
  return forced;
}

}  // namespace sluice
