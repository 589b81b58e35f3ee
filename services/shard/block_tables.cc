#include "services/shard/block_tables.h"

#include "absl/strings/str_cat.h"

namespace sluice {

absl::Status BlockTables::Update(const v1::ShardExecute& plan) {
  for (const uint64_t sequence : plan.ended_sequence_ids()) tables_.erase(sequence);
  for (const v1::Segment& segment : plan.segments()) {
    if (absl::Status status = Update(segment); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status BlockTables::Update(const v1::Segment& segment) {
  std::vector<int32_t>& table = tables_[segment.sequence_id()];
  const int64_t first = segment.first_block();
  if (first < 0 || first > static_cast<int64_t>(table.size())) {
    return absl::FailedPreconditionError(
        absl::StrCat("sequence ", segment.sequence_id(), " has ", table.size(),
                     " blocks here; the plan goes on after ", first));
  }
  if (first + segment.blocks_size() > max_blocks_) {
    return absl::InvalidArgumentError(absl::StrCat("sequence ", segment.sequence_id(), " has ",
                                                   first + segment.blocks_size(),
                                                   " blocks; the pool has ", max_blocks_));
  }
  table.resize(static_cast<size_t>(first));
  table.insert(table.end(), segment.blocks().begin(), segment.blocks().end());
  return absl::OkStatus();
}

absl::Span<const int32_t> BlockTables::TableOf(uint64_t sequence) const {
  const auto found = tables_.find(sequence);
  if (found == tables_.end()) return {};
  return found->second;
}

}  // namespace sluice
