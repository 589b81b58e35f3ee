#include "clients/cli/health_check.h"

#include <grpcpp/generic/generic_stub.h>

#include <utility>

#include "absl/synchronization/notification.h"
#include "services/common/call_deadline.h"
#include "services/common/status.h"

namespace sluice {

absl::StatusOr<HealthState> CheckHealth(const std::shared_ptr<grpc::Channel>& channel,
                                        const std::string& service, absl::Duration timeout) {
  const absl::StatusOr<grpc::ByteBuffer> request = HealthCheckRequest(service);
  if (!request.ok()) return request.status();
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  SetDeadline(context, SteadyTime::Now() + timeout);
  grpc::ByteBuffer response;
  grpc::Status status;
  absl::Notification done;
  stub.UnaryCall(&context, kHealthCheckMethod, grpc::StubOptions(), &*request, &response,
                 [&status, &done](grpc::Status result) {
                   status = std::move(result);
                   done.Notify();
                 });
  done.WaitForNotification();
  if (!status.ok()) return FromGrpc(status);
  return HealthStateIn(response);
}

}  // namespace sluice
