// Block tables of the sequences of one epoch, built from the plans. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "sluice/v1/shard.pb.h"

namespace sluice {

class BlockTables {
 public:
  // A table has at most `max_blocks`: those of the pool.
  explicit BlockTables(int max_blocks) : max_blocks_(max_blocks) {}

  // Takes up what a plan says, whatever blocks it names. FAILED_PRECONDITION where a segment goes
  // on after blocks that are not known here, INVALID_ARGUMENT where a table would have more than a
  // pool; tables are undefined then.
  absl::Status Update(const v1::ShardExecute& plan);

  // Empty for a sequence that no segment has named. Valid until the next Update().
  absl::Span<const int32_t> TableOf(uint64_t sequence) const;

  size_t size() const { return tables_.size(); }

 private:
  absl::Status Update(const v1::Segment& segment);

  const int max_blocks_;
  absl::flat_hash_map<uint64_t, std::vector<int32_t>> tables_;
};

}  // namespace sluice
