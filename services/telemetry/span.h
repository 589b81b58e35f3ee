// A span of a trace. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "services/common/trace_context.h"

namespace sluice {

struct SpanAttribute {
  std::string key;  // by OpenTelemetry's semantic conventions where they have a word for it
  std::variant<std::string, bool, int64_t, double, std::vector<std::string>> value;
};

struct SpanEvent {
  absl::Time time;
  std::string name;
  std::vector<SpanAttribute> attributes;
};

enum class SpanKind { kInternal, kServer };

struct Span {
  TraceContext context;
  std::string parent_span_id;  // empty: the first of its trace
  std::string name;            // of few values over all spans
  SpanKind kind = SpanKind::kInternal;
  absl::Time start;
  absl::Time end;
  std::vector<SpanAttribute> attributes;
  std::vector<SpanEvent> events;
  uint32_t num_dropped_events = 0;
  bool failed = false;  // by a fault of the server's
  std::string failure;  // of one that failed: why

  void Add(std::string key, decltype(SpanAttribute::value) value) {
    attributes.push_back({std::move(key), std::move(value)});
  }
};

}  // namespace sluice
