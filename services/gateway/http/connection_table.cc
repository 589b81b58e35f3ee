#include "services/gateway/http/connection_table.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace sluice::http {

ConnectionTable::Entry::~Entry() {
  absl::MutexLock lock(&table_.mutex_);
  if (!is_ending_) table_.Forget(*this);
}

void ConnectionTable::Entry::SetWaiting(bool waiting) {
  absl::MutexLock lock(&table_.mutex_);
  if (is_ending_ || waiting == is_waiting_) return;
  if (!waiting) return table_.StopWaiting(*this);
  std::list<Entry*>& list = table_.peers_[peer_].waiting;
  place_ = list.insert(list.end(), this);
  is_waiting_ = true;
}

bool ConnectionTable::Entry::SetBytes(uint64_t bytes) {
  absl::MutexLock lock(&table_.mutex_);
  if (is_ending_) return bytes == 0;
  table_.waiting_bytes_ += bytes - bytes_;
  bytes_ = bytes;
  while (table_.waiting_bytes_ > table_.limits_.max_waiting_bytes && bytes > 0) {
    Entry* const victim = table_.Victim();
    if (victim == nullptr || victim == this) return false;
    table_.Evict(*victim);
  }
  return true;
}

std::unique_ptr<ConnectionTable::Entry> ConnectionTable::Add(std::string peer,
                                                             std::function<void()> close) {
  absl::MutexLock lock(&mutex_);
  while (size_ >= limits_.max_connections) {
    Entry* const victim = Victim();
    if (victim == nullptr) return nullptr;
    Evict(*victim);
  }
  ++size_;
  ++peers_[peer].count;
  return std::unique_ptr<Entry>(new Entry(*this, std::move(peer), std::move(close)));
}

bool ConnectionTable::EvictOne() {
  absl::MutexLock lock(&mutex_);
  Entry* const victim = Victim();
  if (victim != nullptr) Evict(*victim);
  return victim != nullptr;
}

int ConnectionTable::size() const {
  absl::MutexLock lock(&mutex_);
  return size_;
}

int64_t ConnectionTable::num_evicted() const {
  absl::MutexLock lock(&mutex_);
  return num_evicted_;
}

ConnectionTable::Entry* ConnectionTable::Victim() {
  const Peer* largest = nullptr;
  for (const auto& [name, peer] : peers_) {
    if (peer.waiting.empty()) continue;
    if (largest == nullptr || peer.count > largest->count) largest = &peer;
  }
  return largest == nullptr ? nullptr : largest->waiting.front();
}

void ConnectionTable::Evict(Entry& victim) {
  ++num_evicted_;
  Forget(victim);
  victim.is_ending_ = true;
  victim.close_();
}

void ConnectionTable::Forget(Entry& entry) {
  StopWaiting(entry);
  waiting_bytes_ -= entry.bytes_;
  entry.bytes_ = 0;
  --size_;
  const auto peer = peers_.find(entry.peer_);
  if (--peer->second.count == 0) peers_.erase(peer);
}

void ConnectionTable::StopWaiting(Entry& entry) {
  if (!std::exchange(entry.is_waiting_, false)) return;
  peers_[entry.peer_].waiting.erase(entry.place_);
}

std::string PeerOf(absl::string_view address) {
  if (!absl::StrContains(address, ':')) return std::string(address);
  // Boost writes addresses in their shortest form: what "::" leaves out is zeros.
  std::vector<std::string> groups = absl::StrSplit(address, ':');
  for (size_t i = 0; i < groups.size() && i < 4; ++i) {
    if (!groups[i].empty()) continue;
    groups.resize(i);
    break;
  }
  groups.resize(std::min<size_t>(groups.size(), 4));
  return absl::StrJoin(groups, ":") + "::/64";
}

}  // namespace sluice::http
