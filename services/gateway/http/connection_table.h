// The connections of a server by their peers, so that connections on which no request is being
// served never keep new ones out: where there is no room, the one that has waited longest gives way,
// of the peer that has the most. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace sluice::http {

class ConnectionTable {
 public:
  struct Limits {
    int max_connections = 4096;
    // What connections whose requests are not admitted yet may hold together.
    uint64_t max_waiting_bytes = uint64_t{64} << 20;
  };

  // A connection's entry, from its accept to its end. Of the connection's loop. Outlived by its
  // table.
  class Entry {
   public:
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    ~Entry();

    const std::string& peer() const { return peer_; }
    // Whether it gives way to others, as connections do that wait for a request or its end.
    void SetWaiting(bool waiting);
    // What it holds of a request that is not admitted. Others may be closed for it; false where it
    // has to give way itself.
    bool SetBytes(uint64_t bytes);

   private:
    friend class ConnectionTable;
    Entry(ConnectionTable& table, std::string peer, std::function<void()> close)
        : table_(table), peer_(std::move(peer)), close_(std::move(close)) {}

    ConnectionTable& table_;
    const std::string peer_;
    const std::function<void()> close_;
    // Guarded by the table's mutex:
    uint64_t bytes_ = 0;
    bool is_ending_ = false;   // was asked to end, and counts no more
    bool is_waiting_ = false;  // is in its peer's list, at:
    std::list<Entry*>::iterator place_;
  };

  explicit ConnectionTable(const Limits& limits) : limits_(limits) {}

  // `close` asks the connection to end, from any thread; it must not end within the call. Null where
  // there is no room and none gives way.
  std::unique_ptr<Entry> Add(std::string peer, std::function<void()> close);
  // Has one connection give way, as where descriptors are used up. False where none does.
  bool EvictOne();

  int size() const;
  int64_t num_evicted() const;

 private:
  struct Peer {
    int count = 0;
    std::list<Entry*> waiting;  // the oldest first
  };

  // Null where none gives way.
  Entry* Victim() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Evict(Entry& victim) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The entry counts no more.
  void Forget(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StopWaiting(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Limits limits_;
  mutable absl::Mutex mutex_;
  std::map<std::string, Peer> peers_ ABSL_GUARDED_BY(mutex_);
  int size_ ABSL_GUARDED_BY(mutex_) = 0;  // without those that were asked to end
  uint64_t waiting_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t num_evicted_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The peer that an address counts as: an IPv4 address, the /64 of an IPv6 one, which is what one
// subscriber has.
std::string PeerOf(absl::string_view address);

}  // namespace sluice::http
