#include "services/routing/replica_chooser.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "services/routing/rendezvous.h"

namespace sluice {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
// Of beginnings that are expected to be held, all together.
constexpr size_t kMostExpected = size_t{1} << 16;
// After which what a replica has not said it holds counts as not held.
constexpr double kExpectedSeconds = 60;
// While nothing is known of a prompt, hashing decides among replicas whose costs are so close.
constexpr int64_t kLeastSlack = 512;
// Of the keys of long prompts every fourth is expected: what is expected is soon held, or not.
constexpr bool IsExpected(size_t index) { return index < 32 || index % 4 == 3; }
// What was sent to a replica longer ago than once to twice this is counted in what it reports.
constexpr double kReportSeconds = 0.2;
// Costs that are closer count as equal where something is known: reports are a moment old.
constexpr int64_t kNoise = 256;
// Weight of the latest prompt in the mean of bytes per token.
constexpr double kLatest = 1.0 / 64;

}  // namespace

ReplicaChooser::ReplicaChooser() { expected_.reserve(kMostExpected); }

// ---- Replicas ----

ReplicaId ReplicaChooser::Add(const std::string& name) {
  const auto free = std::find_if(replicas_.begin(), replicas_.end(),
                                 [](const Replica& replica) { return !replica.is_there; });
  const auto id = static_cast<ReplicaId>(free - replicas_.begin());
  if (free == replicas_.end()) replicas_.emplace_back();
  replicas_[id] = {.is_there = true, .name = KeyOfBytes(name), .column = TakeColumn(id)};
  ++num_replicas_;
  return id;
}

void ReplicaChooser::Remove(ReplicaId replica) {
  if (!IsThere(replica)) return;
  RetireColumn(replicas_[replica].column);
  replicas_[replica] = {};
  --num_replicas_;
}

bool ReplicaChooser::IsThere(ReplicaId replica) const {
  return replica >= 0 && replica < std::ssize(replicas_) && replicas_[replica].is_there;
}

int ReplicaChooser::TakeColumn(ReplicaId owner) {
  size_t index = 0;
  while (index < banks_.size() && banks_[index]->free == 0) ++index;
  if (index == banks_.size()) banks_.push_back(std::make_unique<Bank>());
  Bank& bank = *banks_[index];
  const int bit = std::countr_zero(bank.free);
  bank.free &= bank.free - 1;
  bank.owners[bit] = owner;
  return static_cast<int>(index) * kBankSize + bit;
}

void ReplicaChooser::RetireColumn(int column) {
  Bank& bank = *banks_[column / kBankSize];
  const int bit = column % kBankSize;
  bank.owners[bit] = -1;
  (bank.keys[bit].empty() ? bank.free : bank.retired) |= uint64_t{1} << bit;
}

bool ReplicaChooser::Sweep(size_t most_keys) {
  for (const std::unique_ptr<Bank>& bank : banks_) {
    while (bank->retired != 0) {
      const int bit = std::countr_zero(bank->retired);
      const uint64_t mask = uint64_t{1} << bit;
      absl::flat_hash_set<PrefixKey>& keys = bank->keys[bit];
      for (; !keys.empty() && most_keys > 0; --most_keys) {
        const auto held = bank->holders.find(*keys.begin());
        if ((held->second.columns &= ~mask) == 0) bank->holders.erase(held);
        keys.erase(keys.begin());
      }
      if (!keys.empty()) return true;
      keys = {};
      bank->retired &= ~mask;
      bank->free |= mask;
    }
  }
  return false;
}

void ReplicaChooser::SetLoad(ReplicaId id, const ReplicaLoad& load) {
  if (!IsThere(id)) return;
  Replica& replica = replicas_[id];
  replica.load = load;
  replica.reports = true;
  // A report may have been on its way when a request was sent; the one after it counts the request.
  replica.assumed_before = std::exchange(replica.assumed, 0);
}

void ReplicaChooser::ForgetLoad(ReplicaId id) {
  if (!IsThere(id)) return;
  replicas_[id].load = {};
  replicas_[id].reports = false;
  replicas_[id].assumed = replicas_[id].assumed_before = 0;
}

// ---- What they hold ----

void ReplicaChooser::Stored(ReplicaId id, absl::Span<const PrefixKey> keys,
                            absl::Span<const int32_t> num_positions) {
  if (!IsThere(id)) return;
  const int column = replicas_[id].column;
  Bank& bank = *banks_[column / kBankSize];
  const int bit = column % kBankSize;
  for (size_t i = 0; i < std::min(keys.size(), num_positions.size()); ++i) {
    Holders& holders = bank.holders[keys[i]];
    holders.columns |= uint64_t{1} << bit;
    holders.num_positions = num_positions[i];
    bank.keys[bit].insert(keys[i]);
  }
}

void ReplicaChooser::Dropped(ReplicaId id, absl::Span<const PrefixKey> keys) {
  if (!IsThere(id)) return;
  const int column = replicas_[id].column;
  Bank& bank = *banks_[column / kBankSize];
  const int bit = column % kBankSize;
  for (const PrefixKey key : keys) {
    if (const auto expected = expected_.find(key);
        expected != expected_.end() && expected->second.replica == id) {
      expected_.erase(expected);
    }
    if (bank.keys[bit].erase(key) == 0) continue;
    const auto held = bank.holders.find(key);
    if ((held->second.columns &= ~(uint64_t{1} << bit)) == 0) bank.holders.erase(held);
  }
}

void ReplicaChooser::Forget(ReplicaId id) {
  if (!IsThere(id)) return;
  RetireColumn(std::exchange(replicas_[id].column, TakeColumn(id)));
}

size_t ReplicaChooser::num_keys() const {
  size_t count = 0;
  for (const std::unique_ptr<Bank>& bank : banks_) count += bank->holders.size();
  return count;
}

// From the longest beginning to the shortest, until every replica is found.
void ReplicaChooser::FindKnown(const PromptKeys& prompt, PrefixKey scope, double now) {
  known_.assign(replicas_.size(), 0);
  known_keys_.assign(replicas_.size(), 0);
  if (scope == 0) return;
  std::array<uint64_t, 16> missing_in_first = {};
  std::vector<uint64_t> more;
  uint64_t* missing = missing_in_first.data();
  if (banks_.size() > missing_in_first.size()) {
    more.resize(banks_.size());
    missing = more.data();
  }
  int num_missing = num_replicas_;
  for (size_t i = 0; i < banks_.size(); ++i) missing[i] = ~(banks_[i]->free | banks_[i]->retired);
  const int64_t num_tokens = prompt.NumTokens(bytes_per_token_);
  for (size_t index = prompt.keys.size(); index-- > 0 && num_missing > 0;) {
    const PrefixKey key = KeyInScope(prompt.keys[index], scope);
    for (size_t i = 0; i < banks_.size(); ++i) {
      const auto held = banks_[i]->holders.find(key);
      if (held == banks_[i]->holders.end()) continue;
      uint64_t found = held->second.columns & missing[i];
      missing[i] &= ~found;
      for (; found != 0; found &= found - 1, --num_missing) {
        const ReplicaId id = banks_[i]->owners[std::countr_zero(found)];
        known_[id] = std::min<int64_t>(held->second.num_positions, num_tokens);
        known_keys_[id] = index + 1;
      }
    }
    if (!IsExpected(index)) continue;
    const auto expected = expected_.find(key);
    if (expected == expected_.end()) continue;
    const ReplicaId id = expected->second.replica;
    if (!IsThere(id) || known_[id] > 0) continue;
    if (replicas_[id].reports && now - expected->second.since > kExpectedSeconds) continue;
    known_[id] = num_tokens * static_cast<int64_t>(BytesOfKey(index)) /
                 static_cast<int64_t>(std::max<uint64_t>(prompt.num_bytes, 1));
    uint64_t& in_bank = missing[replicas_[id].column / kBankSize];
    in_bank &= ~(uint64_t{1} << (replicas_[id].column % kBankSize));
    --num_missing;
  }
}

int64_t ReplicaChooser::KnownTokens(ReplicaId id, const PromptKeys& prompt, PrefixKey scope) const {
  if (!IsThere(id)) return 0;
  const int column = replicas_[id].column;
  const Bank& bank = *banks_[column / kBankSize];
  for (size_t index = prompt.keys.size(); index-- > 0;) {
    const auto held = bank.holders.find(KeyInScope(prompt.keys[index], scope));
    if (held == bank.holders.end()) continue;
    if ((held->second.columns >> (column % kBankSize) & 1) != 0) return held->second.num_positions;
  }
  return 0;
}

// Only what is longer than the beginning that it holds.
void ReplicaChooser::Expect(const PromptKeys& prompt, PrefixKey scope, ReplicaId replica,
                            double now) {
  if (scope == 0) return;
  ++num_expected_;
  for (size_t index = known_keys_[replica]; index < prompt.keys.size(); ++index) {
    if (!IsExpected(index)) continue;
    const PrefixKey key = KeyInScope(prompt.keys[index], scope);
    expected_[key] = {.replica = replica, .number = num_expected_, .since = now};
    expected_order_.emplace_back(key, num_expected_);
  }
  while (expected_order_.size() > kMostExpected) {
    const auto [key, number] = expected_order_.front();
    expected_order_.pop_front();
    const auto expected = expected_.find(key);
    if (expected != expected_.end() && expected->second.number == number) expected_.erase(expected);
  }
}

// ---- Choosing ----

void ReplicaChooser::DropOldCharges(double now) {
  for (Replica& replica : replicas_) {
    if (!replica.reports || now - replica.charges_since < kReportSeconds) continue;
    const bool all = now - replica.charges_since >= 2 * kReportSeconds;
    replica.assumed_before = all ? 0 : replica.assumed;
    replica.assumed = 0;
    replica.charges_since = now;
  }
}

int64_t ReplicaChooser::CostOf(const Replica& replica, int64_t prompt, int64_t known) const {
  const int64_t to_compute = std::max<int64_t>(prompt - known, 0);
  const ReplicaLoad& load = replica.load;
  const int64_t lacking =
      std::max<int64_t>(to_compute - std::max<int64_t>(load.available_tokens, 0), 0);
  return to_compute + load.waiting_tokens + load.held_tokens + replica.assumed +
         replica.assumed_before + lacking;
}

ReplicaChoice ReplicaChooser::Choose(const PromptKeys& prompt, PrefixKey scope, double now,
                                     const std::function<bool(ReplicaId)>& may) {
  FindKnown(prompt, scope, now);
  DropOldCharges(now);
  const int64_t num_tokens = prompt.NumTokens(bytes_per_token_);
  costs_.assign(replicas_.size(), kNever);
  int64_t least = kNever;
  int64_t most_known = 0;
  for (const bool serving : {true, false}) {  // one that does not serve yet keeps what it is sent
    for (ReplicaId id = 0; id < std::ssize(replicas_); ++id) {
      const Replica& replica = replicas_[id];
      if (!replica.is_there || replica.load.serving != serving || (may != nullptr && !may(id))) {
        continue;
      }
      costs_[id] = CostOf(replica, num_tokens, known_[id]);
      least = std::min(least, costs_[id]);
      most_known = std::max(most_known, known_[id]);
    }
    if (least != kNever) break;
  }
  if (least == kNever) return {};
  const bool has_key = !prompt.keys.empty();
  int64_t slack = 0;
  if (has_key) slack = most_known == 0 ? std::max(num_tokens, kLeastSlack) : kNoise;
  ReplicaId best = -1;
  PrefixKey best_rank = 0;
  const size_t count = replicas_.size();
  for (size_t i = 0; i < count; ++i) {
    const size_t id = (next_ + i) % count;
    if (costs_[id] == kNever || costs_[id] - least > slack) continue;
    const PrefixKey rank = has_key ? RendezvousRank(replicas_[id].name, prompt.keys.front()) : 0;
    if (best != -1 && std::pair(known_[id], rank) <= std::pair(known_[best], best_rank)) continue;
    best = static_cast<ReplicaId>(id);
    best_rank = rank;
  }
  if (!has_key) next_ = static_cast<size_t>(best) + 1;
  const int64_t assumed = std::max<int64_t>(num_tokens - known_[best], 1);
  replicas_[best].assumed += assumed;
  Expect(prompt, scope, best, now);
  return {.replica = best, .known_tokens = known_[best], .assumed_tokens = assumed};
}

void ReplicaChooser::Begun(const ReplicaChoice& choice) {
  if (!IsThere(choice.replica) || replicas_[choice.replica].reports) return;
  int64_t& assumed = replicas_[choice.replica].assumed;
  assumed = std::max<int64_t>(assumed - choice.assumed_tokens, 0);
}

void ReplicaChooser::Learn(uint64_t num_bytes, int64_t num_tokens) {
  if (num_bytes == 0 || num_tokens <= 0) return;
  const double latest = static_cast<double>(num_bytes) / static_cast<double>(num_tokens);
  bytes_per_token_ += kLatest * (std::clamp(latest, 0.25, 64.0) - bytes_per_token_);
}

}  // namespace sluice
