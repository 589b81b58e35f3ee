// --otlp_*: what programs that have spans to tell are asked about it. Linked by main() alone: it defines
// flags, and reads the environment.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/telemetry/tracer.h"

namespace sluice {

// Null where no collector is named. Errors of MakeTelemetryOptions and StartTracer.
absl::StatusOr<std::unique_ptr<Tracer>> TracerFromFlags(absl::string_view program);

}  // namespace sluice
