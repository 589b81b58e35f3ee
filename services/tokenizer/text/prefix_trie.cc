#include "services/tokenizer/text/prefix_trie.h"

#include <algorithm>

namespace sluice {

PrefixTrie::PrefixTrie(std::vector<Entry> entries) {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.first < b.first; });
  // The entries below a node, and how many bytes they have in common.
  struct Work {
    uint32_t node;
    size_t begin;
    size_t end;
    size_t depth;
  };
  nodes_.push_back({});
  std::vector<Work> queue = {{0, 0, entries.size(), 0}};
  for (size_t next = 0; next < queue.size(); ++next) {
    const auto [node, begin, end, depth] = queue[next];
    size_t at = begin;
    for (; at < end && entries[at].first.size() == depth; ++at) {
      if (depth > 0) nodes_[node].value = entries[at].second;
    }
    nodes_[node].first_child = static_cast<uint32_t>(nodes_.size());
    while (at < end) {
      const char byte = entries[at].first[depth];
      const size_t child_begin = at;
      while (at < end && entries[at].first[depth] == byte) ++at;
      const auto child = static_cast<uint32_t>(nodes_.size());
      nodes_.push_back({.byte = static_cast<uint8_t>(byte)});
      ++nodes_[node].num_children;
      queue.push_back({child, child_begin, at, depth + 1});
    }
  }
  for (uint32_t i = 0; i < nodes_[0].num_children; ++i) {
    const uint32_t child = nodes_[0].first_child + i;
    of_root_[nodes_[child].byte] = child;
  }
}

}  // namespace sluice
