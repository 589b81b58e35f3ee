#include "services/constraint/engine/token_speller.h"

#include <algorithm>
#include <limits>

namespace sluice {
namespace {

constexpr int32_t kNoToken = std::numeric_limits<int32_t>::max();

}  // namespace

TokenSpeller::TokenSpeller(absl::Span<const std::string> bytes) {
  ids_.reserve(bytes.size());
  for (size_t id = 0; id < bytes.size(); ++id) {
    if (bytes[id].empty()) continue;
    const auto [entry, added] = ids_.try_emplace(bytes[id], static_cast<int32_t>(id));
    // Of single bytes that come twice the first is the fallback of vocabularies of characters.
    if (!added && bytes[id].size() == 1) entry->second = static_cast<int32_t>(id);
  }
}

std::vector<int32_t> TokenSpeller::Spell(std::string_view text) const {
  const auto id_of = [this](std::string_view piece) {
    const auto found = ids_.find(piece);
    return found == ids_.end() ? kNoToken : found->second;
  };
  std::vector<std::string_view> pieces;
  std::vector<int32_t> merged;  // of each piece with the one behind it
  for (size_t i = 0; i < text.size(); ++i) {
    pieces.push_back(text.substr(i, 1));
    if (id_of(pieces.back()) == kNoToken) return {};
    merged.push_back(id_of(text.substr(i, 2)));
  }
  if (text.empty()) return {};
  merged.back() = kNoToken;
  const auto merge = [&](size_t i) {
    const size_t size = pieces[i].size() + (i + 1 < pieces.size() ? pieces[i + 1].size() : 0);
    merged[i] = i + 1 < pieces.size() ? id_of({pieces[i].data(), size}) : kNoToken;
  };
  for (;;) {
    const auto best = std::min_element(merged.begin(), merged.end());
    if (*best == kNoToken) break;
    const auto i = static_cast<size_t>(best - merged.begin());
    pieces[i] = {pieces[i].data(), pieces[i].size() + pieces[i + 1].size()};
    pieces.erase(pieces.begin() + static_cast<ptrdiff_t>(i) + 1);
    merged.erase(merged.begin() + static_cast<ptrdiff_t>(i) + 1);
    merge(i);
    if (i > 0) merge(i - 1);
  }
  std::vector<int32_t> tokens;
  tokens.reserve(pieces.size());
  for (const std::string_view piece : pieces) tokens.push_back(id_of(piece));
  return tokens;
}

}  // namespace sluice
