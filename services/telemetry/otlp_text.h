// Parses the configuration of a collector, by OpenTelemetry's specification of exporters. Pure
// functions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

// Where a collector is.
struct OtlpEndpoint {
  enum class Transport { kByAddress, kPlaintext, kTls };

  std::string address;  // HOST:PORT, or unix:/PATH
  Transport transport = Transport::kByAddress;
};

// "HOST:PORT", "unix:/PATH", or "http://HOST:PORT" (plaintext) and "https://HOST:PORT" (TLS); with
// either of those the port may be left out, and is 4317. INVALID_ARGUMENT for anything else, a path
// among it: that is OTLP over HTTP, which is not spoken.
absl::StatusOr<OtlpEndpoint> ParseOtlpEndpoint(absl::string_view text);

// "key=value,key=value", the values percent-encoded where they have to be: what
// OTEL_RESOURCE_ATTRIBUTES and OTEL_EXPORTER_OTLP_HEADERS hold. A key that comes again replaces the
// earlier one. INVALID_ARGUMENT naming the entry that is wrong.
absl::StatusOr<std::vector<std::pair<std::string, std::string>>> ParseKeyValues(
    absl::string_view text);

}  // namespace sluice
