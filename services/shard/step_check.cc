#include "services/shard/step_check.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

// Why the slots for states can't be used, or "" where they can.
std::string ReasonAgainstSlots(const ShardSegment& segment, const StepLimits& limits) {
  if (limits.num_state_slots == 0) return "";
  // Where each block has a slot, of its number, none need be named.
  if (segment.state_slots.empty() && limits.num_state_slots == limits.num_blocks) return "";
  const int64_t first = std::max(segment.first_position - 1, 0) / limits.block_size;
  const int64_t last =
      (int64_t{segment.first_position} + segment.num_positions - 1) / limits.block_size;
  if (static_cast<int64_t>(segment.state_slots.size()) < last - first + 1) {
    return absl::StrCat("it has ", segment.state_slots.size(), " state_slots; its positions need ",
                        last - first + 1);
  }
  for (const int32_t slot : segment.state_slots) {
    if (slot < 0 || slot >= limits.num_state_slots) {
      return absl::StrCat("state slot ", slot, " is outside a pool of ", limits.num_state_slots);
    }
  }
  return "";
}

// Why the segment can't be computed, or "" where it can.
std::string ReasonAgainst(const ShardSegment& segment, const StepLimits& limits) {
  if (segment.num_positions < 1) {
    return absl::StrCat("num_positions is ", segment.num_positions, "; accepted: 1 or more");
  }
  const int64_t end = int64_t{segment.first_position} + segment.num_positions;
  if (segment.first_position < 0 || end > limits.max_positions) {
    return absl::StrCat("positions ", segment.first_position, " to ", end - 1,
                        "; accepted for this model: 0 to ", limits.max_positions - 1);
  }
  const int32_t length = segment.sequence_length;
  if (length != 0 && (length < end || length > limits.max_positions)) {
    return absl::StrCat("sequence_length is ", length, "; accepted: 0, or ", end,
                        ", where its positions end, to ", limits.max_positions);
  }
  const int64_t needed = (end + limits.block_size - 1) / limits.block_size;
  if (static_cast<int64_t>(segment.block_table.size()) < needed) {
    return absl::StrCat("its block table has ", segment.block_table.size(), " blocks of ",
                        limits.block_size, " positions; positions up to ", end - 1, " need ",
                        needed);
  }
  for (const int32_t block : segment.block_table) {
    if (block < 0 || block >= limits.num_blocks) {
      return absl::StrCat("block ", block, " is outside a pool of ", limits.num_blocks);
    }
  }
  return ReasonAgainstSlots(segment, limits);
}

absl::Status CheckCopiesIn(absl::Span<const KvBlockCopy> copies, int size, const char* what) {
  for (size_t index = 0; index < copies.size(); ++index) {
    for (const int32_t id : {copies[index].source, copies[index].destination}) {
      if (id >= 0 && id < size) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(what, " copy ", index, ": ", what, " ", id, " is outside a pool of ", size));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckStep(absl::Span<const ShardSegment> segments, int64_t rows,
                       const StepLimits& limits) {
  if (rows > limits.max_rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("a step of ", rows, " rows; accepted: at most ", limits.max_rows));
  }
  int64_t total = 0;
  for (size_t index = 0; index < segments.size(); ++index) {
    if (std::string reason = ReasonAgainst(segments[index], limits); !reason.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("segment ", index, ": ", reason));
    }
    total += segments[index].num_positions;
  }
  if (total != rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("the segments have ", total, " positions, the activations ", rows, " rows"));
  }
  return absl::OkStatus();
}

absl::Status CheckCopies(absl::Span<const KvBlockCopy> copies, int num_blocks) {
  return CheckCopiesIn(copies, num_blocks, "block");
}

absl::Status CheckStateCopies(absl::Span<const KvBlockCopy> copies, int num_state_slots) {
  return CheckCopiesIn(copies, num_state_slots, "state slot");
}

}  // namespace sluice
