#include "clients/cli/health_check.h"

#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "services/common/status.h"

namespace sluice {
namespace {

// The two messages are so small that their bytes are written and read here, which spares generated
// code for a proto that Debian does not ship: HealthCheckRequest has the service's name in field 1,
// HealthCheckResponse the state.
constexpr char kNameField = 0x0a;
constexpr char kStateField = 0x08;
constexpr size_t kLongestName = 127;  // whose length is one byte

grpc::ByteBuffer RequestFor(const std::string& service) {
  std::string bytes;
  if (!service.empty()) {
    bytes = absl::StrCat(std::string(1, kNameField),
                         std::string(1, static_cast<char>(service.size())), service);
  }
  const grpc::Slice slice(bytes);
  return {&slice, 1};
}

absl::StatusOr<HealthState> StateIn(const grpc::ByteBuffer& response) {
  std::vector<grpc::Slice> slices;
  if (!response.Dump(&slices).ok()) return absl::InternalError("the answer can't be read");
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  if (bytes.empty()) return HealthState::kUnknown;
  const bool known = bytes.size() == 2 && bytes[0] == kStateField && bytes[1] >= 0 && bytes[1] <= 3;
  if (!known) return absl::InternalError("the answer is none of grpc.health.v1");
  return static_cast<HealthState>(bytes[1]);
}

}  // namespace

const char* Name(HealthState state) {
  switch (state) {
    case HealthState::kUnknown:
      return "UNKNOWN";
    case HealthState::kServing:
      return "SERVING";
    case HealthState::kNotServing:
      return "NOT_SERVING";
    case HealthState::kServiceUnknown:
      return "SERVICE_UNKNOWN";
  }
  return "UNKNOWN";
}

absl::StatusOr<HealthState> CheckHealth(const std::shared_ptr<grpc::Channel>& channel,
                                        const std::string& service, absl::Time deadline) {
  if (service.size() > kLongestName) {
    return absl::InvalidArgumentError(
        absl::StrCat("the service's name has ", service.size(), " bytes; accepted: 0 to 127"));
  }
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(deadline));
  const grpc::ByteBuffer request = RequestFor(service);
  grpc::ByteBuffer response;
  grpc::Status status;
  absl::Notification done;
  stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", grpc::StubOptions(), &request, &response,
                 [&status, &done](grpc::Status result) {
                   status = std::move(result);
                   done.Notify();
                 });
  done.WaitForNotification();
  if (!status.ok()) return FromGrpc(status);
  return StateIn(response);
}

}  // namespace sluice
