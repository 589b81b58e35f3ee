// Accepts the connections of a gRPC server in its place: within the limits of a ConnectionGuard,
// past the end of descriptors, and with the means to close a connection that takes too much. gRPC
// 1.51's own listeners give up for good where accept() has no descriptor.
//
// A connection waits until the guard lets it begin; only then gRPC gets its descriptor.
//
// It keeps a second descriptor of each TCP connection, to read the number of received bytes from
// the kernel (TCP_INFO); gRPC (channelz) reports the number of streams. It checks connections from
// time to time: more often while the peer is not authenticated and while many bytes arrive. Where
// `trusts_admitted` is set, a connection is no longer checked once its peer has been authenticated.
//
// Thread-safe; one thread of its own.
#pragma once

#include <grpcpp/server_builder.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "services/listener/connection_guard.h"
#include "services/listener/listening_socket.h"
#include "services/listener/stream_counts.h"

namespace sluice {

class Acceptor {
 public:
  struct Listener {
    Listening listening;
    // Takes what is accepted.
    std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> server;
  };
  struct Options {
    // Borrowed.
    ConnectionGuard* guard = nullptr;
    bool trusts_admitted = false;
    // Told, from the acceptor's thread, when it begins to lack what a connection needs, and when it
    // no longer does; null: not reported.
    std::function<void(bool accepts)> on_changed;
  };

  // Begins to accept. The servers have been started, and live longer.
  static absl::StatusOr<std::unique_ptr<Acceptor>> Start(std::vector<Listener> listeners,
                                                         Options options);
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;
  ~Acceptor();

  // Accepts nothing more; peers that try are refused. Connections stay. When it returns, no server is
  // given another one: a server that has been shut down would neither serve nor close it.
  void StopAccepting();

 private:
  // What epoll says which of them something has happened to: below kFirstConnection, listening
  // sockets.
  using Key = uint64_t;
  struct Connection {
    ConnectionGuard::Id id = 0;  // 0: of a unix socket
    int fd = -1;                 // a second descriptor of its socket
    Listener* listener = nullptr;
    int waiting_fd = -1;  // the descriptor that the server will be given; -1: it has it
    std::string peer;
    int port = 0;
    absl::Duration accepted;        // or since when the server has it
    int64_t socket = 0;             // by which gRPC's counts know it; 0: it is not known yet
    uint64_t counted_at_bytes = 0;  // that had come when its streams were counted
    uint64_t bytes = 0;
    absl::Duration bytes_changed;
    absl::Duration due = absl::InfiniteDuration();  // when it is looked at next
    bool ends = false;
  };
  using Connections = std::map<Key, Connection>;

  Acceptor(std::vector<Listener> listeners, Options options, int epoll, int wake);
  void Loop();
  absl::Duration NextWake() const;
  void Accept(size_t socket);
  // Closes what can't be kept. Returns false where even that can't be done.
  bool AcceptWithoutDescriptors(int listening);
  void Take(Listener& listener, int fd, const std::string& peer, bool is_unix);
  // Gives the server those of the waiting connections for which there is room.
  void BeginWaiting();
  void Begin(Connection& connection);
  void CloseWaiting();
  void OnEvent(Key key, uint32_t events);
  bool IsTrusted(const Connection& connection) const;
  void Watch(Key key, const Connection& connection, bool is_new) const;
  // Sooner than that where it is due sooner.
  void LookIn(absl::Duration delay, Key key, Connection& connection);
  void LookAtDue();
  // Returns why it has to be closed; null: it may stay.
  const char* Look(Connection& connection);
  const char* CountStreams(Connection& connection);
  void EndExcess();
  // `is_abuse`: for what it has taken itself.
  void End(Key key, const char* cause, bool is_abuse);
  void Forget(Connections::iterator connection);
  void Sweep();
  void SetAccepting(bool accepts);
  void ListenAgain();
  void CloseListeners();

  const Options options_;
  const int epoll_;
  const int wake_;  // an eventfd that says that a flag below has changed
  std::atomic<bool> stops_accepting_ = false;
  std::atomic<bool> stops_ = false;
  absl::Notification has_stopped_accepting_;
  // Of the thread alone.
  std::vector<Listener> listeners_;
  std::vector<std::pair<Listener*, const ListeningSocket*>> sockets_;
  int reserve_;
  bool accepts_ = true;
  absl::Duration retry_;
  absl::Duration next_sweep_;
  absl::Duration next_excess_;
  absl::Duration next_begin_;
  Key next_key_;
  Key swept_ = 0;
  bool has_closed_ = false;  // since the last sweep
  Connections connections_;
  std::unordered_map<ConnectionGuard::Id, Key> keys_;
  std::multimap<absl::Duration, Key> due_;
  StreamCounts streams_;
  std::thread thread_;  // last: it uses what is above
};

}  // namespace sluice
