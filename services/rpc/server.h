// A gRPC server as every process of Sluice runs it: its services, grpc.health.v1 and reflection.
#pragma once

#include <grpcpp/impl/service_type.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/watch/progress_watch.h"

namespace sluice {

class Acceptor;
class ConnectionGuard;
class HealthService;
class ProbeService;

struct ServerOptions {
  // "127.0.0.1:0" picks a free port. "inproc:NAME" listens nowhere and is reached through a Dialer.
  std::string address;
  // Made by services/security; none: plaintext, which a local address alone may have.
  std::shared_ptr<grpc::ServerCredentials> credentials;
  // "unix:/PATH" where the same services are reached as well, in plaintext, by whoever may enter
  // its folder; empty: nowhere.
  std::string owners_socket;
  // Borrowed; must outlive the server.
  std::vector<grpc::Service*> services;
  // Full names that grpc.health.v1 answers for besides "", such as "sluice.v1.GenerationService".
  std::vector<std::string> names;
  // Largest message accepted, in bytes; -1: no limit, for the streams between stages.
  int max_receive_bytes = -1;
  // Calls of one connection at a time; more wait at the client.
  int max_streams_per_connection = 4096;
  // Memory for what comes in and goes out, over all connections, beyond which calls are refused or
  // cut; 0: no limit.
  size_t memory_quota_bytes = 0;
  // What its connections may take, and who of its peers has been admitted. Borrowed. Null: the
  // server makes one of its own.
  ConnectionGuard* guard = nullptr;
  // The services report admitted peers to the guard. Otherwise every peer that reaches one is
  // admitted.
  bool services_admit = false;
  // Peers that were admitted are processes of the pipeline, which nothing more is held against.
  bool trusts_admitted = true;
  // Borrowed; while work hangs the server answers NOT_SERVING. Null: not watched.
  ProgressWatch* progress = nullptr;
  // Ends, or has end soon, the calls that would not end by themselves: a shutdown begins.
  std::function<void()> on_shutdown = nullptr;
  // A connection on which nothing came for so long is asked for a sign of life, and lost after as
  // long again without one.
  absl::Duration keepalive = absl::Seconds(20);
};

// Thread-safe.
class Server {
 public:
  // UNAVAILABLE where the address is in use or can't be bound, FAILED_PRECONDITION for one that is
  // not local without credentials.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options);
  // Shuts down.
  ~Server();

  // Where clients reach it: the address asked for, with the port that was bound.
  const std::string& address() const { return address_; }
  grpc::Server* grpc_server() { return server_.get(); }

  // Answers grpc.health.v1, and nothing else of worth, on further addresses: in plaintext, as the
  // probes of supervisors come. There "live" names a service that is SERVING for as long as the
  // process's own work moves: to be started again is no help against what others lack; and
  // "accepts" one that is SERVING while calls are served, or are held until they will be
  // (SetHolding). UNAVAILABLE where one can't be bound. REQUIRES: called once.
  absl::Status ServeHealthOn(const std::vector<std::string>& addresses);

  // What grpc.health.v1 answers, for the process as a whole ("") and for each of its names. A new
  // server answers NOT_SERVING.
  void SetServing(bool serving);

  // Whether calls that can't be served now wait, and need not go elsewhere. At first they do not.
  void SetHolding(bool holding);

  // What it answers at the moment.
  bool serving() const;

  // SetServing(false), for good.
  void StopServing();

  // Ends open calls after `grace`. May be called more than once.
  void Shutdown(absl::Duration grace);

 private:
  Server(std::string address, const ServerOptions& options, std::unique_ptr<ConnectionGuard> guard,
         std::unique_ptr<HealthService> health, std::unique_ptr<grpc::Server> server);
  void SetHanging(bool hanging);
  // From the threads that accept; `work` is one of cannot_accept_.
  void SetAccepting(std::unique_ptr<ProgressWatch::Work>& work, bool accepts);
  bool ServesNow() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(health_mutex_) {
    return serving_ && !hanging_ && accepting_ && !stopping_;
  }
  void TellHealth() ABSL_EXCLUSIVE_LOCKS_REQUIRED(health_mutex_);

  const std::string address_;
  const std::vector<std::string> names_;
  ProgressWatch* const progress_;
  const std::function<void()> on_shutdown_;
  const std::unique_ptr<ConnectionGuard> own_guard_;  // may be null
  std::unique_ptr<ConnectionGuard> probe_guard_;      // may be null
  const std::unique_ptr<HealthService> health_;
  const std::unique_ptr<grpc::Server> server_;
  mutable absl::Mutex health_mutex_;
  std::unique_ptr<HealthService> probe_health_ ABSL_GUARDED_BY(health_mutex_);  // of health_server_
  std::unique_ptr<ProbeService> probe_service_ ABSL_GUARDED_BY(health_mutex_);  // likewise
  std::unique_ptr<grpc::Server> health_server_ ABSL_GUARDED_BY(health_mutex_);  // may be null
  bool serving_ ABSL_GUARDED_BY(health_mutex_) = false;
  bool holding_ ABSL_GUARDED_BY(health_mutex_) = false;
  bool hanging_ ABSL_GUARDED_BY(health_mutex_) = false;
  bool accepting_ ABSL_GUARDED_BY(health_mutex_) = true;
  bool stopping_ ABSL_GUARDED_BY(health_mutex_) = false;
  // While one of the acceptors lacks what a connection needs: work that hangs, in the end.
  std::unique_ptr<ProgressWatch::Work> cannot_accept_;
  std::unique_ptr<ProgressWatch::Work> cannot_accept_probes_;
  std::unique_ptr<Acceptor> acceptor_;        // null where it listens on nothing
  std::unique_ptr<Acceptor> probe_acceptor_;  // of health_server_
};

// A guard that writes what it reports to the log. `most_streams`: of one connection.
std::unique_ptr<ConnectionGuard> MakeConnectionGuard(int most_streams);

}  // namespace sluice
