#include "services/tokenizer/stop_strings.h"

#include <utility>

#include "services/tokenizer/text/strings.h"
#include "services/tokenizer/text/utf8.h"

namespace sluice {
namespace {

absl::Status Check(absl::Span<const std::string> strings) {
  if (strings.size() > StopStrings::kMaxStrings) {
    return absl::InvalidArgumentError(
        StrCat(strings.size(), " stop strings; accepted: at most ", StopStrings::kMaxStrings));
  }
  for (size_t i = 0; i < strings.size(); ++i) {
    const std::string& text = strings[i];
    if (text.empty() || text.size() > StopStrings::kMaxBytes) {
      return absl::InvalidArgumentError(StrCat("stop string ", i, " has ", text.size(),
                                               " bytes; accepted: 1 to ", StopStrings::kMaxBytes));
    }
    if (const size_t invalid = FirstInvalidUtf8(text); invalid != text.npos) {
      return absl::InvalidArgumentError(
          StrCat("stop string ", i, " is not UTF-8 at byte ", invalid, "; accepted: valid UTF-8"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StopStrings> StopStrings::Create(absl::Span<const std::string> strings) {
  if (absl::Status status = Check(strings); !status.ok()) return status;
  return StopStrings(strings);
}

StopStrings::StopStrings(absl::Span<const std::string> strings) {
  for (size_t i = 0; i < strings.size(); ++i) {
    trie_.Insert(strings[i], static_cast<int32_t>(i));
    sizes_.push_back(static_cast<uint32_t>(strings[i].size()));
  }
  fallback_.assign(trie_.num_nodes(), ByteTrie::kRoot);
  depth_.assign(trie_.num_nodes(), 0);
  match_.assign(trie_.num_nodes(), ByteTrie::kNoValue);
  // Nodes of one depth need those of lesser depth, so all strings advance together.
  std::vector<Node> at(strings.size(), ByteTrie::kRoot);
  for (uint32_t depth = 0; depth < kMaxBytes; ++depth) {
    for (size_t i = 0; i < strings.size(); ++i) {
      if (depth >= sizes_[i]) continue;
      const Node parent = at[i];
      const char byte = strings[i][depth];
      const Node node = at[i] = trie_.Child(parent, byte);
      depth_[node] = depth + 1;
      if (parent != ByteTrie::kRoot) fallback_[node] = Next(fallback_[parent], byte);
      const int32_t own = trie_.Value(node);
      match_[node] = own != ByteTrie::kNoValue ? own : match_[fallback_[node]];
    }
  }
}

StopStrings::Node StopStrings::Next(Node node, char byte) const {
  while (true) {
    const Node child = trie_.Child(node, byte);
    if (child != ByteTrie::kNoNode) return child;
    if (node == ByteTrie::kRoot) return node;
    node = fallback_[node];
  }
}

StopMatcher::Result StopMatcher::Feed(std::string_view piece, bool may_end) {
  const size_t held_before = held_.size();
  held_ += piece;
  for (size_t i = held_before; i < held_.size(); ++i) {
    node_ = strings_->Next(node_, held_[i]);
    const int32_t match = strings_->match_[node_];
    if (match == ByteTrie::kNoValue || !may_end) continue;
    const size_t end = i + 1;
    held_.resize(options_.include_stop_string ? end : end - strings_->sizes_[match]);
    return {std::exchange(held_, {}), match};
  }
  const size_t num_safe = held_.size() - strings_->depth_[node_];
  Result result{held_.substr(0, num_safe)};
  held_.erase(0, num_safe);
  return result;
}

std::string StopMatcher::Finish() { return std::exchange(held_, {}); }

}  // namespace sluice
