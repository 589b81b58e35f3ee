#include "tests/simulation/network.h"

#include <algorithm>
#include <utility>

namespace sluice::simulation {

// ---- A connection ----

bool Connection::IsAlive(Side side) const {
  const Network::Host& host = network_->hosts_[hosts_[side]];
  return host.up && host.incarnation == incarnations_[side] && !over_[side];
}

void Connection::Send(Side to, Event event) {
  if (over_[kClient] || over_[kServer]) return;
  Push(to, std::move(event));
}

void Connection::Push(Side to, Event event) {
  Direction& direction = directions_[to];
  direction.queue.push_back(std::move(event));
  Timeline& timeline = network_->timeline_;
  direction.last = std::max(direction.last, timeline.now() + network_->Delay(hosts_[to]));
  timeline.At(direction.last, [self = shared_from_this(), to] { self->Deliver(to); });
}

// Whichever of its timers comes, the first in line is delivered.
void Connection::Deliver(Side to) {
  Timeline& timeline = network_->timeline_;
  const SteadyTime blocked = network_->BlockedUntil(hosts_[1 - to], hosts_[to]);
  if (blocked > timeline.now()) {
    timeline.At(blocked, [self = shared_from_this(), to] { self->Deliver(to); });
    return;
  }
  Direction& direction = directions_[to];
  if (direction.queue.empty()) return;
  Event event = std::move(direction.queue.front());
  direction.queue.pop_front();
  if (!IsAlive(to)) return;
  event();
  const Network::Host& host = network_->hosts_[hosts_[to]];
  if (host.on_activity != nullptr) host.on_activity();
}

void Connection::Ended(Side side, const absl::Status& status) {
  if (std::exchange(over_[side], true)) return;
  if (on_end[side] != nullptr) on_end[side](status);
}

void Connection::Close(Side from, const absl::Status& status) {
  if (std::exchange(over_[from], true)) return;
  const Side to = from == kClient ? kServer : kClient;
  if (!over_[to]) Push(to, [this, to, status] { Ended(to, status); });
}

void Connection::Break(const absl::Status& status) {
  for (const Side side : {kClient, kServer}) {
    directions_[side].queue.clear();
    if (IsAlive(side)) Push(side, [this, side, status] { Ended(side, status); });
  }
}

// ---- Hosts ----

HostId Network::AddHost(const std::string& name, std::function<void()> on_activity) {
  hosts_.push_back({.name = name, .on_activity = std::move(on_activity)});
  return static_cast<HostId>(hosts_.size()) - 1;
}

absl::Duration Network::Delay(HostId to) {
  // Mostly quick, now and then not.
  const absl::Duration usual = chance_.Between(absl::Microseconds(20), absl::Microseconds(300));
  const absl::Duration odd = chance_.Percent(2)
                                 ? chance_.Between(absl::ZeroDuration(), absl::Milliseconds(20))
                                 : absl::ZeroDuration();
  const absl::Duration slowness = hosts_[to].slowness;
  if (slowness == absl::ZeroDuration()) return usual + odd;
  return usual + odd + chance_.Between(absl::ZeroDuration(), slowness);
}

SteadyTime Network::BlockedUntil(HostId from, HostId to) const {
  const auto partition = partitioned_until_.find(std::minmax(from, to));
  const SteadyTime hung = hosts_[to].hung_until;
  return partition == partitioned_until_.end() ? hung : std::max(hung, partition->second);
}

std::shared_ptr<Connection> Network::Connect(HostId client, HostId server) {
  auto connection = std::make_shared<Connection>();
  connection->network_ = this;
  connection->hosts_[Connection::kClient] = client;
  connection->hosts_[Connection::kServer] = server;
  connection->incarnations_[Connection::kClient] = hosts_[client].incarnation;
  connection->incarnations_[Connection::kServer] = hosts_[server].incarnation;
  if (!hosts_[server].up) {
    connection->Break(absl::UnavailableError("nobody listens"));
    connection->over_[Connection::kServer] = true;
  } else {
    connections_.push_back(connection);
  }
  return connection;
}

void Network::ForEachOf(HostId host, const std::function<void(Connection&)>& what) {
  std::erase_if(connections_, [](const auto& connection) { return connection.expired(); });
  for (const std::weak_ptr<Connection>& weak : std::vector(connections_)) {
    const std::shared_ptr<Connection> connection = weak.lock();
    if (connection != nullptr && (connection->hosts_[0] == host || connection->hosts_[1] == host)) {
      what(*connection);
    }
  }
}

void Network::Crash(HostId host) {
  history_.Add(timeline_, "FAULT ", hosts_[host].name, " crashes");
  hosts_[host].up = false;
  ++hosts_[host].incarnation;
  hosts_[host].hung_until = SteadyTime();
  hosts_[host].slowness = absl::ZeroDuration();
  ForEachOf(host, [](Connection& connection) {
    connection.Break(absl::UnavailableError("connection reset"));
  });
}

void Network::Restart(HostId host) {
  history_.Add(timeline_, "      ", hosts_[host].name, " is back");
  hosts_[host].up = true;
}

void Network::Hang(HostId host, absl::Duration duration) {
  history_.Add(timeline_, "FAULT ", hosts_[host].name, " hangs for ",
               absl::FormatDuration(duration));
  hosts_[host].hung_until = timeline_.now() + duration;
}

void Network::Partition(HostId a, HostId b, absl::Duration duration) {
  history_.Add(timeline_, "FAULT no way between ", hosts_[a].name, " and ", hosts_[b].name, " for ",
               absl::FormatDuration(duration));
  partitioned_until_[std::minmax(a, b)] = timeline_.now() + duration;
}

void Network::Cut(HostId a, HostId b) {
  history_.Add(timeline_, "FAULT connections between ", hosts_[a].name, " and ", hosts_[b].name,
               " break");
  ForEachOf(a, [&](Connection& connection) {
    if (connection.hosts_[0] == b || connection.hosts_[1] == b) {
      connection.Break(absl::UnavailableError("connection reset"));
    }
  });
}

}  // namespace sluice::simulation
