// State of a server's peers, shared by handlers and the acceptor: which are authenticated, how much
// was read, which connections to close. Thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/listener/connection_table.h"
#include "services/listener/event_counts.h"
#include "services/listener/limits.h"

namespace sluice {

class ConnectionGuard {
 public:
  struct Options {
    ListenerLimits limits;
    int most_streams_per_connection = 4096;
    // Receives what is worth a line of log, from any thread; null: nothing does.
    std::function<void(const PeerEvent&)> on_event;
  };

  explicit ConnectionGuard(Options options);

  const ListenerLimits& limits() const { return options_.limits; }
  int most_streams_per_connection() const { return options_.most_streams_per_connection; }

  // ---- For handlers. `peer` as gRPC names it, such as "ipv4:10.0.0.7:5123"; of peers on unix sockets
  // and in this process nothing is counted. ----

  // A call of the peer has been admitted.
  void OnAdmitted(absl::string_view peer);
  // A call that need not prove anything waits for its message.
  void OnCalled(absl::string_view peer);
  // A call of the peer has been refused, as `cause` says: a text without anything of the peer's.
  void OnRefused(absl::string_view peer, absl::string_view cause);
  // A message of the peer has been read.
  void OnMessage(absl::string_view peer, size_t bytes);

  // ---- For the acceptor. ----

  using Id = ConnectionTable::Id;
  ConnectionTable::Arrival Add(absl::string_view peer);
  // As ConnectionTable::BeginNext.
  ConnectionTable::Begin BeginNext();
  size_t num_waiting() const;
  void Remove(Id id, absl::string_view peer);
  void OnAbuse(Id id);
  bool IsAdmitted(Id id) const;
  const char* OnReceived(Id id, uint64_t total_bytes);
  const char* OnStreams(Id id, const ConnectionTable::Streams& streams);
  ConnectionTable::Excess FindExcess() const;
  void Report(absl::string_view event, absl::string_view peer, absl::string_view cause);
  // Reports what has been counted for a second.
  void ReportDue();

 private:
  void Send(const std::vector<PeerEvent>& events) const;

  const Options options_;
  mutable absl::Mutex mutex_;
  ConnectionTable table_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<std::string, Id> ids_ ABSL_GUARDED_BY(mutex_);  // by peer
  EventCounts counts_ ABSL_GUARDED_BY(mutex_);
};

// The host of a peer as gRPC names it: "ipv4:10.0.0.7:5123" is "10.0.0.7", and of an IPv6 address
// it is the network of 64 bits that one subscriber has, "2001:db8:0:1::/64". Others stay as they
// are.
std::string HostOfConnection(absl::string_view peer);

}  // namespace sluice
