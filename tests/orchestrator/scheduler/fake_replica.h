// A replica without a model: it executes steps in order on a KV memory that records what was
// written to every slot, and proves of every segment that each position it attends to was computed
// from exactly the tokens before it. Wrong sharing, blocks reused too early and positions not
// computed again all show as a slot with another value.
//
// The "key and value" of a position is a hash of all tokens up to it, chained from the slot of the
// position before; the "model" maps it to the next token. Output is therefore a function of the
// sequence's tokens alone, as is demanded of the real one.
// Where keys depend on the sequence's length, so does the hash that the chain begins with.
//
// With slots for states it also keeps those as recurrent layers do (kernels/recurrent_ops.h): a slot
// has the hash before a block and those of the block's positions, and each position is computed from
// its slot alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "orchestrator/scheduler/step.h"

namespace sluice {

inline constexpr TokenId kFakeVocabulary = 50;

inline uint64_t Extend(uint64_t hash, TokenId token) {
  uint64_t x = (hash ^ static_cast<uint64_t>(token)) + 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

inline TokenId NextToken(uint64_t hash) { return static_cast<TokenId>(hash % kFakeVocabulary); }

// SchedulerOptions::rope_length_class.
using RopeLengthClass = std::function<int32_t(int32_t length)>;

// What the chain of a sequence of `length` tokens begins with.
inline uint64_t ChainStart(const RopeLengthClass& rope_length_class, int32_t length) {
  return rope_length_class ? static_cast<uint64_t>(rope_length_class(length)) : 0;
}

// What an adapter makes of every hash before it is extended.
inline uint64_t HashOfAdapter(const std::string& adapter) {
  uint64_t hash = 0;
  for (const char c : adapter) hash = Extend(hash, c);
  return hash;
}

// The hash at every position of `tokens`, computed with an adapter; empty: with none.
inline std::vector<uint64_t> HashChain(const std::vector<TokenId>& tokens,
                                       const RopeLengthClass& rope_length_class,
                                       const std::string& adapter = "") {
  const uint64_t start = ChainStart(rope_length_class, static_cast<int32_t>(tokens.size()));
  std::vector<uint64_t> chain;
  for (const TokenId token : tokens)
    chain.push_back(Extend((chain.empty() ? start : chain.back()) ^ HashOfAdapter(adapter), token));
  return chain;
}

class FakeReplica {
 public:
  FakeReplica(int32_t num_blocks, int32_t block_size, RopeLengthClass rope_length_class,
              int32_t num_state_slots = 0)
      : block_size_(block_size),
        rope_length_class_(std::move(rope_length_class)),
        memory_(static_cast<size_t>(num_blocks) * block_size, kEmpty),
        states_(num_state_slots) {}

  // Sends a step to the replica. `chains` has, per segment, the hashes that its sequence's true
  // tokens give, at least up to the segment's last position.
  void Submit(Step step, std::vector<std::vector<uint64_t>> chains) {
    queue_.push_back({std::move(step), std::move(chains)});
  }

  // The step will fail on a stage, leaving garbage in the slots that it was to write.
  void Spoil(StepId step) {
    for (Submitted& submitted : queue_) {
      if (submitted.step.id == step) submitted.spoiled = true;
    }
  }

  // Executes every step up to `step` and gives that one's rows; an error where a slot is wrong.
  absl::StatusOr<std::vector<TokenId>> ExecuteThrough(StepId step) {
    while (!queue_.empty() && queue_.front().step.id <= step) {
      const Submitted submitted = std::move(queue_.front());
      queue_.pop_front();
      for (const SequenceId sequence : submitted.step.ended) tables_.erase(sequence);
      for (const AdapterChange& change : submitted.step.adapters) {
        adapters_[change.slot] = change.adapter;
      }
      for (const BlockCopy& copy : submitted.step.copies) {
        Copy(copy, submitted.spoiled);
      }
      for (const StateCopy& copy : submitted.step.state_copies) {
        states_.at(copy.destination) = submitted.spoiled ? State{} : states_.at(copy.source);
      }
      std::vector<TokenId>& rows = results_[submitted.step.id];
      for (size_t i = 0; i < submitted.step.segments.size(); ++i) {
        const absl::Status status = ExecuteSegment(submitted, i, rows);
        if (!status.ok()) return status;
      }
    }
    return results_.at(step);
  }

  // What is under way is lost, and memory is not.
  void Drop() {
    queue_.clear();
    tables_.clear();
    adapters_.clear();
  }

  // Everything in memory and under way is lost; it has so many blocks from now on.
  void Lose(int32_t num_blocks, int32_t num_state_slots = 0) {
    Drop();
    states_.assign(num_state_slots, {});
    memory_.assign(static_cast<size_t>(num_blocks) * block_size_, kEmpty);
  }

 private:
  static constexpr uint64_t kEmpty = 0xdead;
  static constexpr uint64_t kGarbage = 0xbad;

  struct Submitted {
    Step step;
    std::vector<std::vector<uint64_t>> chains;
    bool spoiled = false;
  };

  // What a slot holds for the positions of one block.
  struct State {
    uint64_t before = kGarbage;   // the hash at the position before the block
    std::vector<uint64_t> since;  // those of its positions
  };

  State& StateOf(const Segment& segment, int32_t position) {
    const int32_t first = std::max(segment.first_position - 1, 0) / block_size_;
    return states_.at(segment.state_slots.at(position / block_size_ - first));
  }

  // Computes a position from the state. The chain has what that has to hold, unless drafts that may be
  // wrong are part of it.
  absl::Status Recur(const Submitted& submitted, size_t index, int32_t position, TokenId token) {
    const Segment& segment = submitted.step.segments[index];
    const std::vector<uint64_t>& chain = submitted.chains[index];
    const int32_t row = position % block_size_;
    if (row == 0) {
      State next = {.before = ChainStart(rope_length_class_, segment.sequence_length),
                    .since = std::vector<uint64_t>(block_size_, kEmpty)};
      if (position > 0) {
        const State& previous = StateOf(segment, position - 1);
        next.before = previous.since.empty() ? kGarbage : previous.since.back();
      }
      StateOf(segment, position) = std::move(next);
    }
    State& state = StateOf(segment, position);
    state.since.resize(block_size_, kEmpty);
    const uint64_t before = row == 0 ? state.before : state.since[row - 1];
    state.since[row] =
        submitted.spoiled ? kGarbage : Extend(before ^ HashOfAdapter(AdapterOf(segment)), token);
    const auto end = segment.first_position + std::ssize(segment.tokens) - segment.num_drafts;
    if (submitted.spoiled || position >= end) return absl::OkStatus();
    const int32_t begin = position - row;
    const bool follows = begin == 0 || state.before == chain.at(begin - 1);
    if (follows &&
        std::equal(state.since.begin(), state.since.begin() + row + 1, chain.begin() + begin)) {
      return absl::OkStatus();
    }
    return absl::InternalError(absl::StrCat("step ", submitted.step.id, ", sequence ",
                                            segment.sequence, ": the state of position ", position,
                                            " is another's or was never computed"));
  }

  uint64_t& Slot(const Segment& segment, int32_t position) {
    const BlockId block = tables_.at(segment.sequence).at(position / block_size_);
    return memory_.at(static_cast<size_t>(block) * block_size_ + position % block_size_);
  }

  TokenId TokenOf(const Segment& segment, int32_t offset) const {
    if (!segment.chosen_by.has_value()) return segment.tokens[offset];
    return results_.at(segment.chosen_by->step).at(segment.chosen_by->row);
  }

  // What is in its slot.
  std::string AdapterOf(const Segment& segment) const {
    if (segment.adapter_slot < 0) return "";
    const auto found = adapters_.find(segment.adapter_slot);
    return found == adapters_.end() ? "of an empty slot" : found->second;
  }

  absl::Status ChangeTable(const Segment& segment) {
    std::vector<BlockId>& table = tables_[segment.sequence];
    if (segment.first_block > std::ssize(table)) {
      return absl::InternalError(absl::StrCat("sequence ", segment.sequence, " has ", table.size(),
                                              " blocks; the step goes on after ",
                                              segment.first_block));
    }
    table.resize(segment.first_block);
    table.insert(table.end(), segment.blocks.begin(), segment.blocks.end());
    return absl::OkStatus();
  }

  void Copy(const BlockCopy& copy, bool spoiled) {
    for (int32_t slot = 0; slot < block_size_; ++slot) {
      memory_.at(static_cast<size_t>(copy.destination) * block_size_ + slot) =
          spoiled ? kGarbage : memory_.at(static_cast<size_t>(copy.source) * block_size_ + slot);
    }
  }

  absl::Status ExecuteSegment(const Submitted& submitted, size_t index,
                              std::vector<TokenId>& rows) {
    const Segment& segment = submitted.step.segments[index];
    const std::vector<uint64_t>& chain = submitted.chains[index];
    if (absl::Status status = ChangeTable(segment); !status.ok()) return status;
    const auto count = static_cast<int32_t>(segment.tokens.size());
    for (int32_t offset = 0; offset < count; ++offset) {
      const int32_t position = segment.first_position + offset;
      const uint64_t before = position == 0
                                  ? ChainStart(rope_length_class_, segment.sequence_length)
                                  : Slot(segment, position - 1);
      Slot(segment, position) =
          submitted.spoiled
              ? kGarbage
              : Extend(before ^ HashOfAdapter(AdapterOf(segment)), TokenOf(segment, offset));
      if (states_.empty()) continue;
      const TokenId token = submitted.spoiled ? 0 : TokenOf(segment, offset);
      if (absl::Status status = Recur(submitted, index, position, token); !status.ok()) {
        return status;
      }
    }
    if (submitted.spoiled) return absl::OkStatus();
    // After the writes, so that a segment that overwrites its own past shows as well. What drafts
    // leave is right or not.
    for (int32_t position = 0; position < segment.first_position + count - segment.num_drafts;
         ++position) {
      if (Slot(segment, position) != chain.at(position)) {
        return absl::InternalError(absl::StrCat("step ", submitted.step.id, ", sequence ",
                                                segment.sequence, ": position ", position,
                                                " holds what another sequence or nobody wrote"));
      }
    }
    for (const Row& row : segment.rows) {
      rows.push_back(row.kind == RowKind::kScore
                         ? -1
                         : NextToken(Slot(segment, segment.first_position + row.offset)));
    }
    return absl::OkStatus();
  }

  int32_t block_size_;
  RopeLengthClass rope_length_class_;
  std::map<int32_t, std::string> adapters_;            // by slot
  std::vector<uint64_t> memory_;                       // by slot
  std::vector<State> states_;                          // by slot for states
  std::map<SequenceId, std::vector<BlockId>> tables_;  // as the steps have told them
  std::deque<Submitted> queue_;
  std::map<StepId, std::vector<TokenId>> results_;
};

}  // namespace sluice
