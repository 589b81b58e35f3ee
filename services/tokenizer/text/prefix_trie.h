// A tree of byte strings that is built once: children lie side by side, so that it is small and
// walking it is fast. Immutable, thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

class PrefixTrie {
 public:
  static constexpr int32_t kNoValue = -1;
  using Entry = std::pair<std::string_view, int32_t>;

  PrefixTrie() : PrefixTrie(std::vector<Entry>()) {}
  // Empty texts are left out; of equal ones the last stays. REQUIRES: values are not negative.
  explicit PrefixTrie(std::vector<Entry> entries);

  // Calls `found` with length and value of each beginning of `text` that was entered, in rising
  // order of length.
  template <typename Found>
  void Prefixes(std::string_view text, Found found) const {
    uint32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      node = Child(node, static_cast<uint8_t>(text[i]));
      if (node == kNone) return;
      if (nodes_[node].value != kNoValue) found(i + 1, nodes_[node].value);
    }
  }

  // Length and value of the longest; {0, kNoValue} for none.
  std::pair<size_t, int32_t> Longest(std::string_view text) const {
    std::pair<size_t, int32_t> longest{0, kNoValue};
    Prefixes(text, [&](size_t length, int32_t value) { longest = {length, value}; });
    return longest;
  }

 private:
  static constexpr uint32_t kNone = 0;  // the root is nobody's child
  struct Node {
    uint32_t first_child = 0;
    uint16_t num_children = 0;
    uint8_t byte = 0;  // by which its parent leads here
    int32_t value = kNoValue;
  };

  uint32_t Child(uint32_t node, uint8_t byte) const {
    if (node == 0) return of_root_[byte];
    const Node* child = &nodes_[nodes_[node].first_child];
    uint32_t count = nodes_[node].num_children;
    while (count > 8) {  // children are sorted
      const uint32_t half = count / 2;
      if (child[half].byte <= byte) child += half;
      count -= half;
    }
    for (const Node* end = child + count; child != end; ++child) {
      if (child->byte == byte) return static_cast<uint32_t>(child - nodes_.data());
    }
    return kNone;
  }

  std::vector<Node> nodes_;
  std::array<uint32_t, 256> of_root_{};
};

}  // namespace sluice
