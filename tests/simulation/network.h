// Hosts and the connections between them. A connection keeps the order of what is sent one way;
// nothing else is kept: what goes over two connections overtakes, everything takes its time, and
// hosts crash, hang and come back, connections break, and links are cut for a while.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "services/streams/message_stream.h"
#include "tests/simulation/timeline.h"

namespace sluice::simulation {

using HostId = int;

class Network;

// One connection: events that run at its other end, in order.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  enum Side { kClient = 0, kServer = 1 };

  // What a side hears, once and last, when the other has closed the connection or it broke.
  std::function<void(absl::Status)> on_end[2];

  // Runs `event` at `to`, after all that was sent there before; never if the connection breaks.
  void Send(Side to, Event event);
  // The other side hears of it after what was sent; this side hears nothing any more.
  void Close(Side from, const absl::Status& status);
  // What is under way is lost, and both sides hear of it.
  void Break(const absl::Status& status);

  HostId client() const { return hosts_[kClient]; }

 private:
  friend class Network;
  struct Direction {
    std::deque<Event> queue;
    SteadyTime last;
  };

  void Push(Side to, Event event);
  void Deliver(Side to);
  void Ended(Side side, const absl::Status& status);
  bool IsAlive(Side side) const;

  Network* network_ = nullptr;
  HostId hosts_[2] = {};
  int incarnations_[2] = {};
  Direction directions_[2];
  bool over_[2] = {false, false};  // of a side: it hears nothing any more
};

class Network {
 public:
  Network(Timeline* timeline, Chance* chance, History* history)
      : timeline_(*timeline), chance_(*chance), history_(*history) {}

  // `on_activity` follows everything that runs on the host.
  HostId AddHost(const std::string& name, std::function<void()> on_activity = nullptr);
  const std::string& name(HostId host) const { return hosts_[host].name; }
  bool up(HostId host) const { return hosts_[host].up; }
  SteadyTime hung_until(HostId host) const { return hosts_[host].hung_until; }

  // A connection to a host that is up; one that breaks at once to a host that is not.
  std::shared_ptr<Connection> Connect(HostId client, HostId server);

  void Crash(HostId host);
  void Restart(HostId host);
  void Hang(HostId host, absl::Duration duration);
  // Nothing passes between the two for so long; connections live on.
  void Partition(HostId a, HostId b, absl::Duration duration);
  // Every connection between the two breaks.
  void Cut(HostId a, HostId b);
  // Everything that comes to the host takes so much longer, at most.
  void SlowDown(HostId host, absl::Duration delay) { hosts_[host].slowness = delay; }

 private:
  friend class Connection;
  struct Host {
    std::string name;
    std::function<void()> on_activity;
    bool up = true;
    int incarnation = 0;
    SteadyTime hung_until;
    absl::Duration slowness;
  };

  absl::Duration Delay(HostId to);
  SteadyTime BlockedUntil(HostId from, HostId to) const;
  void ForEachOf(HostId host, const std::function<void(Connection&)>& what);

  Timeline& timeline_;
  Chance& chance_;
  History& history_;
  std::vector<Host> hosts_;
  std::map<std::pair<HostId, HostId>, SteadyTime> partitioned_until_;
  std::vector<std::weak_ptr<Connection>> connections_;
};

// A typed stream over a connection, as both ends hold it.
template <class Request, class Response>
struct Duplex : std::enable_shared_from_this<Duplex<Request, Response>> {
  using RequestType = Request;
  using ResponseType = Response;

  std::shared_ptr<Connection> connection;
  // The server's end.
  std::function<void(Request)> on_request;
  // The client's end.
  bool client_open = true;
  typename MessageStream<Request, Response>::Handler handler;

  static void SendRequest(const std::shared_ptr<Duplex>& duplex, Request request) {
    duplex->connection->Send(Connection::kServer, [duplex, request = std::move(request)]() mutable {
      if (duplex->on_request != nullptr) duplex->on_request(std::move(request));
    });
  }
  static void SendResponse(const std::shared_ptr<Duplex>& duplex, Response response) {
    duplex->connection->Send(Connection::kClient,
                             [duplex, response = std::move(response)]() mutable {
                               if (duplex->client_open) {
                                 duplex->handler.on_response(std::move(response));
                               }
                             });
  }
};

// The client's end as the orchestrator sees it.
template <class Request, class Response>
class SimulatedStream final : public MessageStream<Request, Response> {
 public:
  explicit SimulatedStream(std::shared_ptr<Duplex<Request, Response>> duplex)
      : duplex_(std::move(duplex)) {
    duplex_->connection->on_end[Connection::kClient] =
        [duplex = duplex_.get()](const absl::Status& status) {
          if (duplex->client_open) duplex->handler.on_done(status);
        };
  }
  ~SimulatedStream() override {
    duplex_->client_open = false;
    duplex_->connection->Close(Connection::kClient, absl::CancelledError("the caller left"));
  }
  void Send(Request&& request) override {
    Duplex<Request, Response>::SendRequest(duplex_, std::move(request));
  }

 private:
  const std::shared_ptr<Duplex<Request, Response>> duplex_;
};

}  // namespace sluice::simulation
