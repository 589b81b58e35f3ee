// Chooses the replica for a request by what the replicas' KV caches know of its prompt, weighed with
// their load: the positions that are left to compute, those that wait there, and those whose keys and
// values are read in every step. The cost is that of Dynamo's KV router with equal weights. Not
// thread-safe.
#pragma once

#include <array>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "orchestrator/kv_cache/kv_cache.h"

namespace sluice {

// A replica as the router sees it.
struct ReplicaLoad {
  const KvCache* cache = nullptr;  // null: it does not serve
  int64_t waiting_positions = 0;   // of sequences in its queue
  int64_t held_positions = 0;      // of sequences that run
};

class PrefixRouter {
 public:
  // The replica of the smallest cost; of several, the next in turn. REQUIRES: one of them serves.
  size_t Pick(absl::Span<const TokenId> prompt, const PrefixDomain& domain,
              absl::Span<const ReplicaLoad> loads);

 private:
  static constexpr int kHolders = 4;
  using Replicas = std::array<int16_t, kHolders>;  // the latest first; -1: none

  // Adds replicas to which prompts with this beginning went, those of the longest first.
  void FindHolders(absl::Span<const TokenId> prompt, Replicas& found);
  void Remember(size_t replica);

  // By a hash of the first so many tokens; where a cache has evicted them since, it says so itself.
  absl::flat_hash_map<uint64_t, Replicas> holders_;
  std::vector<uint64_t> beginnings_;  // of the prompt being sent, the shortest first
  size_t next_ = 0;
};

}  // namespace sluice
