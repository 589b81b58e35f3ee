#include "clients/cli/health_probe.h"

#include <grpcpp/create_channel.h>

#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "clients/cli/health_check.h"
#include "services/rpc/grpc_runtime.h"

namespace sluice {
namespace {

constexpr absl::Duration kInterval = absl::Milliseconds(50);
constexpr absl::Duration kDeadline = absl::Milliseconds(500);

std::shared_ptr<grpc::Channel> ChannelToNewServer(const std::string& address) {
  grpc::ChannelArguments arguments;
  // The server is about to come up: a growing pause would only delay the news.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 100);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

HealthProbe::HealthProbe(std::vector<std::string> addresses)
    : addresses_(std::move(addresses)), thread_([this] { Ask(); }) {}

HealthProbe::~HealthProbe() {
  stop_.Set();
  thread_.join();
}

void HealthProbe::Ask() {
  PrepareGrpc();
  auto next = addresses_.begin();
  std::shared_ptr<grpc::Channel> channel = ChannelToNewServer(*next);
  do {
    const absl::StatusOr<HealthState> state = CheckHealth(channel, "", kDeadline);
    if (!state.ok() || *state != HealthState::kServing) continue;
    if (++next == addresses_.end()) return serving_.Set();
    channel = ChannelToNewServer(*next);
  } while (!stop_.WaitFor(kInterval));
}

}  // namespace sluice
