#include "services/listener/connection_table.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

// Bytes that may come from a peer before it is admitted: a handshake, metadata and the first messages
// of calls, each as far as HTTP/2's flow control lets it come before it is asked for. Of all such
// connections of a host together: 15 bytes can make a stream, which holds 5 KB.
constexpr double kEarlyBytes = 256 << 10;
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

ConnectionTable::Host& ConnectionTable::HostOf(absl::string_view name, absl::Duration now) {
  const auto found = hosts_.find(name);
  if (found != hosts_.end()) return found->second;
  if (hosts_.size() >= connections_.size() + kMostIdleHosts) ForgetIdleHosts(now);
  const double arrivals = limits_.connections_per_host;
  return hosts_
      .emplace(std::string(name), Host(TokenBucket(arrivals / 2, 2 * arrivals, now),
                                       TokenBucket(kFailuresPerSecond, 4.0 * most_streams_, now),
                                       TokenBucket(kOverheadBytesPerSecond, kEarlyBytes, now)))
      .first->second;
}

void ConnectionTable::ForgetIdleHosts(absl::Duration now) {
  std::erase_if(hosts_, [now](const auto& entry) {
    const Host& host = entry.second;
    return host.connections == 0 && host.arrivals.missing(now) < 1 &&
           host.failures.missing(now) < 1 && host.early_bytes.missing(now) < 1;
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

void ConnectionTable::Remove(Id id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Host& host = found->second.host->second;
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
  if (connection.admitted) return nullptr;
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

const char* ConnectionTable::OnStreams(Id id, const Streams& streams, absl::Duration now) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return nullptr;
  Connection& connection = found->second;
  const uint64_t known = connection.streams.failed;
  const double failed = streams.failed > known ? static_cast<double>(streams.failed - known) : 0;
  connection.streams = streams;
  const uint64_t open = streams.started > streams.ended ? streams.started - streams.ended : 0;
  // Those that the client may have begun before it heard of the limit.
  const uint64_t most = static_cast<uint64_t>(most_streams_) + kEarlyStreams;
  if (connection.admitted && open > most) return "it has too many streams";
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
