#include "services/sampler/constraints/constrained_text.h"

#include <bit>
#include <cstring>
#include <utility>

#include "kernels/check.h"
#include "services/common/status.h"

namespace sluice {

// Of a forced text, as many are looked at: more tokens than are drafted at a time.
constexpr size_t kMostForcedBytes = 96;

// So that a mask in words of 64 bits is the same bytes as one in words of 32.
static_assert(std::endian::native == std::endian::little);

ConstrainedText::ConstrainedText(ConstraintStore::Result constraint)
    : status_(constraint.status()) {
  if (!status_.ok()) return;
  mask_.resize((*constraint)->vocabulary().mask_words());
  allowed_.resize(((*constraint)->vocabulary().size() + 31) / 32);
  matcher_.emplace(*std::move(constraint));
}

absl::StatusOr<absl::Span<const uint32_t>> ConstrainedText::Allowed(
    absl::Span<const int32_t> tokens, absl::Span<const uint32_t> within) {
  if (!status_.ok()) return status_;
  SLUICE_CHECK(tokens.size() >= num_accepted_);
  absl::Status status = Accept(tokens.subspan(num_accepted_));
  if (status.ok()) status = matcher_->FillMask(absl::MakeSpan(mask_));
  if (!status.ok()) return status;
  std::memcpy(allowed_.data(), mask_.data(), allowed_.size() * sizeof(uint32_t));
  for (size_t i = 0; i < within.size(); ++i) allowed_[i] &= within[i];
  return allowed_;
}

std::vector<int32_t> ConstrainedText::Forced(absl::Span<const int32_t> tokens, size_t max) {
  if (!status_.ok() || max == 0) return {};
  SLUICE_CHECK(tokens.size() >= num_accepted_);
  if (!Accept(tokens.subspan(num_accepted_)).ok()) return {};
  return matcher_->ForcedTokens(max).value_or(std::vector<int32_t>());
}

std::vector<int32_t> ConstrainedText::Likely(absl::Span<const int32_t> tokens, size_t max) {
  if (!status_.ok() || max == 0) return {};
  SLUICE_CHECK(tokens.size() >= num_accepted_);
  if (!Accept(tokens.subspan(num_accepted_)).ok()) return {};
  const absl::StatusOr<std::string> text = matcher_->ForcedText(kMostForcedBytes);
  if (!text.ok()) return {};
  std::vector<int32_t> likely = matcher_->constraint().vocabulary().speller().Spell(*text);
  if (likely.size() > max) likely.resize(max);
  return likely;
}

absl::Status ConstrainedText::Accept(absl::Span<const int32_t> tokens) {
  for (const int32_t token : tokens) {
    const absl::Status status = matcher_->Accept(token);
    if (!status.ok()) return Annotate(status, "the text so far does not keep the constraint");
    ++num_accepted_;
  }
  return absl::OkStatus();
}

void ConstrainedText::Truncate(size_t num_tokens) {
  if (num_tokens >= num_accepted_) return;
  // Matched before, so that they match again; what takes too much now is found by the next call.
  const std::vector<int32_t> tokens(matcher_->tokens().begin(), matcher_->tokens().end());
  const auto kept = absl::MakeSpan(tokens).first(std::min(num_tokens, tokens.size()));
  num_accepted_ = matcher_->Reset(kept).ok() ? kept.size() : 0;
  if (num_accepted_ == 0) (void)matcher_->Reset({});
}

}  // namespace sluice
