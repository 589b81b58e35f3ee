// Which sequences the scheduler accepts.
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "orchestrator/scheduler/scheduler.h"

namespace sluice {

absl::Status Scheduler::CheckSpec(const SequenceSpec& spec) const {
  if (table_.Find(spec.id) != nullptr) {
    return absl::AlreadyExistsError(absl::StrCat("sequence ", spec.id, " is alive"));
  }
  if (spec.prompt.empty()) {
    return absl::InvalidArgumentError("the prompt is empty; it needs at least 1 token");
  }
  const bool generates = !spec.score_prompt && spec.pooled == PooledRows::kNone;
  const int32_t least = generates ? 1 : 0;
  if (spec.max_new_tokens < least) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_new_tokens is ", spec.max_new_tokens, "; at least ", least, " is accepted",
        generates ? " (0 only where the prompt is scored or embedded)" : ""));
  }
  if (const auto reason = AlreadyFinished(spec)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the ", spec.resumed_tokens.size(), " resumed tokens have ended the sequence already (",
        FinishReasonName(*reason), "; max_new_tokens is ", spec.max_new_tokens, ")"));
  }
  if (!spec.adapter.empty() && options_.num_adapter_slots == 0) {
    return absl::InvalidArgumentError("the sequence has an adapter; there are no slots for any");
  }
  if (absl::Status status = CheckSize(spec); !status.ok()) return status;
  if (spec.in_one_piece && (spec.max_new_tokens > 0 || spec.use_prefix_cache)) {
    return absl::InvalidArgumentError(
        "a sequence in one piece generates nothing and uses no prefix cache");
  }
  if (spec.in_one_piece && std::ssize(spec.prompt) > options_.max_tokens_per_step) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a text of ", spec.prompt.size(), " tokens is computed in one step, which has room for ",
        options_.max_tokens_per_step, " (--max_step_tokens)"));
  }
  const int32_t filled = FilledSource(spec.source_positions);
  if (spec.source_positions < 0 || (filled > 0 && std::ssize(spec.prompt) <= filled)) {
    return absl::InvalidArgumentError(absl::StrCat("a source of ", spec.source_positions,
                                                   " positions in a prompt of ", spec.prompt.size(),
                                                   "; a text begins behind it"));
  }
  if (filled > options_.max_tokens_per_step) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a source of ", spec.source_positions,
        " tokens is computed in one step, which has room for ",
        options_.max_tokens_per_step / kSourceUnit * kSourceUnit, " (--max_step_tokens)"));
  }
  if (!spec.prompt_of.has_value()) return absl::OkStatus();
  const SequenceState* sibling = table_.Find(*spec.prompt_of);
  if (sibling != nullptr &&
      !std::equal(spec.prompt.begin(), spec.prompt.end(), sibling->tokens.begin(),
                  sibling->tokens.begin() + sibling->num_prompt())) {
    return absl::InvalidArgumentError(absl::StrCat("prompt_of names sequence ", *spec.prompt_of,
                                                   ", whose prompt is another one"));
  }
  if (sibling != nullptr && sibling->spec.adapter != spec.adapter) {
    return absl::InvalidArgumentError(absl::StrCat("prompt_of names sequence ", *spec.prompt_of,
                                                   ", whose adapter is another one"));
  }
  return absl::OkStatus();
}

absl::Status Scheduler::CheckSize(const SequenceSpec& spec) const {
  const auto num_prompt = static_cast<int64_t>(spec.prompt.size());
  const bool generates = !spec.score_prompt && spec.pooled == PooledRows::kNone;
  const std::string sizes = !generates
                                ? absl::StrCat("a text of ", num_prompt, " tokens")
                                : absl::StrCat("a prompt of ", num_prompt,
                                               " tokens and max_tokens of ", spec.max_new_tokens);
  if (num_prompt + spec.max_new_tokens > options_.max_positions) {
    return absl::InvalidArgumentError(
        absl::StrCat(sizes, " exceed the context of ", options_.max_positions, " positions"));
  }
  // The last token is chosen and never computed.
  const int64_t computed = num_prompt + std::max(spec.max_new_tokens - 1, 0);
  const int64_t capacity = int64_t{kv_cache_.num_total_blocks()} * kv_cache_.block_size();
  if (computed > capacity) {
    const int64_t most_new = capacity - num_prompt + 1;
    return absl::InvalidArgumentError(absl::StrCat(
        sizes, " need ", computed, " positions of KV cache; the whole pool holds ", capacity,
        generates && most_new > 0 ? absl::StrCat("; accepted: max_tokens of 1 to ", most_new)
                                  : ""));
  }
  return absl::OkStatus();
}

}  // namespace sluice
