#include "services/constraint/engine/token_trie.h"

#include <algorithm>

namespace sluice {

TokenTrie::TokenTrie(std::vector<std::pair<std::string_view, int32_t>> entries, size_t mask_words) {
  std::sort(entries.begin(), entries.end());
  std::vector<uint32_t> path;  // the nodes of the bytes before
  std::string_view before;
  const auto close = [&](size_t depth) {
    while (path.size() > depth) {
      Node& node = nodes_[path.back()];
      node.subtree_end = static_cast<uint32_t>(nodes_.size());
      path.pop_back();
      if (!path.empty()) nodes_[path.back()].classes |= node.classes | ClassOfByte(node.byte);
    }
  };
  for (const auto& [bytes, token] : entries) {
    if (bytes.empty()) {
      root_tokens_.push_back(token);
      continue;
    }
    size_t common = 0;
    while (common < std::min(before.size(), bytes.size()) && before[common] == bytes[common])
      ++common;
    close(common);
    while (path.size() < bytes.size()) {
      Node node{};
      node.first_token = static_cast<uint32_t>(tokens_.size());
      node.byte = static_cast<uint8_t>(bytes[path.size()]);
      node.depth = static_cast<uint16_t>(path.size() + 1);
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back(node);
    }
    tokens_.push_back(token);
    ++nodes_[path.back()].num_tokens;
    max_depth_ = std::max(max_depth_, static_cast<int>(bytes.size()));
    before = bytes;
  }
  close(0);
  if (mask_words == 0) return;
  // One by one, tokens take about a nanosecond each; a mask costs as much as some hundreds.
  constexpr size_t kManyTokens = 1000;
  for (size_t i = 0; i < nodes_.size() && masks_.size() < UINT16_MAX; ++i) {
    const absl::Span<const int32_t> below = TokensBelow(i);
    if (below.size() < kManyTokens) continue;
    std::vector<uint64_t>& mask = masks_.emplace_back(mask_words);
    for (const int32_t token : below)
      mask[static_cast<size_t>(token) / 64] |= uint64_t{1} << (token % 64);
    nodes_[i].mask_below = static_cast<uint16_t>(masks_.size());
  }
}

size_t TokenTrie::memory() const {
  size_t bytes = nodes_.size() * sizeof(Node) + tokens_.size() * sizeof(int32_t);
  for (const auto& mask : masks_) bytes += mask.size() * sizeof(uint64_t);
  return bytes;
}

}  // namespace sluice
