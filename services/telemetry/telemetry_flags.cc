#include "services/telemetry/telemetry_flags.h"

#include <optional>
#include <string>

namespace sluice {

TelemetryFlags TelemetryFlagsOf(const OptionValues& values) {
  TelemetryFlags flags = {.endpoint = values.Get<std::string>("otlp_endpoint"),
                          .authority = values.Get<std::string>("otlp_tls_ca"),
                          .token_file = values.Get<std::string>("otlp_token_file")};
  if (values.IsGiven("otlp_sample_ratio")) {
    flags.sample_ratio = values.Get<double>("otlp_sample_ratio");
  }
  return flags;
}

absl::StatusOr<std::unique_ptr<Tracer>> TracerOf(absl::string_view program,
                                                 const OptionValues& values) {
  const absl::StatusOr<std::optional<TelemetryOptions>> options =
      MakeTelemetryOptions(program, TelemetryFlagsOf(values), ProcessEnvironment());
  if (!options.ok()) return options.status();
  if (!options->has_value()) return std::unique_ptr<Tracer>();
  return StartTracer(**options);
}

}  // namespace sluice
