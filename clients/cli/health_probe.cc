#include "clients/cli/health_probe.h"

#include <grpcpp/create_channel.h>

#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "clients/cli/health_check.h"
#include "services/common/grpc_runtime.h"

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

HealthProbe::HealthProbe(std::string address, std::function<bool()> also)
    : address_(std::move(address)), also_(std::move(also)), thread_([this] { Ask(); }) {}

HealthProbe::~HealthProbe() {
  stop_.Set();
  thread_.join();
}

void HealthProbe::Ask() {
  PrepareGrpc();
  const std::shared_ptr<grpc::Channel> channel = ChannelToNewServer(address_);
  do {
    const absl::StatusOr<HealthState> state = CheckHealth(channel, "", kDeadline);
    const bool serves = state.ok() && *state == HealthState::kServing;
    if (serves && (also_ == nullptr || also_())) return serving_.Set();
  } while (!stop_.WaitFor(kInterval));
}

}  // namespace sluice
