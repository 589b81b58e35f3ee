// `sluice health`: whether a process of Sluice serves, for probes that run a program.
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "clients/cli/commands.h"
#include "clients/cli/connection.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/health_check.h"
#include "clients/cli/outcome.h"
#include "services/common/address.h"
#include "services/common/connection_cause.h"
#include "services/common/status.h"
#include "services/rpc/transport.h"

namespace sluice {
namespace {

struct HealthFlags {
  std::string service;
  absl::Duration timeout = absl::Seconds(1);
};

// `origin` says where the address comes from.
absl::StatusOr<std::shared_ptr<grpc::Channel>> ChannelTo(const EndpointFlags& endpoint,
                                                         absl::string_view origin) {
  if (endpoint.addresses().size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(origin, " names several addresses; health is asked of one process"));
  }
  const absl::Status valid = CheckAddress(endpoint.addresses().front());
  if (!valid.ok()) return Annotate(valid, origin);
  return DialPublic(endpoint.addresses().front(), endpoint.security());
}

}  // namespace

int HealthCommand(absl::Span<const std::string> arguments, Environment& environment) {
  EndpointFlags endpoint;
  HealthFlags health;
  FlagSet flags("health", "[flags]",
                "Asks one process of Sluice by grpc.health.v1 whether it serves. Exit status 0 "
                "where it does, 1 where it does not or does not answer in time: what a probe of "
                "Kubernetes or systemd runs.");
  flags.Add("service", "NAME", "The service asked for. Default: the process as a whole.",
            &health.service);
  flags.Add("timeout", "SECONDS", "How long to wait for the answer. Default 1.", &health.timeout);
  AddEndpointFlags(flags,
                   absl::StrCat("Any process's, unix:/path too. Default ", kDefaultEndpoint, "."),
                   &endpoint);
  if (const std::optional<int> exit = ParseOrExit(flags, arguments, environment)) return *exit;

  const char* const origin = endpoint.endpoint.has_value() ? "--endpoint" : "SLUICE_ENDPOINT";
  endpoint = WithEnvironment(endpoint, environment);
  absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = ChannelTo(endpoint, origin);
  if (!channel.ok()) return Fail(channel.status(), environment);
  const absl::StatusOr<HealthState> state = CheckHealth(*channel, health.service, health.timeout);
  if (absl::IsUnavailable(state.status())) {
    return Fail(absl::UnavailableError(
                    absl::StrCat("cannot reach ", endpoint.addresses().front(), ": ",
                                 ConnectionCause(std::string(state.status().message())))),
                environment);
  }
  if (!state.ok()) return Fail(state.status(), environment);
  environment.out << Name(*state) << "\n";
  const int exit = Succeed(environment);
  return exit == kSuccess && *state != HealthState::kServing ? kFailed : exit;
}

}  // namespace sluice
