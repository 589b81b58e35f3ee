// grpc.health.v1 as a server of ours answers it. gRPC's own one says SERVING of the process from
// its start until it is told otherwise, which a probe can meet; this one knows nothing that it was
// not told. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "services/streams/server_writer.h"

namespace sluice {

class HealthService final : public grpc::health::v1::Health::CallbackService {
 public:
  using Request = grpc::health::v1::HealthCheckRequest;
  using Response = grpc::health::v1::HealthCheckResponse;

  // What is answered of `name` from now on, and told to those that watch it.
  void Set(const std::string& name, bool serving);

  // What is answered of the service that is asked about: NOT_FOUND for a name that was never set.
  grpc::Status Answer(const Request& request, Response& response) const;

  // Ends the calls that watch, so that no shutdown waits for them: UNAVAILABLE.
  void EndWatches();

  // Answer().
  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context, const Request* request,
                                  Response* response) override;
  // SERVICE_UNKNOWN until the name is set.
  grpc::ServerWriteReactor<Response>* Watch(grpc::CallbackServerContext* context,
                                            const Request* request) override;

 private:
  using Writer = ServerWriter<Response>;

  // SERVICE_UNKNOWN for a name that was never set.
  Response StateOf(const std::string& name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, bool> serving_ ABSL_GUARDED_BY(mutex_);
  std::multimap<std::string, std::weak_ptr<Writer>> watching_ ABSL_GUARDED_BY(mutex_);
};

// The same where probes come (Server::ServeHealthOn): Check is answered on threads of its own. The
// threads that serve calls, two for all servers of a process in gRPC 1.51, may have tens of thousands
// of them to begin, and a supervisor that waits behind these takes the process for dead.
class ProbeService final
    : public grpc::health::v1::Health::WithCallbackMethod_Watch<grpc::health::v1::Health::Service> {
 public:
  // Borrows what knows the answers.
  explicit ProbeService(HealthService* health) : health_(*health) {}

  grpc::Status Check(grpc::ServerContext* context, const HealthService::Request* request,
                     HealthService::Response* response) override;
  grpc::ServerWriteReactor<HealthService::Response>* Watch(
      grpc::CallbackServerContext* context, const HealthService::Request* request) override;

 private:
  HealthService& health_;
};

}  // namespace sluice
