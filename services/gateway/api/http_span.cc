#include "services/gateway/api/http_span.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace sluice::gateway {

HttpSpan::HttpSpan(Tracer* tracer, const http::Request& request)
    : tracer_(tracer),
      context_(ParseTraceContext(request.Header(kTraceParentKey).value_or(""),
                                 request.Joined(kTraceStateKey))) {
  if (tracer_ == nullptr) return;
  Span span = tracer_->Begin(context_);
  context_ = span.context;
  if (!span.context.sampled()) return;
  span.kind = SpanKind::kServer;
  // Texts of spans are UTF-8, which a path need not be.
  const std::string path = absl::CHexEscape(request.path);
  span.name = absl::StrCat(request.method, " ", path);
  span.Add("http.request.method", request.method);
  span.Add("http.route", path);
  span_ = std::move(span);
}

HttpSpan::~HttpSpan() {
  if (!span_.has_value()) return;
  span_->end = absl::Now();
  if (status_ == 0) {
    span_->Add("error.type", "client_left");
  } else {
    span_->Add("http.response.status_code", int64_t{status_});
    if (status_ >= 400) span_->Add("error.type", absl::StrCat(status_));
    span_->failed = status_ >= 500;
  }
  tracer_->End({*std::move(span_)});
}

}  // namespace sluice::gateway
