#include "orchestrator/capacity/prefix_router.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "kernels/check.h"

namespace sluice {
namespace {

// Beginnings are remembered at multiples of so many tokens.
constexpr size_t kStride = 128;
// More are forgotten together: the caches know better what is left of them.
constexpr size_t kMostBeginnings = size_t{1} << 22;

}  // namespace

void PrefixRouter::FindHolders(absl::Span<const TokenId> prompt, Replicas& found) {
  beginnings_.clear();
  uint64_t hash = 0x9e3779b97f4a7c15u;
  for (size_t i = 0; i < prompt.size(); ++i) {
    hash = std::rotl((hash ^ static_cast<uint32_t>(prompt[i])) * 0xbf58476d1ce4e5b9u, 31);
    if ((i + 1) % kStride == 0) beginnings_.push_back(hash);
  }
  auto next = found.begin();
  for (auto beginning = beginnings_.rbegin(); beginning != beginnings_.rend(); ++beginning) {
    const auto known = holders_.find(*beginning);
    if (known == holders_.end()) continue;
    for (const int16_t replica : known->second) {
      if (replica < 0 || std::find(found.begin(), next, replica) != next) continue;
      *next++ = replica;
      if (next == found.end()) return;
    }
  }
}

void PrefixRouter::Remember(size_t replica) {
  if (holders_.size() > kMostBeginnings) holders_.clear();
  const auto chosen = static_cast<int16_t>(replica);
  for (const uint64_t beginning : beginnings_) {
    const auto [known, added] = holders_.try_emplace(beginning);
    if (added) known->second.fill(-1);
    Replicas& replicas = known->second;
    auto last = std::find(replicas.begin(), replicas.end(), chosen);
    if (last == replicas.end()) --last;
    std::copy_backward(replicas.begin(), last, last + 1);
    replicas.front() = chosen;
  }
}

size_t PrefixRouter::Pick(absl::Span<const TokenId> prompt, const PrefixDomain& domain,
                          absl::Span<const ReplicaLoad> loads) {
  Replicas holders;
  holders.fill(-1);
  FindHolders(prompt, holders);
  size_t best = loads.size();
  int64_t least = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i < loads.size(); ++i) {
    const size_t replica = (next_ + i) % loads.size();
    const ReplicaLoad& load = loads[replica];
    if (load.cache == nullptr) continue;
    int64_t cost = std::ssize(prompt) + load.waiting_positions + load.held_positions;
    const auto number = static_cast<int16_t>(replica);
    if (std::find(holders.begin(), holders.end(), number) != holders.end()) {
      cost -= load.cache->CountKnown(domain, prompt);
    }
    if (cost >= least) continue;
    least = cost;
    best = replica;
  }
  SLUICE_CHECK(best < loads.size());
  next_ = best + 1;
  Remember(best);
  return best;
}

}  // namespace sluice
