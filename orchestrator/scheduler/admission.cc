// Who may stand in line.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "orchestrator/scheduler/scheduler.h"

namespace sluice {

absl::Status Scheduler::Add(SequenceSpec spec) {
  RefreshPolicies();
  if (absl::Status status = CheckSpec(spec); !status.ok()) return status;
  if (absl::Status status = CheckQueue(spec); !status.ok()) return status;
  std::optional<uint64_t> sibling_serial;
  if (spec.prompt_of.has_value() && !spec.score_prompt) {
    if (const SequenceState* sibling = Find(*spec.prompt_of)) {
      sibling_serial = sibling->place.serial;
    }
  }
  const SequenceId id = spec.id;
  const PlaceInLine place = {.negated_priority = -static_cast<int64_t>(spec.priority),
                             .arrival = num_added_,
                             .serial = num_added_};
  ++num_added_;
  const auto [it, added] = sequences_.try_emplace(id, std::move(spec), place);
  SLUICE_CHECK(added);
  SequenceState& sequence = it->second;
  sequence.sibling_serial = sibling_serial;
  sequence.tenant = &tenants_.Enter(sequence.spec.tenant, waiting_.least_served());
  waiting_.Insert(sequence);
  return absl::OkStatus();
}

void Scheduler::RefreshPolicies() {
  if (!options_.tenant_policies) return;
  std::shared_ptr<const TenantPolicies> policies = options_.tenant_policies();
  if (policies == policies_ || policies == nullptr) return;
  policies_ = std::move(policies);
  tenants_.SetPolicies(*policies_);
}

// A tenant cannot fill the queue for others: one that has its part of it at most finds room in a
// full one, until twice as much waits.
absl::Status Scheduler::CheckQueue(const SequenceSpec& spec) const {
  const auto found = tenants_.all().find(spec.tenant);
  const Tenant* const tenant = found == tenants_.all().end() ? nullptr : &found->second;
  const int64_t waiting = tenant == nullptr ? 0 : tenant->num_waiting;
  const auto most = [&](int64_t limit, int64_t own, int64_t added) {
    const auto part = tenants_.PartOf(spec.tenant) * static_cast<double>(limit);
    return waiting == 0 || static_cast<double>(own + added) <= part ? 2 * limit : limit;
  };
  const int64_t most_sequences = most(options_.max_queued_sequences, waiting, 1);
  if (waiting_.num_sequences() >= most_sequences) {
    return absl::ResourceExhaustedError(absl::StrCat(
        waiting_.num_sequences(), " sequences are waiting; the limit is ", most_sequences));
  }
  const auto tokens = std::ssize(spec.prompt) + std::ssize(spec.resumed_tokens);
  const int64_t most_tokens =
      most(options_.max_queued_tokens, tenant == nullptr ? 0 : tenant->num_waiting_tokens, tokens);
  if (!waiting_.empty() && waiting_.num_tokens() + tokens > most_tokens) {
    return absl::ResourceExhaustedError(absl::StrCat("the sequences that wait have ",
                                                     waiting_.num_tokens(), " tokens, this one ",
                                                     tokens, "; the limit is ", most_tokens));
  }
  const int32_t granted = tenants_.policies().Of(spec.tenant).max_waiting_sequences;
  if (waiting >= granted) {
    return absl::ResourceExhaustedError(absl::StrCat(
        waiting, " sequences of tenant \"", spec.tenant, "\" are waiting; its limit is ", granted));
  }
  return absl::OkStatus();
}

absl::Status Scheduler::CheckSpec(const SequenceSpec& spec) const {
  if (Find(spec.id) != nullptr) {
    return absl::AlreadyExistsError(absl::StrCat("sequence ", spec.id, " is alive"));
  }
  if (spec.prompt.empty()) {
    return absl::InvalidArgumentError("the prompt is empty; it needs at least 1 token");
  }
  const int32_t least = spec.score_prompt ? 0 : 1;
  if (spec.max_new_tokens < least) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_new_tokens is ", spec.max_new_tokens, "; at least ", least, " is accepted",
        spec.score_prompt ? "" : " (0 only where the prompt is scored)"));
  }
  if (const auto reason = AlreadyFinished(spec)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the ", spec.resumed_tokens.size(), " resumed tokens have ended the sequence already (",
        FinishReasonName(*reason), "; max_new_tokens is ", spec.max_new_tokens, ")"));
  }
  if (absl::Status status = CheckSize(spec); !status.ok()) return status;
  if (!spec.prompt_of.has_value()) return absl::OkStatus();
  const SequenceState* sibling = Find(*spec.prompt_of);
  if (sibling != nullptr &&
      !std::equal(spec.prompt.begin(), spec.prompt.end(), sibling->tokens.begin(),
                  sibling->tokens.begin() + sibling->num_prompt())) {
    return absl::InvalidArgumentError(absl::StrCat("prompt_of names sequence ", *spec.prompt_of,
                                                   ", whose prompt is another one"));
  }
  return absl::OkStatus();
}

absl::Status Scheduler::CheckSize(const SequenceSpec& spec) const {
  const auto num_prompt = static_cast<int64_t>(spec.prompt.size());
  const std::string sizes = spec.score_prompt
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
        !spec.score_prompt && most_new > 0
            ? absl::StrCat("; accepted: max_tokens of 1 to ", most_new)
            : ""));
  }
  return absl::OkStatus();
}

}  // namespace sluice
