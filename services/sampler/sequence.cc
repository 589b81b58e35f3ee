#include "services/sampler/sequence.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace sluice {
namespace {

// A penalty that grows without bound stays a number: DRY discourages, it forbids nothing.
constexpr double kLargestPenalty = 1e30;

class EditList {
 public:
  LogitEdit& Of(int32_t id) {
    LogitEdit& edit = edits_[id];
    edit.id = id;
    return edit;
  }
  void Forbid(int32_t id) { Of(id).bias = -HUGE_VALF; }

  std::vector<LogitEdit> Sorted() const {
    std::vector<LogitEdit> sorted;
    sorted.reserve(edits_.size());
    for (const auto& [id, edit] : edits_) sorted.push_back(edit);
    std::sort(sorted.begin(), sorted.end(),
              [](const LogitEdit& a, const LogitEdit& b) { return a.id < b.id; });
    return sorted;
  }

 private:
  absl::flat_hash_map<int32_t, LogitEdit> edits_;
};

void AddPenalties(const SamplingOptions& options, const SequencePast& past, EditList& edits) {
  const bool repetition = options.repetition_penalty != 1;
  const bool counted = options.presence_penalty != 0 || options.frequency_penalty != 0;
  if (!repetition && !counted) return;
  for (const auto& [id, count] : past.counts()) {
    if (!repetition && count.generated == 0) continue;
    LogitEdit& edit = edits.Of(id);
    edit.repeated = repetition;
    if (count.generated > 0) {
      edit.penalty = options.presence_penalty +
                     options.frequency_penalty * static_cast<float>(count.generated);
    }
  }
}

void AddDry(const SamplingOptions& options,
            const absl::flat_hash_map<int32_t, int32_t>& repeated_runs, EditList& edits) {
  for (const auto& [id, length] : repeated_runs) {
    if (length < options.dry_allowed_length) continue;
    const double penalty = options.dry_multiplier *
                           std::pow(double{options.dry_base}, length - options.dry_allowed_length);
    LogitEdit& edit = edits.Of(id);
    edit.penalty = static_cast<float>(edit.penalty + std::min(penalty, kLargestPenalty));
  }
}

// The last token of each bad word whose others the sequence ends with.
void ForbidBadWords(const SamplingOptions& options, absl::Span<const int32_t> tokens,
                    EditList& edits) {
  for (const std::vector<int32_t>& word : options.bad_words_ids) {
    const size_t known = word.size() - 1;
    if (known > tokens.size()) continue;
    if (std::equal(word.begin(), word.end() - 1, tokens.end() - static_cast<ptrdiff_t>(known))) {
      edits.Forbid(word.back());
    }
  }
}

// As SampleRow::allowed.
std::vector<uint32_t> MaskOf(const SamplingOptions& options, int64_t vocabulary_size) {
  const std::vector<int32_t>& allowed = options.allowed_token_ids;
  const std::vector<int32_t>& banned = options.banned_token_ids;
  if (allowed.empty() && banned.empty()) return {};
  std::vector<uint32_t> mask((vocabulary_size + 31) / 32, allowed.empty() ? ~uint32_t{0} : 0);
  for (const int32_t id : allowed) mask[id / 32] |= uint32_t{1} << (id % 32);
  for (const int32_t id : banned) mask[id / 32] &= ~(uint32_t{1} << (id % 32));
  return mask;
}

}  // namespace

SamplerSequence::SamplerSequence(SamplingOptions options, std::vector<int32_t> stop_tokens,
                                 int32_t num_prompt, int64_t vocabulary_size,
                                 std::optional<ConstrainedText> text)
    : options_(std::move(options)),
      stop_tokens_(std::move(stop_tokens)),
      allowed_(MaskOf(options_, vocabulary_size)),
      past_(num_prompt),
      text_(std::move(text)) {
  if (options_.no_repeat_ngram_size > 0) ngram_ends_.emplace(options_.no_repeat_ngram_size);
  if (options_.dry_multiplier > 0) {
    const std::vector<int32_t>& breakers = options_.dry_breaker_token_ids;
    repeated_runs_.emplace(absl::flat_hash_set<int32_t>(breakers.begin(), breakers.end()));
  }
}

void SamplerSequence::Append(int32_t token) {
  past_.Append(token);
  if (ngram_ends_.has_value()) ngram_ends_->OnAppend(past_.tokens());
  if (repeated_runs_.has_value()) repeated_runs_->OnAppend(past_.tokens());
}

void SamplerSequence::Truncate(int32_t size) {
  if (size == past_.size()) return;
  if (ngram_ends_.has_value()) ngram_ends_->OnTruncate(past_.tokens(), size);
  if (repeated_runs_.has_value()) repeated_runs_->OnTruncate(past_.tokens(), size);
  past_.Truncate(size);
}

void SamplerSequence::AskForMasks(std::vector<int32_t> drafts, int32_t max_following) {
  const absl::Span<const int32_t> tokens = past_.generated();
  text_->Ask({.tokens = {tokens.begin(), tokens.end()},
              .drafts = std::move(drafts),
              .max_following = max_following});
}

std::vector<LogitEdit> SamplerSequence::Edits() {
  EditList edits;
  for (const TokenBias& bias : options_.logit_bias) edits.Of(bias.id).bias = bias.bias;
  ForbidBadWords(options_, past_.tokens(), edits);
  if (past_.num_generated() < options_.min_tokens) {
    for (const int32_t id : stop_tokens_) edits.Forbid(id);
  }
  AddPenalties(options_, past_, edits);
  if (ngram_ends_.has_value()) {
    for (const int32_t id : ngram_ends_->Find()) edits.Forbid(id);
  }
  if (repeated_runs_.has_value()) {
    AddDry(options_, repeated_runs_->Find(past_.tokens(), options_.dry_range), edits);
  }
  return edits.Sorted();
}

}  // namespace sluice
