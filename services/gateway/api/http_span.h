// The span of one HTTP call, by OpenTelemetry's conventions for servers of HTTP: it begins with it and
// ends with it. Belongs to the exchange's loop.
#pragma once

#include <optional>

#include "services/common/trace_context.h"
#include "services/gateway/http/message.h"
#include "services/telemetry/tracer.h"

namespace sluice::gateway {

class HttpSpan {
 public:
  // On behalf of the request's headers `traceparent` and `tracestate`, where they are right. `tracer` is borrowed;
  // null: nothing is recorded.
  HttpSpan(Tracer* tracer, const http::Request& request);
  ~HttpSpan();
  HttpSpan(const HttpSpan&) = delete;
  HttpSpan& operator=(const HttpSpan&) = delete;

  // As a part of what calls made for this one are made; nothing where there is no trace.
  const std::optional<TraceContext>& context() const { return context_; }

  // The response's. One that never comes is that of a client that left.
  void set_status(int status) { status_ = status; }

 private:
  Tracer* const tracer_;
  std::optional<TraceContext> context_;
  std::optional<Span> span_;  // where it is recorded
  int status_ = 0;
};

}  // namespace sluice::gateway
