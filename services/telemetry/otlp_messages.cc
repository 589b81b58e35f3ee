#include "services/telemetry/otlp_messages.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <variant>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"

namespace sluice {
namespace {

namespace otlp = opentelemetry::proto;

constexpr size_t kMostTextBytes = 1024;
constexpr char kScope[] = "sluice";

bool Continues(char c) { return (static_cast<uint8_t>(c) & 0xC0) == 0x80; }

// Of the character at `at`; 0 where there is none that is whole.
size_t CharacterBytes(absl::string_view text, size_t at) {
  const auto first = static_cast<uint8_t>(text[at]);
  size_t size = 0;
  if (first < 0x80) {
    size = 1;
  } else if (first >= 0xC2 && first < 0xE0) {
    size = 2;
  } else if (first >= 0xE0 && first < 0xF0) {
    size = 3;
  } else if (first >= 0xF0 && first < 0xF5) {
    size = 4;
  }
  if (size == 0 || at + size > text.size()) return 0;
  for (size_t i = 1; i < size; ++i) {
    if (!Continues(text[at + i])) return 0;
  }
  if (size < 3) return size;
  // Longer than need be, a surrogate, or beyond the last character.
  const auto second = static_cast<uint8_t>(text[at + 1]);
  const bool wrong = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
                     (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
  return wrong ? 0 : size;
}

// A message with a text that is no UTF-8 would be refused as a whole.
std::string CleanText(absl::string_view text) {
  std::string clean;
  for (size_t at = 0; at < text.size();) {
    const size_t size = CharacterBytes(text, at);
    if (clean.size() + std::max<size_t>(size, 1) > kMostTextBytes) break;
    if (size == 0) {
      clean.push_back('?');
      ++at;
    } else {
      clean.append(text.data() + at, size);
      at += size;
    }
  }
  return clean;
}

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
