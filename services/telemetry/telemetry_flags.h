// --otlp_*: where a program sends its spans. For main() alone: it reads the environment.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/options/option_values.h"
#include "services/telemetry/telemetry_options.h"
#include "services/telemetry/tracer.h"

namespace sluice {

// REQUIRES: the values are of a program that has these flags.
TelemetryFlags TelemetryFlagsOf(const OptionValues& values);

// Null where no collector is named. Errors of MakeTelemetryOptions and StartTracer.
absl::StatusOr<std::unique_ptr<Tracer>> TracerOf(absl::string_view program,
                                                 const OptionValues& values);

}  // namespace sluice
