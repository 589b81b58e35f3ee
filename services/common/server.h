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

namespace sluice {

class HealthService;
class ProgressWatch;

struct ServerOptions {
  // "127.0.0.1:0" picks a free port. "inproc:NAME" listens nowhere and is reached through a Dialer.
  std::string address;
  // Made by services/security; none: plaintext, which a local address alone may have.
  std::shared_ptr<grpc::ServerCredentials> credentials;
  // "unix:/PATH" where the same services are reached as well, in plaintext, by whoever may enter its
  // folder; empty: nowhere.
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
  // Borrowed; while work hangs the server answers NOT_SERVING. Null: nobody watches.
  ProgressWatch* progress = nullptr;
  // Ends, or has end soon, the calls that would not end by themselves: a shutdown begins.
  std::function<void()> on_shutdown = nullptr;
  // A connection on which nothing came for so long is asked for a sign of life, and lost after as long
  // again without one.
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
  // process's own work moves: to be started again is no help against what others lack; and "accepts"
  // one that is SERVING while calls are served, or are held until they will be (SetHolding).
  // UNAVAILABLE where one can't be bound. REQUIRES: called once.
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
  Server(std::string address, const ServerOptions& options, std::unique_ptr<HealthService> health,
         std::unique_ptr<grpc::Server> server);
  void SetHanging(bool hanging);
  bool ServesNow() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(health_mutex_) {
    return serving_ && !hanging_ && !stopping_;
  }
  void TellHealth() ABSL_EXCLUSIVE_LOCKS_REQUIRED(health_mutex_);

  const std::string address_;
  const std::vector<std::string> names_;
  ProgressWatch* const progress_;
  const std::function<void()> on_shutdown_;
  const std::unique_ptr<HealthService> health_;
  const std::unique_ptr<grpc::Server> server_;
  mutable absl::Mutex health_mutex_;
  std::unique_ptr<HealthService> probe_health_ ABSL_GUARDED_BY(health_mutex_);  // of health_server_
  std::unique_ptr<grpc::Server> health_server_ ABSL_GUARDED_BY(health_mutex_);  // may be null
  bool serving_ ABSL_GUARDED_BY(health_mutex_) = false;
  bool holding_ ABSL_GUARDED_BY(health_mutex_) = false;
  bool hanging_ ABSL_GUARDED_BY(health_mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(health_mutex_) = false;
};

}  // namespace sluice
