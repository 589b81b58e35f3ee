#include "services/telemetry/telemetry_environment.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "services/process/log.h"

namespace sluice {
namespace {

void Ignore(const std::string& variable, const absl::Status& status) {
  Log(LogLevel::kWarning, "telemetry", "variable-ignored",
      {{"variable", variable}, {"cause", status.message()}});
}

// The name of OTEL_EXPORTER_OTLP_TRACES_`what` where that is set, else of
// OTEL_EXPORTER_OTLP_`what`.
std::string NameFor(const EnvironmentLookup& environment, const char* what) {
  const std::string of_traces = absl::StrCat("OTEL_EXPORTER_OTLP_TRACES_", what);
  if (!environment(of_traces.c_str()).empty()) return of_traces;
  return absl::StrCat("OTEL_EXPORTER_OTLP_", what);
}

std::vector<std::pair<std::string, std::string>> KeyValuesIn(const EnvironmentLookup& environment,
                                                             const std::string& variable) {
  auto values = ParseKeyValues(environment(variable.c_str()));
  if (values.ok()) return *std::move(values);
  Ignore(variable, values.status());
  return {};
}

// Of milliseconds or spans, from `least` on; nothing where it is not set.
std::optional<int64_t> NumberIn(const EnvironmentLookup& environment, const std::string& variable,
                                int64_t least) {
  const std::string text = environment(variable.c_str());
  if (text.empty()) return std::nullopt;
  int64_t number = 0;
  const int64_t most = std::numeric_limits<int32_t>::max();
  if (absl::SimpleAtoi(text, &number) && number >= least && number <= most) return number;
  Ignore(variable, absl::InvalidArgumentError(
                       absl::StrCat("\"", text, "\" is not a number from ", least, " to ", most)));
  return std::nullopt;
}

// 0 is no limit.
absl::Duration Timeout(int64_t milliseconds) {
  return milliseconds == 0 ? absl::Hours(24) : absl::Milliseconds(milliseconds);
}

}  // namespace

EnvironmentLookup ProcessEnvironment() {
  return [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
}

std::string CollectorIn(const EnvironmentLookup& environment) {
  return environment(NameFor(environment, "ENDPOINT").c_str());
}

std::optional<OtlpEndpoint> EndpointIn(const EnvironmentLookup& environment) {
  if (absl::AsciiStrToLower(environment("OTEL_SDK_DISABLED")) == "true") return std::nullopt;
  const std::string variable = NameFor(environment, "ENDPOINT");
  const std::string text = environment(variable.c_str());
  if (text.empty()) return std::nullopt;
  if (const std::string kind = environment("OTEL_TRACES_EXPORTER");
      !kind.empty() && kind != "otlp") {
    if (kind != "none") {
      Ignore(variable, absl::UnimplementedError(absl::StrCat("OTEL_TRACES_EXPORTER is ", kind,
                                                             "; known is otlp alone")));
    }
    return std::nullopt;
  }
  const std::string protocol_variable = NameFor(environment, "PROTOCOL");
  const std::string protocol = environment(protocol_variable.c_str());
  if (!protocol.empty() && protocol != "grpc") {
    Ignore(variable, absl::UnimplementedError(absl::StrCat(protocol_variable, " is ", protocol,
                                                           "; spoken is grpc alone")));
    return std::nullopt;
  }
  absl::StatusOr<OtlpEndpoint> endpoint = ParseOtlpEndpoint(text);
  if (endpoint.ok()) return *std::move(endpoint);
  Ignore(variable, endpoint.status());
  return std::nullopt;
}

std::string CertificateIn(const EnvironmentLookup& environment) {
  return environment(NameFor(environment, "CERTIFICATE").c_str());
}

std::vector<std::pair<std::string, std::string>> HeadersIn(const EnvironmentLookup& environment) {
  return KeyValuesIn(environment, NameFor(environment, "HEADERS"));
}

std::vector<std::pair<std::string, std::string>> ResourceIn(const EnvironmentLookup& environment) {
  auto attributes = KeyValuesIn(environment, "OTEL_RESOURCE_ATTRIBUTES");
  const std::string name = environment("OTEL_SERVICE_NAME");
  if (!name.empty()) attributes.emplace_back("service.name", name);
  return attributes;
}

TraceSampler SamplerIn(const EnvironmentLookup& environment) {
  const std::string name = environment("OTEL_TRACES_SAMPLER");
  if (name.empty()) return {};
  const absl::StatusOr<TraceSampler> sampler =
      ParseTraceSampler(name, environment("OTEL_TRACES_SAMPLER_ARG"));
  if (sampler.ok()) return *sampler;
  Ignore("OTEL_TRACES_SAMPLER", sampler.status());
  return {};
}

void SetBatchesFrom(const EnvironmentLookup& environment, SpanExporterOptions& options) {
  if (const auto delay = NumberIn(environment, "OTEL_BSP_SCHEDULE_DELAY", 0)) {
    options.batch_delay = absl::Milliseconds(*delay);
  }
  if (const auto timeout = NumberIn(environment, "OTEL_BSP_EXPORT_TIMEOUT", 0)) {
    options.retry_for = Timeout(*timeout);
  }
  if (const auto timeout = NumberIn(environment, NameFor(environment, "TIMEOUT"), 0)) {
    options.call_timeout = Timeout(*timeout);
  }
  if (const auto size = NumberIn(environment, "OTEL_BSP_MAX_QUEUE_SIZE", 1)) {
    options.max_queued = static_cast<size_t>(*size);
  }
  if (const auto size = NumberIn(environment, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 1)) {
    options.max_batch = static_cast<size_t>(*size);
  }
  options.max_batch = std::min(options.max_batch, options.max_queued);
}

}  // namespace sluice
