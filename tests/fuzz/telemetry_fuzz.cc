// Fuzzes what clients' texts become in spans: a message that any reader of UTF-8 takes.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "kernels/check.h"
#include "services/telemetry/otlp_messages.h"
#include "services/telemetry/otlp_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  sluice::Span span;
  span.context = {"0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", 1};
  span.name = text;
  span.Add("text", text);
  const std::string bytes =
      sluice::ExportRequest({{"service.name", text}}, {span}).SerializeAsString();
  opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest read;
  SLUICE_CHECK(read.ParseFromString(bytes));
  SLUICE_CHECK(read.resource_spans(0).scope_spans(0).spans(0).name().size() <= 1024);
  // What an operator wrote is a value or a status.
  const auto endpoint = sluice::ParseOtlpEndpoint(text);
  SLUICE_CHECK(!endpoint.ok() || !endpoint->address.empty());
  const auto values = sluice::ParseKeyValues(text);
  if (!values.ok()) return 0;
  for (const auto& [key, value] : *values) SLUICE_CHECK(!key.empty());
  return 0;
}
