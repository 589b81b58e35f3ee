#include "clients/cli/up_flags.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "services/security/credentials.h"
#include "services/telemetry/telemetry_flags.h"
#include "services/telemetry/telemetry_options.h"

namespace sluice {
namespace {

PublicListener ListenerOf(const OptionValues& values) {
  return {.tls = {.certificate = values.Get<std::string>("tls_cert"),
                  .key = values.Get<std::string>("tls_key"),
                  .authority = values.Get<std::string>("tls_ca")},
          .tokens = !values.Get<std::string>("tokens").empty(),
          .insecure = values.Get<bool>("insecure_public")};
}

absl::Status CheckGateway(const OptionValues& values) {
  if (!values.IsGiven("http_port")) {
    if (!values.Get<bool>("demo")) return absl::OkStatus();
    return absl::InvalidArgumentError("--demo is about the page, which needs --http_port");
  }
  const PublicListener listener = ListenerOf(values);
  if (listener.tls.authority.empty() || listener.tokens) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--http_port: over HTTP clients come with tokens, not with certificates: set --tokens");
}

}  // namespace

absl::Status CheckUpFlags(const ModelFlags& flags) {
  if (absl::Status status = CheckModelFlags(flags); !status.ok()) return status;
  if (absl::Status status = CheckGateway(flags.values); !status.ok()) return status;
  const absl::Status telemetry =
      MakeTelemetryOptions("up", TelemetryFlagsOf(flags.values), ProcessEnvironment()).status();
  if (!telemetry.ok()) return telemetry;
  const std::string address =
      AddressOf(flags.values.Get<std::string>("host"), flags.values.Get<int>("port"));
  return PublicServerCredentials(address, ListenerOf(flags.values)).status();
}

std::string AddressOf(const std::string& host, int port) {
  const bool is_ipv6 = absl::StrContains(host, ':');
  return is_ipv6 ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

}  // namespace sluice
