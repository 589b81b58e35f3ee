#include "services/telemetry/telemetry_options.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/common/status.h"
#include "services/rpc/transport.h"
#include "services/security/local_address.h"
#include "services/telemetry/otlp_text.h"

namespace sluice {
namespace {

using Transport = OtlpEndpoint::Transport;

std::string HostName() {
  std::array<char, 256> host = {};
  return gethostname(host.data(), host.size() - 1) == 0 ? host.data() : "";
}

std::vector<SpanAttribute> ResourceOf(absl::string_view program,
                                      const EnvironmentLookup& environment) {
  std::vector<SpanAttribute> resource = {{"service.name", std::string(program)},
                                         {"service.version", std::string(SLUICE_VERSION)},
                                         {"host.name", HostName()},
                                         {"process.pid", static_cast<int64_t>(getpid())}};
  const auto set = [&resource](const std::string& key, std::string value) {
    const auto found = std::find_if(resource.begin(), resource.end(),
                                    [&key](const auto& said) { return said.key == key; });
    if (found == resource.end()) return resource.push_back({key, std::move(value)});
    found->value = std::move(value);
  };
  for (auto& [key, value] : ResourceIn(environment)) set(key, std::move(value));
  return resource;
}

absl::Status CheckRatio(const TelemetryFlags& flags) {
  const double ratio = flags.sample_ratio.value_or(1);
  if (ratio >= 0 && ratio <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--otlp_sample_ratio is ", ratio, "; accepted: 0 to 1"));
}

absl::Status Check(const TelemetryFlags& flags, Transport transport, absl::string_view address) {
  if (transport != Transport::kPlaintext) return absl::OkStatus();
  if (!flags.authority.empty()) {
    return absl::InvalidArgumentError(
        "--otlp_tls_ca is about TLS, and http:// of --otlp_endpoint says plaintext");
  }
  if (flags.token_file.empty() || IsLocalAddress(address)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--otlp_token_file: no token goes to another host in plaintext: write https://",
                   address, " in --otlp_endpoint"));
}

ClientSecurity SecurityOf(const OtlpEndpoint& endpoint, const std::string& authority) {
  ClientSecurity security;
  if (endpoint.transport == Transport::kPlaintext) {
    security.insecure = true;
    return security;
  }
  security.tls.authority = authority;
  security.use_tls = endpoint.transport == Transport::kTls || !IsLocalAddress(endpoint.address);
  return security;
}

}  // namespace

absl::StatusOr<std::optional<TelemetryOptions>> MakeTelemetryOptions(
    absl::string_view program, const TelemetryFlags& flags, const EnvironmentLookup& environment) {
  if (const absl::Status ratio = CheckRatio(flags); !ratio.ok()) return ratio;
  std::optional<OtlpEndpoint> endpoint;
  if (flags.endpoint.empty()) {
    endpoint = EndpointIn(environment);
  } else {
    absl::StatusOr<OtlpEndpoint> given = ParseOtlpEndpoint(flags.endpoint);
    if (!given.ok()) return Annotate(given.status(), "--otlp_endpoint");
    endpoint = *std::move(given);
  }
  if (!endpoint.has_value()) {
    const bool none =
        flags.authority.empty() && flags.token_file.empty() && !flags.sample_ratio.has_value();
    // One that the environment names may be switched off there.
    if (none || !CollectorIn(environment).empty()) return std::nullopt;
    return absl::InvalidArgumentError(
        "--otlp_tls_ca, --otlp_token_file and --otlp_sample_ratio are about the collector that "
        "--otlp_endpoint names");
  }
  absl::Status valid = Check(flags, endpoint->transport, endpoint->address);
  if (!valid.ok()) return valid;
  std::string authority = flags.authority;
  if (authority.empty() && endpoint->transport != Transport::kPlaintext) {
    authority = CertificateIn(environment);
  }
  TelemetryOptions options;
  options.address = endpoint->address;
  options.security = SecurityOf(*endpoint, authority);
  options.sampler = flags.sample_ratio.has_value() ? TraceSampler{.ratio = *flags.sample_ratio}
                                                   : SamplerIn(environment);
  options.exporter.resource = ResourceOf(program, environment);
  options.exporter.headers = HeadersIn(environment);
  options.exporter.token_file = flags.token_file;
  SetBatchesFrom(environment, options.exporter);
  return options;
}

absl::StatusOr<std::unique_ptr<Tracer>> StartTracer(const TelemetryOptions& options) {
  absl::StatusOr<std::shared_ptr<grpc::Channel>> channel =
      DialPublic(options.address, options.security);
  if (!channel.ok()) return Annotate(channel.status(), "the collector of --otlp_endpoint");
  return std::make_unique<Tracer>(*std::move(channel), options.sampler, options.exporter);
}

}  // namespace sluice
