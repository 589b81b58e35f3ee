// Chooses the replica for a request: by the longest beginning of its prompt that a replica is known to
// hold, weighed with load; by consistent hashing of the beginning while nothing is known.
//
// The cost of a replica is a number of positions, the smallest is chosen:
//
//   prompt - known + waiting + held + assumed + lacking
//
// prompt - known are to be computed; `waiting` are to be computed before them; `held` are read in
// every step; `assumed` are those of requests that were sent there and that its last report may not
// count yet; `lacking` are those for which it has no blocks. Of costs within 256 of the least the
// replica with the longest known beginning is chosen; while no replica knows anything of the prompt,
// of costs within its length, the one that rendezvous hashing puts first, so that choosers that know
// nothing of each other choose alike. Prompts too short to have a key go to the least cost, in turns.
//
// Pure: no clock (the caller says the time, in seconds from any origin), no I/O. The same calls make
// the same choices. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "services/common/prefix_key.h"
#include "services/routing/prompt_keys.h"

namespace sluice {

// What a replica says of itself (KvLoad of protos/sluice/v1/kv_events.proto).
struct ReplicaLoad {
  bool serving = true;
  int64_t waiting_tokens = 0;
  int64_t held_tokens = 0;
  int64_t available_tokens = INT64_MAX;  // for which there are blocks

  friend bool operator==(const ReplicaLoad&, const ReplicaLoad&) = default;
};

// A number that stands for a replica while it is there; -1: none.
using ReplicaId = int;

struct ReplicaChoice {
  ReplicaId replica = -1;
  int64_t known_tokens = 0;    // of the prompt, there
  int64_t assumed_tokens = 0;  // what the replica was charged with; for Begun
};

class ReplicaChooser {
 public:
  ReplicaChooser();
  ReplicaChooser(const ReplicaChooser&) = delete;
  ReplicaChooser& operator=(const ReplicaChooser&) = delete;

  // `name` decides where hashing puts prompts: the same everywhere for the same replica.
  ReplicaId Add(const std::string& name);
  // It is chosen no more. Its number may be given to another.
  void Remove(ReplicaId replica);
  int num_replicas() const { return num_replicas_; }

  // What it holds, as it says. Unknown replicas are ignored.
  void Stored(ReplicaId replica, absl::Span<const PrefixKey> keys,
              absl::Span<const int32_t> num_positions);
  void Dropped(ReplicaId replica, absl::Span<const PrefixKey> keys);
  // It holds nothing, as far as is known.
  void Forget(ReplicaId replica);
  void SetLoad(ReplicaId replica, const ReplicaLoad& load);
  // It says nothing any more: its load is unknown.
  void ForgetLoad(ReplicaId replica);

  // Frees what is kept of replicas that were removed or forgotten, at most so many keys; true where
  // there is more. To be called now and then.
  bool Sweep(size_t most_keys);

  // Chooses among replicas for which `may` is true (all where it is empty), and notes that the prompt
  // goes there. -1 where there is none. `scope` is that of its keys; 0: not known yet.
  ReplicaChoice Choose(const PromptKeys& prompt, PrefixKey scope, double now,
                       const std::function<bool(ReplicaId)>& may = nullptr);
  // What was chosen has begun to answer, or will not: charges are dropped of replicas that do not say
  // how busy they are.
  void Begun(const ReplicaChoice& choice);
  // A prompt of so many bytes of text had so many tokens.
  void Learn(uint64_t num_bytes, int64_t num_tokens);

  // Tokens of the prompt that the replica is known to hold.
  int64_t KnownTokens(ReplicaId replica, const PromptKeys& prompt, PrefixKey scope) const;
  size_t num_keys() const;

 private:
  // Replicas are columns of bits; a replica that is forgotten gets a new one, and the old one is
  // swept. A bank has 64.
  static constexpr int kBankSize = 64;
  struct Holders {
    uint64_t columns = 0;
    int32_t num_positions = 0;
  };
  struct Bank {
    absl::flat_hash_map<PrefixKey, Holders> holders;
    std::array<absl::flat_hash_set<PrefixKey>, kBankSize> keys;  // by column
    std::array<ReplicaId, kBankSize> owners = {};                // -1: none
    uint64_t free = ~uint64_t{0};                                // columns
    uint64_t retired = 0;                                        // to be swept
  };
  struct Replica {
    bool is_there = false;
    PrefixKey name = 0;
    int column = -1;  // bank * 64 + bit
    bool reports = false;
    ReplicaLoad load;
    int64_t assumed = 0;         // since the last report
    int64_t assumed_before = 0;  // since the one before it
    double charges_since = 0;    // of the last time that charges were dropped
  };
  // Prompts that went to a replica and that it may not have computed yet.
  struct Expected {
    ReplicaId replica = -1;
    uint64_t number = 0;
    double since = 0;
  };

  int TakeColumn(ReplicaId owner);
  void RetireColumn(int column);
  bool IsThere(ReplicaId replica) const;
  void FindKnown(const PromptKeys& prompt, PrefixKey scope, double now);
  void Expect(const PromptKeys& prompt, PrefixKey scope, ReplicaId replica, double now);
  void DropOldCharges(double now);
  int64_t CostOf(const Replica& replica, int64_t prompt, int64_t known) const;

  std::vector<std::unique_ptr<Bank>> banks_;
  std::vector<Replica> replicas_;  // by id
  int num_replicas_ = 0;
  absl::flat_hash_map<PrefixKey, Expected> expected_;
  std::deque<std::pair<PrefixKey, uint64_t>> expected_order_;
  uint64_t num_expected_ = 0;  // ever
  double bytes_per_token_ = 4;
  size_t next_ = 0;  // for prompts without keys
  // Of a choice.
  std::vector<int64_t> known_;      // by replica
  std::vector<size_t> known_keys_;  // those of the prompt that it says it holds
  std::vector<int64_t> costs_;
};

}  // namespace sluice
