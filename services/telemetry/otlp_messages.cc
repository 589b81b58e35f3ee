#include "services/telemetry/otlp_messages.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <variant>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "services/common/utf8_text.h"

namespace sluice {
namespace {

namespace otlp = opentelemetry::proto;

constexpr size_t kMostTextBytes = 1024;
constexpr char kScope[] = "sluice";

// A message with a text that is no UTF-8 would be refused as a whole.
std::string CleanText(absl::string_view text) { return CleanUtf8(text, kMostTextBytes); }

void Fill(const SpanAttribute& attribute, otlp::common::v1::KeyValue& into) {
  into.set_key(CleanText(attribute.key));
  otlp::common::v1::AnyValue& value = *into.mutable_value();
  std::visit(
      [&value](const auto& given) {
        using Given = std::decay_t<decltype(given)>;
        if constexpr (std::is_same_v<Given, std::string>) {
          value.set_string_value(CleanText(given));
        } else if constexpr (std::is_same_v<Given, bool>) {
          value.set_bool_value(given);
        } else if constexpr (std::is_same_v<Given, int64_t>) {
          value.set_int_value(given);
        } else if constexpr (std::is_same_v<Given, double>) {
          value.set_double_value(given);
        } else {
          value.mutable_array_value();
          for (const std::string& text : given) {
            value.mutable_array_value()->add_values()->set_string_value(CleanText(text));
          }
        }
      },
      attribute.value);
}

template <class Message>
void FillAttributes(const std::vector<SpanAttribute>& attributes, Message& message) {
  for (const SpanAttribute& attribute : attributes) Fill(attribute, *message.add_attributes());
}

uint64_t Nanoseconds(absl::Time time) {
  return static_cast<uint64_t>(std::max<int64_t>(0, absl::ToUnixNanos(time)));
}

void Fill(const Span& span, otlp::trace::v1::Span& into) {
  into.set_trace_id(absl::HexStringToBytes(span.context.trace_id));
  into.set_span_id(absl::HexStringToBytes(span.context.span_id));
  into.set_parent_span_id(absl::HexStringToBytes(span.parent_span_id));
  into.set_trace_state(span.context.state);
  into.set_flags(span.context.flags);
  into.set_name(CleanText(span.name));
  into.set_kind(span.kind == SpanKind::kServer ? otlp::trace::v1::Span::SPAN_KIND_SERVER
                                               : otlp::trace::v1::Span::SPAN_KIND_INTERNAL);
  into.set_start_time_unix_nano(Nanoseconds(span.start));
  into.set_end_time_unix_nano(Nanoseconds(span.end));
  FillAttributes(span.attributes, into);
  for (const SpanEvent& event : span.events) {
    otlp::trace::v1::Span::Event& told = *into.add_events();
    told.set_time_unix_nano(Nanoseconds(event.time));
    told.set_name(CleanText(event.name));
    FillAttributes(event.attributes, told);
  }
  into.set_dropped_events_count(span.num_dropped_events);
  if (!span.failed) return;
  into.mutable_status()->set_code(otlp::trace::v1::Status::STATUS_CODE_ERROR);
  into.mutable_status()->set_message(CleanText(span.failure));
}

}  // namespace

otlp::collector::trace::v1::ExportTraceServiceRequest ExportRequest(
    const std::vector<SpanAttribute>& resource, absl::Span<const Span> spans) {
  otlp::collector::trace::v1::ExportTraceServiceRequest request;
  otlp::trace::v1::ResourceSpans& said = *request.add_resource_spans();
  FillAttributes(resource, *said.mutable_resource());
  otlp::trace::v1::ScopeSpans& scope = *said.add_scope_spans();
  scope.mutable_scope()->set_name(kScope);
  for (const Span& span : spans) Fill(span, *scope.add_spans());
  return request;
}

}  // namespace sluice
