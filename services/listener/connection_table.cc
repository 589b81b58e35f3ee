#include "services/listener/connection_table.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

// Bytes that may come from a peer before it is admitted: a handshake, metadata and the first messages
// of calls, each as far as HTTP/2's flow control lets it come before it is asked for. Of all such
// connections of a host together: 15 bytes can make a stream, which holds 5 KB.
constexpr double kEarlyBytes = 256 << 10;
constexpr double kBytesOfAMessage = 128 << 10;  // more than the heads of many calls have
constexpr double kEarlyBytesOfBadHost = 8 << 10;
// How long a server under load may take to look at the first call of a client that begins with many,
// and what is too much all the same.
constexpr absl::Duration kGrace = absl::Milliseconds(200);
constexpr double kMostEarlyBytes = 4 << 20;
constexpr uint64_t kMostEarlyStreams = 1000;
// Bytes a second that are nobody's message: frames of their own, metadata, pings, health checks.
constexpr double kOverheadBytesPerSecond = 64 << 10;
constexpr double kOverheadBytesPerMessage = 2 << 10;
// Streams that an unknown peer may have open, such as watches of health.
constexpr int kEarlyStreams = 64;
// Streams that a host may begin on connections that are not admitted, and without a message on those
// that are: at once, and a second. One takes 30 us of processor time (measured). For a connection that
// is not admitted kUnseenStreams are reserved when it begins to be served, and once it has been looked
// at as many as its bytes can make, kEarlyStreams at least. In the end it has taken no fewer than
// kStreamsOfAHandshake.
constexpr double kEarlyStreamsOfHost = 1024;
constexpr double kEarlyStreamsOfHostPerSecond = 256;
constexpr double kEarlyStreamsOfAll = 8192;
constexpr double kEarlyStreamsOfAllPerSecond = 2048;
constexpr double kUnseenStreams = 256;
constexpr double kBytesOfAStream = 16;
constexpr double kStreamsOfAHandshake = 16;
// How long a connection may keep others of its host waiting without being admitted.
constexpr absl::Duration kTrial = absl::Seconds(1);
// Streams without a message on an admitted connection, and for how long where its host has begun too
// many of them.
constexpr double kIdleStreams = 256;
constexpr absl::Duration kIdle = absl::Seconds(1);
// Streams that clients reset: a burst, and a rate. One that leaves all its calls at once is good.
constexpr double kEarlyFailures = 256;
constexpr double kEarlyFailuresPerSecond = 32;
constexpr double kFailuresPerSecond = 512;
// Of a host whose connections have reset too many, one is closed from so many of its own on.
constexpr double kFailuresOfBadHost = 64;
// A connection that had to be closed costs its host as many as so many good ones.
constexpr double kCostOfAbuse = 64;
constexpr size_t kMostIdleHosts = 4096;

}  // namespace

ConnectionTable::ConnectionTable(const ListenerLimits& limits, int most_streams)
    : limits_(limits),
      most_streams_(most_streams),
      early_streams_(kEarlyStreamsOfAllPerSecond, kEarlyStreamsOfAll, absl::ZeroDuration()) {}

ConnectionTable::Host& ConnectionTable::HostOf(absl::string_view name, absl::Duration now) {
  const auto found = hosts_.find(name);
  if (found != hosts_.end()) return found->second;
  if (hosts_.size() >= connections_.size() + kMostIdleHosts) ForgetIdleHosts(now);
  const double arrivals = limits_.connections_per_host;
  return hosts_
      .emplace(std::string(name),
               Host(TokenBucket(arrivals / 2, 2 * arrivals, now),
                    TokenBucket(kFailuresPerSecond, 4.0 * most_streams_, now),
                    TokenBucket(kOverheadBytesPerSecond, kEarlyBytes, now),
                    TokenBucket(kEarlyStreamsOfHostPerSecond, kEarlyStreamsOfHost, now)))
      .first->second;
}

void ConnectionTable::ForgetIdleHosts(absl::Duration now) {
  std::erase_if(hosts_, [now](const auto& entry) {
    const Host& host = entry.second;
    return host.connections == 0 && host.arrivals.missing(now) < 1 &&
           host.failures.missing(now) < 1 && host.early_bytes.missing(now) < 1 &&
           host.early_streams.missing(now) < 1;
  });
  // Of all that are left something is remembered: rather too little than without end.
  if (hosts_.size() >= connections_.size() + kMostIdleHosts) {
    std::erase_if(hosts_, [](const auto& entry) { return entry.second.connections == 0; });
  }
}

ConnectionTable::Id ConnectionTable::OldestNotAdmitted() const {
  const Host* most = nullptr;
  for (const auto& [name, host] : hosts_) {
    if (most == nullptr || host.not_admitted.size() > most->not_admitted.size()) most = &host;
  }
  return most == nullptr || most->not_admitted.empty() ? 0 : *most->not_admitted.begin();
}

ConnectionTable::Arrival ConnectionTable::Add(absl::string_view name, absl::Duration now) {
  Host& host = HostOf(name, now);
  if (!host.arrivals.TryTake(1, now)) return {.refusal = "its host connects too often"};
  Arrival arrival;
  if (host.connections >= limits_.connections_per_host) {
    if (host.not_admitted.empty()) return {.refusal = "its host has too many connections"};
    arrival.displaced = *host.not_admitted.begin();
  } else if (connections_.size() >= static_cast<size_t>(limits_.connections)) {
    arrival.displaced = OldestNotAdmitted();
    if (arrival.displaced == 0) return {.refusal = "there are too many connections"};
  }
  arrival.id = ++last_id_;
  host.not_admitted.insert(arrival.id);
  if (host.waiting.empty()) waiting_hosts_.insert(std::string(name));
  host.waiting.insert(arrival.id);
  ++num_waiting_;
  ++host.connections;
  const double failures = 2.0 * most_streams_;
  connections_.emplace(
      arrival.id,
      Connection{.host = hosts_.find(name),
                 .failures = TokenBucket(kFailuresPerSecond, failures, now),
                 .early_failures = TokenBucket(kEarlyFailuresPerSecond, kEarlyFailures, now),
                 .level_at = now,
                 .streams = {}});
  Remove(arrival.displaced);
  return arrival;
}

ConnectionTable::Hosts::iterator ConnectionTable::NextWaitingHost(absl::Duration now) {
  if (!early_streams_.Has(reserved_ + kUnseenStreams, now)) return hosts_.end();
  auto next = waiting_hosts_.upper_bound(last_begun_);
  for (size_t i = 0; i < waiting_hosts_.size(); ++i, ++next) {
    if (next == waiting_hosts_.end()) next = waiting_hosts_.begin();
    const auto found = hosts_.find(*next);
    Host& host = found->second;
    if (host.early_streams.Has(host.reserved + kUnseenStreams, now)) return found;
  }
  return hosts_.end();
}

ConnectionTable::Id ConnectionTable::OldestOnTrial(const Host& host, absl::Duration now) const {
  if (host.not_admitted.size() == host.waiting.size()) return 0;
  const Id oldest = *host.not_admitted.begin();  // those that wait have come later
  return now - connections_.at(oldest).served_since >= kTrial ? oldest : 0;
}

ConnectionTable::Begin ConnectionTable::BeginNext(absl::Duration now) {
  const auto host = NextWaitingHost(now);
  if (host != hosts_.end()) {
    const Id id = *host->second.waiting.begin();
    Connection& connection = connections_.at(id);
    StopWaiting(id, connection);
    connection.served_since = now;
    Reserve(connection, kUnseenStreams);
    last_begun_ = host->first;
    return {.id = id};
  }
  const Id displaced = DisplacedByWaiting(now);
  Remove(displaced);
  return {.displaced = displaced};
}

ConnectionTable::Id ConnectionTable::DisplacedByWaiting(absl::Duration now) {
  if (waiting_hosts_.empty() || !early_streams_.Has(kUnseenStreams, now)) return 0;
  if (early_streams_.Has(reserved_ + kUnseenStreams, now)) {
    for (const std::string& name : waiting_hosts_) {
      Host& host = hosts_.find(name)->second;
      // Else it is not room that it lacks.
      if (!host.early_streams.Has(kUnseenStreams, now)) continue;
      if (const Id oldest = OldestOnTrial(host, now); oldest != 0) return oldest;
    }
    return 0;
  }
  const Host* most = nullptr;
  for (const auto& [name, host] : hosts_) {
    if (most == nullptr || host.reserved > most->reserved) most = &host;
  }
  return OldestOnTrial(*most, now);
}

void ConnectionTable::StopWaiting(Id id, Connection& connection) {
  Host& host = connection.host->second;
  if (host.waiting.erase(id) == 0) return;
  --num_waiting_;
  if (host.waiting.empty()) waiting_hosts_.erase(connection.host->first);
}

void ConnectionTable::Reserve(Connection& connection, double streams) {
  const double more = streams - std::exchange(connection.reserved, streams);
  connection.host->second.reserved += more;
  reserved_ += more;
}

void ConnectionTable::SetEarlyStreams(Connection& connection, double streams, absl::Duration now) {
  TokenBucket& of_host = connection.host->second.early_streams;
  const double more = streams - std::exchange(connection.early_streams, streams);
  if (more > 0) {
    of_host.Take(more, now);
    early_streams_.Take(more, now);
  } else {
    of_host.Give(-more);
    early_streams_.Give(-more);
  }
}

void ConnectionTable::Remove(Id id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  Host& host = connection.host->second;
  if (!connection.admitted && connection.reserved > 0) {
    const double streams = std::max(connection.early_streams, kStreamsOfAHandshake);
    SetEarlyStreams(connection, streams, connection.level_at);
  }
  Reserve(connection, 0);
  StopWaiting(id, connection);
  host.not_admitted.erase(id);
  --host.connections;
  connections_.erase(found);
}

void ConnectionTable::Admit(Id id) {
  const auto found = connections_.find(id);
  if (found == connections_.end() || std::exchange(found->second.admitted, true)) return;
  Host& host = found->second.host->second;
  host.not_admitted.erase(id);
  host.early_bytes.Give(found->second.early_bytes);
  Reserve(found->second, 0);
  CountEarlyStreams(found->second, found->second.level_at);
}

void ConnectionTable::ExpectMessage(Id id) {
  const auto found = connections_.find(id);
  if (found != connections_.end()) found->second.expects_message = true;
}

bool ConnectionTable::IsAdmitted(Id id) const {
  const auto found = connections_.find(id);
  return found != connections_.end() && found->second.admitted;
}

void ConnectionTable::CountAbuse(Id id, absl::Duration now) {
  const auto found = connections_.find(id);
  if (found != connections_.end()) found->second.host->second.arrivals.Take(kCostOfAbuse, now);
}

void ConnectionTable::CountMessage(Id id, uint64_t bytes) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  found->second.handed_over += static_cast<double>(bytes) + kOverheadBytesPerMessage;
  ++found->second.messages;
  found->second.idle_since = absl::InfiniteDuration();
}

bool ConnectionTable::LastsTooLong(Connection& connection, bool is_over, absl::Duration now) {
  if (!is_over) return false;
  connection.over_since = std::min(connection.over_since, now);
  return now - connection.over_since >= kGrace;
}

double ConnectionTable::LevelOf(const Connection& connection, absl::Duration now) const {
  const double overhead =
      kOverheadBytesPerSecond * absl::ToDoubleSeconds(now - connection.level_at);
  return std::max(0.0, connection.level - connection.handed_over - std::max(0.0, overhead));
}

const char* ConnectionTable::OnReceived(Id id, uint64_t total_bytes, absl::Duration now) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return nullptr;
  Connection& connection = found->second;
  const double come = total_bytes > connection.received
                          ? static_cast<double>(total_bytes - connection.received)
                          : 0;
  connection.received = std::max(connection.received, total_bytes);
  const double more = come - connection.handed_over;
  connection.level += come;
  connection.level = LevelOf(connection, now);
  connection.handed_over = 0;
  connection.level_at = now;
  if (connection.expects_message && connection.level > kBytesOfAMessage) Admit(id);
  if (connection.admitted) return nullptr;
  if (connection.reserved > 0 && connection.streams.started == 0) {
    const double most = static_cast<double>(connection.received) / kBytesOfAStream;
    Reserve(connection, std::clamp<double>(most, kEarlyStreams, kEarlyStreamsOfHost));
  }
  TokenBucket& early_bytes = connection.host->second.early_bytes;
  const bool host_is_good = early_bytes.Take(std::max(more, 0.0), now);
  const double back = std::min(std::max(-more, 0.0), connection.early_bytes);
  early_bytes.Give(back);
  connection.early_bytes += std::max(more, 0.0) - back;
  const bool is_over = connection.level > kEarlyBytes;
  // One that has said little is not why.
  const bool is_bad = is_over || (!host_is_good && connection.level > kEarlyBytesOfBadHost);
  const bool too_long = LastsTooLong(connection, is_bad, now);
  if (!too_long && connection.level <= kMostEarlyBytes) return nullptr;
  return is_over ? "it sends too much before it is authenticated"
                 : "its host sends too much before it is authenticated";
}

void ConnectionTable::CountEarlyStreams(Connection& connection, absl::Duration now) {
  const auto started = static_cast<double>(connection.streams.started);
  const double idle = std::max(started - static_cast<double>(connection.messages), 0.0);
  SetEarlyStreams(connection, connection.admitted ? idle : started, now);
  if (!connection.admitted && started > 0) Reserve(connection, kEarlyStreams);
}

bool ConnectionTable::HasTooManyIdleStreams(Connection& connection, absl::Duration now) {
  const bool host_is_good = connection.host->second.early_streams.Has(0, now);
  if (!connection.admitted || host_is_good || connection.early_streams <= kIdleStreams) {
    connection.idle_since = absl::InfiniteDuration();
    return false;
  }
  connection.idle_since = std::min(connection.idle_since, now);
  return now - connection.idle_since >= kIdle;
}

const char* ConnectionTable::OnStreams(Id id, const Streams& streams, absl::Duration now) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return nullptr;
  Connection& connection = found->second;
  const uint64_t known = connection.streams.failed;
  const double failed = streams.failed > known ? static_cast<double>(streams.failed - known) : 0;
  connection.streams = streams;
  CountEarlyStreams(connection, now);
  const uint64_t open = streams.started > streams.ended ? streams.started - streams.ended : 0;
  // Those that the client may have begun before it heard of the limit.
  const uint64_t most = static_cast<uint64_t>(most_streams_) + kEarlyStreams;
  if (connection.admitted && open > most) return "it has too many streams";
  if (HasTooManyIdleStreams(connection, now)) return "it begins too many calls without a message";
  if (!connection.admitted &&
      (LastsTooLong(connection, open > kEarlyStreams, now) || open > kMostEarlyStreams)) {
    return "it has too many streams before it is authenticated";
  }
  if (failed == 0) return nullptr;
  const bool host_is_good = connection.host->second.failures.Take(failed, now);
  const bool is_early_good = connection.early_failures.Take(failed, now);
  const bool is_good =
      connection.failures.Take(failed, now) && (connection.admitted || is_early_good);
  if (is_good && (host_is_good || connection.failures.missing(now) < kFailuresOfBadHost)) {
    return nullptr;
  }
  return "it resets too many streams";
}

ConnectionTable::Excess ConnectionTable::FindExcess(absl::Duration now) const {
  double held = 0;
  double most_held = 0;
  uint64_t open = 0;
  uint64_t most_open = 0;
  Id holder = 0;
  Id opener = 0;
  for (const auto& [id, connection] : connections_) {
    const double level = LevelOf(connection, now);
    held += level;
    if (level > most_held) {
      most_held = level;
      holder = id;
    }
    const Streams& streams = connection.streams;
    const uint64_t its = streams.started > streams.ended ? streams.started - streams.ended : 0;
    open += its;
    if (its > most_open) {
      most_open = its;
      opener = id;
    }
  }
  if (held > static_cast<double>(limits_.held_bytes)) {
    return {.id = holder, .cause = "connections hold too many bytes, and it the most"};
  }
  if (open > static_cast<uint64_t>(limits_.streams)) {
    return {.id = opener,
            .cause = "there are too many streams, and it has the most",
            .is_of_streams = true};
  }
  return {};
}

}  // namespace sluice
