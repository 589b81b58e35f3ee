#include "services/tokenizer/models/ranked_merges.h"

#include <string_view>

#include "services/tokenizer/text/utf8.h"

namespace sluice {

MergeTable MergesOfRanks(const Vocabulary& vocabulary, const std::vector<uint32_t>& ranks) {
  struct Merge {
    TokenId left;
    TokenId right;
    TokenId result;
  };
  std::vector<Merge> merges;
  const auto find = [&](std::string_view text) {
    const TokenId id = vocabulary.Find(text);
    return id == kNoToken || ranks[id] == MergeRule::kNoRank ? kNoToken : id;
  };
  for (TokenId id = 0; id < vocabulary.id_limit(); ++id) {
    if (!vocabulary.Has(id) || ranks[id] == MergeRule::kNoRank) continue;
    const std::string_view text = vocabulary.Text(id);
    for (size_t at = 1; at < text.size(); ++at) {
      if (IsUtf8Continuation(text[at])) continue;
      const TokenId left = find(text.substr(0, at));
      if (left == kNoToken) continue;
      const TokenId right = find(text.substr(at));
      if (right != kNoToken) merges.push_back({left, right, id});
    }
  }
  MergeTable table(merges.size());
  for (const Merge& merge : merges) {
    table.Add(merge.left, merge.right, {ranks[merge.result], merge.result});
  }
  return table;
}

}  // namespace sluice
