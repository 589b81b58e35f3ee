// The edges of one shape of arrays. Not thread-safe.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "services/constraint/schema/value_rules.h"

namespace sluice {

class ArrayRules {
 public:
  // Both are borrowed.
  ArrayRules(ValueRules& rules, const Shape& shape);

  // Adds the ways from `from` to `to`. UNIMPLEMENTED for uniqueItems where more than one item may
  // come; RESOURCE_EXHAUSTED where counts are too large.
  absl::Status Emit(NodeId from, NodeId to);

 private:
  // How many items were seen, and how many kept each `contains`; both up to where it matters.
  struct Count {
    uint32_t items = 0;
    std::vector<uint32_t> contains;
    bool operator==(const Count&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const Count& c) {
      return H::combine(std::move(h), c.items, c.contains);
    }
  };
  struct Nodes {
    NodeId before_item = 0;  // behind [ or a comma
    NodeId behind_item = 0;  // or behind [, where no item came
  };

  Nodes NodesOf(const Count& count);
  void EmitItem(const Count& count);
  // Adds the item under `claims`, with each `contains` from `index` on kept or not.
  void EmitWays(const Count& count, size_t index, Claims claims, Count after);
  Claims ClaimsAt(uint32_t index) const;
  bool MayEnd(const Count& count) const;

  ValueRules& rules_;
  const Shape& shape_;
  uint32_t max_count_ = 0;  // Count::items goes no further
  uint32_t min_items_ = 0;
  absl::flat_hash_map<Count, Nodes> nodes_;
  std::vector<Count> todo_;
  NodeId end_ = 0;
};

}  // namespace sluice
