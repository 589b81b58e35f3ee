// The bytes of many tokens as one tree, laid out in the order of a walk: what lies below a node are
// the nodes right behind it, so that a walk goes forward and leaves a subtree out with one jump.
// Immutable once built, then thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "services/constraint/engine/byte_class.h"

namespace sluice {

class TokenTrie {
 public:
  struct Node {
    uint32_t subtree_end;  // index of the first node that is not below this one
    uint32_t first_token;  // into tokens(): those of this node, then those below it
    uint16_t num_tokens;   // of this node alone
    uint16_t depth;        // 1 for a first byte
    uint16_t mask_below;   // one more than an index into masks; 0 for none
    uint8_t byte;          // that leads here
    CharClasses classes;   // of all characters that tokens below this one go on with
  };

  TokenTrie() = default;
  // Each entry: bytes, a token. Bytes may be empty: see root_tokens. `mask_words`: where not 0, of
  // the masks (a bit for each token) that are kept for subtrees of many tokens.
  explicit TokenTrie(std::vector<std::pair<std::string_view, int32_t>> entries,
                     size_t mask_words = 0);

  absl::Span<const Node> nodes() const { return nodes_; }
  // In the order of nodes: the tokens below a node, itself included, are
  // [first_token, nodes[subtree_end].first_token), or to the end.
  absl::Span<const int32_t> tokens() const { return tokens_; }
  absl::Span<const int32_t> TokensBelow(size_t node) const {
    const uint32_t end = nodes_[node].subtree_end;
    const size_t last = end < nodes_.size() ? nodes_[end].first_token : tokens_.size();
    return absl::MakeSpan(tokens_).subspan(nodes_[node].first_token,
                                           last - nodes_[node].first_token);
  }
  absl::Span<const int32_t> TokensAt(size_t node) const {
    return absl::MakeSpan(tokens_).subspan(nodes_[node].first_token, nodes_[node].num_tokens);
  }
  // Those whose bytes are empty.
  absl::Span<const int32_t> root_tokens() const { return root_tokens_; }
  int max_depth() const { return max_depth_; }
  // The tokens below a node, itself included, as a mask; empty where there is none, but
  // TokensBelow.
  absl::Span<const uint64_t> MaskBelow(size_t node) const {
    const uint16_t mask = nodes_[node].mask_below;
    return mask == 0 ? absl::Span<const uint64_t>() : absl::MakeConstSpan(masks_[mask - 1]);
  }
  size_t memory() const;

 private:
  std::vector<Node> nodes_;
  std::vector<int32_t> tokens_;
  std::vector<int32_t> root_tokens_;
  std::vector<std::vector<uint64_t>> masks_;
  int max_depth_ = 0;
};

}  // namespace sluice
