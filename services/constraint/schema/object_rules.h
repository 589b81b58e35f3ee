// The edges of one shape of objects. Members that one schema's `properties` name come in its order,
// those of several schemas (allOf, anyOf, ...) and others that are required in any interleaving of
// these orders, unless that would take too many states: then in the order in which they were met.
// Unnamed members come last, in any order. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "services/constraint/schema/value_rules.h"

namespace sluice {

class ObjectRules {
 public:
  // Both are borrowed.
  ObjectRules(ValueRules& rules, const Shape& shape);

  // Adds the ways from `from` to `to`. RESOURCE_EXHAUSTED where there are too many patterns, counts
  // or conditions.
  absl::Status Emit(NodeId from, NodeId to);

 private:
  struct Named {
    std::string_view name;
    Claims claims;
    bool required = false;
    uint32_t some = 0;  // a bit for each of the shape's some_members that the name is of
  };
  // Names of no Named that follow the same patterns.
  struct Others {
    ExprId names = 0;
    Claims claims;
    uint32_t some = 0;  // as above
  };
  // Before the next member: how far each chain is (a number with the chains' lengths plus one for
  // digits), so many members seen and so many of some_members still to come.
  struct Place {
    uint32_t chains = 0;
    uint32_t count = 0;
    uint32_t some = 0;
    bool operator==(const Place&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const Place& p) {
      return H::combine(std::move(h), p.chains, p.count, p.some);
    }
  };
  struct Nodes {
    NodeId before_member = 0;
    NodeId behind_member = 0;
  };

  absl::Status Gather();
  absl::Status GatherOthers();
  // Splits the names left by whether each pattern from `index` on matches.
  absl::Status SplitNames(size_t index, ExprId names, uint32_t matched);
  void AddNamed(std::string_view name, bool new_group,
                absl::flat_hash_map<std::string_view, size_t>& seen);
  Claims ClaimsOf(const MemberRules& rules, std::string_view name) const;
  uint32_t SomeOf(std::string_view name) const;

  Nodes NodesOf(const Place& place);
  void EmitPlace(const Place& place);
  // Adds the member of named_ at `index`, behind which the chains are at `next`.
  void EmitNamed(const Place& place, uint32_t index, uint32_t next);
  void EmitOthers(const Place& place);
  // Adds a member's value under `claims` between `from` and what comes behind it, keeping any of
  // `some` that it may.
  void EmitValue(const Place& place, uint32_t next_chains, NodeId from, const Claims& claims,
                 uint32_t some);
  bool MayEnd(const Place& place) const;
  void MakeChains();
  uint32_t Position(const Place& place, size_t chain) const {
    return place.chains / strides_[chain] % (static_cast<uint32_t>(chains_[chain].size()) + 1);
  }
  // How many required members are still to come.
  uint32_t RequiredLeft(const Place& place) const;

  ValueRules& rules_;
  const Shape& shape_;
  std::vector<Named> named_;
  std::vector<size_t> group_;  // by index into named_: members of one group keep their order
  std::vector<std::vector<uint32_t>> chains_;  // indices into named_
  std::vector<uint32_t> strides_;              // by chain, in Place::chains
  uint32_t chains_end_ = 0;                    // Place::chains behind all of them
  std::vector<ExprId> patterns_;               // distinct
  std::vector<Others> others_;
  uint32_t max_count_ = 0;  // Place::count goes no further
  uint32_t min_members_ = 0;
  absl::flat_hash_map<Place, Nodes> nodes_;
  std::vector<Place> todo_;
  NodeId end_ = 0;
};

}  // namespace sluice
