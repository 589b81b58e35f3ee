// A tree of byte strings: node 0 is the empty string, every other node one byte more than its
// parent. Memory grows with the bytes inserted. Immutable once built, then thread-safe.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace sluice {

class ByteTrie {
 public:
  using Node = uint32_t;
  static constexpr Node kRoot = 0;
  static constexpr Node kNoNode = UINT32_MAX;
  static constexpr int32_t kNoValue = -1;

  ByteTrie() : values_(1, kNoValue) {}

  // Gives `text` a value, replacing an earlier one. REQUIRES: value >= 0.
  void Insert(std::string_view text, int32_t value) {
    Node node = kRoot;
    for (const char byte : text) {
      const auto [edge, is_new] = edges_.try_emplace(Key(node, byte), num_nodes());
      if (is_new) values_.push_back(kNoValue);
      node = edge->second;
    }
    values_[node] = value;
  }

  // kNoNode where no inserted text goes on so.
  Node Child(Node node, char byte) const {
    const auto edge = edges_.find(Key(node, byte));
    return edge == edges_.end() ? kNoNode : edge->second;
  }

  // Of the text that ends at `node`, or kNoValue.
  int32_t Value(Node node) const { return values_[node]; }

  Node num_nodes() const { return static_cast<Node>(values_.size()); }

 private:
  static uint64_t Key(Node node, char byte) {
    return uint64_t{node} << 8 | static_cast<uint8_t>(byte);
  }

  absl::flat_hash_map<uint64_t, Node> edges_;
  std::vector<int32_t> values_;
};

}  // namespace sluice
