// What must hold of every step, and of every sequence that ends.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/orchestrator/scheduler/random_schedule.h"

namespace sluice {

// Whoever awaits a choice gives way to those of its priority and above.
bool RandomSchedule::SomebodyCanGoOn() const {
  // One that sits out keeps its blocks, and others behind it may need them. One that awaits a choice
  // keeps its adapter's slot.
  if (std::any_of(clients_.begin(), clients_.end(), [](const auto& entry) {
        const Client& client = entry.second;
        return client.sits_out || (client.choice.has_value() && !client.spec.adapter.empty());
      })) {
    return false;
  }
  std::optional<int32_t> lowest;
  for (const auto& [id, client] : clients_) {
    if (client.paused || client.choice.has_value()) continue;
    lowest = std::min(lowest.value_or(client.spec.priority), client.spec.priority);
  }
  return lowest.has_value() &&
         std::none_of(clients_.begin(), clients_.end(), [&](const auto& entry) {
           return entry.second.choice.has_value() && entry.second.spec.priority > *lowest;
         });
}

void RandomSchedule::CheckShape(const Step& step) {
  ASSERT_GT(step.id, last_step_);
  last_step_ = step.id;
  ASSERT_FALSE(step.segments.empty());
  coverage_.copied_states += std::ssize(step.state_copies);
  ASSERT_LE(step.num_tokens(), options_.max_tokens_per_step);
  ASSERT_LE(std::ssize(step.segments), options_.max_sequences_per_step);
  std::map<uint64_t, int> busy;  // by serial, the steps in flight
  for (const InFlight& other : in_flight_) {
    for (const uint64_t serial : other.serials) ++busy[serial];
  }
  std::set<uint64_t> in_this;
  for (const Segment& segment : step.segments) {
    const Client& client = clients_.at(segment.sequence);
    ASSERT_TRUE(in_this.insert(client.serial).second) << "twice in a step";
    const int num_steps = busy[client.serial];
    ASSERT_TRUE(num_steps == 0 || options_.steps_ahead > 0) << "in two steps at a time";
    ASSERT_FALSE(client.paused || client.sits_out);
    const std::vector<TokenId>& tokens = client.tokens;
    const auto end = segment.first_position + std::ssize(segment.tokens);
    ASSERT_GE(segment.sequence_length, std::ssize(tokens));
    ASSERT_LE(segment.sequence_length, std::ssize(tokens) + num_steps + segment.num_drafts);
    ASSERT_LE(segment.num_drafts, num_steps == 0 ? client.spec.max_drafts : 0);
    coverage_.drafted += segment.num_drafts;
    ASSERT_LE(segment.sequence_length, std::ssize(client.endless));
    ASSERT_GE((segment.first_block + std::ssize(segment.blocks)) * kv_cache_.block_size, end);
    if (kv_cache_.num_state_slots > 0) {
      const int32_t first = std::max(segment.first_position - 1, 0) / kv_cache_.block_size;
      ASSERT_EQ(std::ssize(segment.state_slots), (end - 1) / kv_cache_.block_size - first + 1);
    }
    coverage_.chunks_ahead += num_steps > 0 && segment.tokens.size() > 1;
    if (segment.chosen_by.has_value()) {
      ASSERT_EQ(std::ssize(segment.tokens), 1);
      ASSERT_EQ(end, segment.sequence_length);
      ASSERT_GT(end, std::ssize(tokens)) << "the token is known";
      continue;
    }
    ASSERT_LE(end - segment.num_drafts, std::ssize(tokens));
    ASSERT_TRUE(std::equal(segment.tokens.begin(), segment.tokens.end() - segment.num_drafts,
                           tokens.begin() + segment.first_position));
  }
}

void RandomSchedule::CheckRows(const StepOutcome& outcome, const std::vector<TokenId>& rows) {
  for (const AcceptedRow& row : outcome.rows) {
    ASSERT_TRUE(clients_.contains(row.sequence)) << "a row of a sequence that ended";
    Client& client = clients_.at(row.sequence);
    if (row.kind == RowKind::kScore) {
      ASSERT_EQ(row.position, ++client.scored) << "scores out of order, twice or missing";
      ASSERT_EQ(row.token, client.spec.prompt.at(row.position));
      ++coverage_.scored_rows;
    } else {
      ASSERT_EQ(row.position, std::ssize(client.tokens));
      ASSERT_EQ(row.token, rows.at(row.row));
      ASSERT_FALSE(client.sits_out) << "a token chosen behind one that was deferred";
      ASSERT_FALSE(client.choice.has_value()) << "chosen twice";
      if (client.spec.externally_sampled) {
        client.choice = row.token;
      } else {
        client.tokens.push_back(row.token);
      }
    }
  }
}

void RandomSchedule::CheckFinished(const FinishedSequence& finished) {
  const Client& client = clients_.at(finished.sequence);
  ASSERT_EQ(client.tokens, client.solo.tokens);
  ASSERT_EQ(finished.reason, client.solo.reason);
  const auto num_prompt = std::ssize(client.spec.prompt);
  ASSERT_EQ(client.scored, client.spec.score_prompt ? num_prompt - 1 : 0);
  ASSERT_EQ(finished.usage.prompt_tokens, num_prompt);
  ASSERT_EQ(finished.usage.generated_tokens, std::ssize(client.tokens) - num_prompt);
  const int64_t positions = std::ssize(client.tokens) - (client.spec.max_new_tokens > 0 ? 1 : 0);
  const SequenceUsage& usage = finished.usage;
  ASSERT_GE(usage.computed_positions + usage.shared_positions + usage.cached_positions, positions);
  ++coverage_.finished;
  Forget(finished);
}

void RandomSchedule::Forget(const FinishedSequence& finished) {
  coverage_.preemptions += finished.usage.preemptions;
  coverage_.shared_positions += finished.usage.shared_positions;
  coverage_.cached_positions += finished.usage.cached_positions;
  if (kv_cache_.num_state_slots > 0) {
    coverage_.found_by_state += finished.usage.cached_positions;
    coverage_.forked_by_state += finished.usage.shared_positions;
  }
  coverage_.copied_blocks += finished.usage.copied_blocks;
  coverage_.evicted_blocks += finished.usage.evicted_blocks;
  coverage_.accepted_drafts += finished.usage.accepted_drafts;
  clients_.erase(finished.sequence);
}

}  // namespace sluice
