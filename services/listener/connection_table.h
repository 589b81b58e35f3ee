// The connections of a listener, what each has consumed, and which to close. Budgets limit what a
// peer consumes before it is admitted: before one of its calls has presented the required token or
// certificate or, where none is required, has sent its service a message, or most of a large one.
//
// A connection is served only once its host has room for the streams that it may begin before it is
// admitted; until then it waits, unread. So the processor time that a host takes has a bound, however
// many connections it makes and however much it sends on them at once.
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
  ConnectionTable(const ListenerLimits& limits, int most_streams);

  // A connection of `host` has been accepted, and waits to be served. The oldest connection that has
  // not been admitted makes room for it where there is none: of the same host where that has its
  // share, else of the host with most of them.
  Arrival Add(absl::string_view host, absl::Duration now);

  struct Begin {
    Id id = 0;         // it is to be served; 0: none is, for now
    Id displaced = 0;  // removed from the table, to be closed
  };
  // Which of the waiting connections is served next: the oldest one of each host in rotation, where
  // the streams of its host's connections that are not admitted leave room. One that has been served
  // for a second without being admitted makes room for those that wait. To be called until it returns
  // neither, after each arrival and every few milliseconds while num_waiting() is above 0.
  Begin BeginNext(absl::Duration now);
  size_t num_waiting() const { return num_waiting_; }
  // All do nothing for a connection that is not in the table.
  void Remove(Id id);
  void Admit(Id id);
  // Where nothing is required, a service waits for a message: what comes now may be a large one.
  void ExpectMessage(Id id);
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
    Host(TokenBucket arrivals, TokenBucket failures, TokenBucket early_bytes,
         TokenBucket early_streams)
        : arrivals(arrivals),
          failures(failures),
          early_bytes(early_bytes),
          early_streams(early_streams) {}
    int connections = 0;
    std::set<Id> not_admitted;
    std::set<Id> waiting;  // of these
    // Streams that those which are served may begin before they are looked at again.
    double reserved = 0;
    TokenBucket arrivals;
    TokenBucket failures;  // of streams
    TokenBucket early_bytes;
    TokenBucket early_streams;
  };
  using Hosts = std::map<std::string, Host, std::less<>>;

  struct Connection {
    Hosts::iterator host;
    TokenBucket failures;  // of streams, once admitted
    TokenBucket early_failures;
    bool admitted = false;
    bool expects_message = false;
    absl::Duration served_since = absl::InfiniteDuration();
    double reserved = 0;       // of its host's
    double early_streams = 0;  // taken from its host's and from those of all
    uint64_t messages = 0;
    absl::Duration idle_since =
        absl::InfiniteDuration();  // with too many streams without a message
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
  void StopWaiting(Id id, Connection& connection);
  // Each: so many for the connection, no more and no less.
  void Reserve(Connection& connection, double streams);
  void SetEarlyStreams(Connection& connection, double streams, absl::Duration now);
  // The host that may have a connection served next.
  Hosts::iterator NextWaitingHost(absl::Duration now);
  // The oldest of its connections that are served, where it has had its time; 0: there is none.
  Id OldestOnTrial(const Host& host, absl::Duration now) const;
  // Which connection has to make room for those that wait; 0: none, for now.
  Id DisplacedByWaiting(absl::Duration now);
  void CountEarlyStreams(Connection& connection, absl::Duration now);
  bool HasTooManyIdleStreams(Connection& connection, absl::Duration now);
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
  std::set<std::string, std::less<>> waiting_hosts_;  // those with connections that wait
  std::string last_begun_;                            // the host whose turn it was last
  size_t num_waiting_ = 0;
  double reserved_ = 0;
  TokenBucket early_streams_;
};

}  // namespace sluice
