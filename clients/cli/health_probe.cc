#include "clients/cli/health_probe.h"

#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace sluice {
namespace {

constexpr absl::Duration kInterval = absl::Milliseconds(50);
constexpr absl::Duration kDeadline = absl::Milliseconds(500);

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
  grpc::ChannelArguments arguments;
  // The server is about to come up: a growing pause would only delay the news.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 100);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

std::string BytesOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return "";
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

// One Check call. Its two messages are so small that their bytes are written here: the request
// names no service and is empty, the response is field 1, status, which is 1 for SERVING.
bool Serves(grpc::GenericStub& stub) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kDeadline));
  const grpc::Slice empty;
  const grpc::ByteBuffer request(&empty, 1);
  grpc::ByteBuffer response;
  grpc::Status status;
  absl::Notification done;
  stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", grpc::StubOptions(), &request, &response,
                 [&status, &done](grpc::Status result) {
                   status = std::move(result);
                   done.Notify();
                 });
  done.WaitForNotification();
  return status.ok() && BytesOf(response) == "\x08\x01";
}

}  // namespace

HealthProbe::HealthProbe(std::string address)
    : address_(std::move(address)), thread_([this] { Ask(); }) {}

HealthProbe::~HealthProbe() {
  stop_.Notify();
  thread_.join();
}

void HealthProbe::Ask() {
  grpc::GenericStub stub(ChannelTo(address_));
  do {
    if (Serves(stub)) return serving_.Set();
  } while (!stop_.WaitForNotificationWithTimeout(kInterval));
}

}  // namespace sluice
