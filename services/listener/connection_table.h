// The connections of a listener, what each has consumed, and which to close. Budgets limit what a
// peer consumes before it is admitted: before one of its calls has presented the required token or
// certificate or, where none is required, has reached its service.
//
// A pure state machine; times are of a steady clock.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/listener/limits.h"
#include "services/listener/token_bucket.h"

namespace sluice {

class ConnectionTable {
 public:
  using Id = uint64_t;  // grows with time; 0: none

  // Streams of a connection since its beginning.
  struct Streams {
    uint64_t started = 0;
    uint64_t ended = 0;
    uint64_t failed = 0;  // of those that ended: reset by the client or lost
  };

  struct Arrival {
    Id id = 0;                      // 0: it is to be closed
    const char* refusal = nullptr;  // why
    Id displaced = 0;               // removed from the table, to be closed too
  };

  // `most_streams`: of one connection at a time.
  ConnectionTable(const ListenerLimits& limits, int most_streams)
      : limits_(limits), most_streams_(most_streams) {}

  // A connection of `host` has been accepted. The oldest connection that has not been admitted
  // makes room for it where there is none: of the same host where that has its share, else of the
  // host with most of them.
  Arrival Add(absl::string_view host, absl::Duration now);
  // All do nothing for a connection that is not in the table.
  void Remove(Id id);
  void Admit(Id id);
  bool IsAdmitted(Id id) const;
  // It is closed for what it has taken: its host may connect less often for a while.
  void CountAbuse(Id id, absl::Duration now);
  // A message of so many bytes has been handed to a handler.
  void CountMessage(Id id, uint64_t bytes);

  // What has been observed of a connection. Returns why it has to be closed; null: it may stay.
  const char* OnReceived(Id id, uint64_t total_bytes, absl::Duration now);
  const char* OnStreams(Id id, const Streams& streams, absl::Duration now);

  struct Excess {
    Id id = 0;  // 0: all is within the limits
    const char* cause = nullptr;
    bool is_of_streams = false;
  };
  // Of the connections together: which one has to be closed first, by what it holds.
  Excess FindExcess(absl::Duration now) const;

  size_t size() const { return connections_.size(); }
  size_t num_hosts() const { return hosts_.size(); }

 private:
  struct Host {
    Host(TokenBucket arrivals, TokenBucket failures, TokenBucket early_bytes)
        : arrivals(arrivals), failures(failures), early_bytes(early_bytes) {}
    int connections = 0;
    std::set<Id> not_admitted;
    TokenBucket arrivals;
    TokenBucket failures;  // of streams
    TokenBucket early_bytes;
  };
  using Hosts = std::map<std::string, Host, std::less<>>;

  struct Connection {
    Hosts::iterator host;
    TokenBucket failures;  // of streams, once admitted
    TokenBucket early_failures;
    bool admitted = false;
    uint64_t received = 0;
    // Bytes that no handler has seen, at `level_at`, and what has been handed over since.
    double level = 0;
    double handed_over = 0;
    double early_bytes = 0;  // taken from its host's
    absl::Duration level_at;
    absl::Duration over_since = absl::InfiniteDuration();  // one of the early budgets
    Streams streams;
  };

  Host& HostOf(absl::string_view name, absl::Duration now);
  void ForgetIdleHosts(absl::Duration now);
  Id OldestNotAdmitted() const;
  // Whether an early budget has been exceeded for so long that no handler is about to admit the
  // connection.
  static bool LastsTooLong(Connection& connection, bool is_over, absl::Duration now);
  double LevelOf(const Connection& connection, absl::Duration now) const;

  const ListenerLimits limits_;
  const int most_streams_;
  Id last_id_ = 0;
  Hosts hosts_;
  std::unordered_map<Id, Connection> connections_;
};

}  // namespace sluice
