// Common part of a call of any API: exchange, id, caller. Answers in JSON or in server-sent events.
// Belongs to the exchange's loop.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/gateway/api/body_reader.h"
#include "services/gateway/api/http_span.h"
#include "services/gateway/api/output_styles.h"
#include "services/gateway/backend/backend.h"
#include "services/gateway/backend/vocabulary.h"
#include "services/gateway/http/exchange.h"
#include "services/telemetry/tracer.h"

namespace sluice::gateway {

// What the APIs are built on. Outlives them.
struct ApiContext {
  Backend& backend;
  Vocabulary& vocabulary;
  OutputStyles& output_styles;
  BodyReader& body_reader;
  Tracer* tracer = nullptr;  // null: no tracing
};

class ApiCall {
 public:
  explicit ApiCall(std::shared_ptr<http::Exchange> exchange)
      : ApiCall(nullptr, std::move(exchange)) {}
  // One that has a span of its own.
  ApiCall(const ApiContext& context, std::shared_ptr<http::Exchange> exchange)
      : ApiCall(context.tracer, std::move(exchange)) {}

  const http::Request& request() const { return exchange_->request(); }
  const std::shared_ptr<http::Exchange>& exchange() const { return exchange_; }
  // The client's x-request-id where it sent one that is fit to be logged, else drawn.
  const std::string& id() const { return id_; }
  const Caller& caller() const { return caller_; }

  // The request's body, where it is small by its path's nature; INVALID_ARGUMENT where it is no
  // JSON.
  absl::StatusOr<nlohmann::json> Body() const;
  // Has `read` take the body, on some thread, and calls `done` with its status, on the loop. The
  // body's text is gone then: `read` copies what is to stay.
  void ReadBody(BodyReader& reader, BodyReader::Read read,
                std::function<void(const absl::Status&)> done) const;

  void Respond(int status, const nlohmann::json& body);
  void Respond(http::Response response);

  // Server-sent events (WHATWG HTML, 9.2). The first one begins the response.
  void SendEvent(absl::string_view data);
  void SendEvent(absl::string_view name, absl::string_view data);
  bool has_sent_events() const { return has_sent_events_; }
  void EndEvents();

 private:
  ApiCall(Tracer* tracer, std::shared_ptr<http::Exchange> exchange);
  void BeginEvents();

  const std::shared_ptr<http::Exchange> exchange_;
  const std::string id_;
  HttpSpan span_;
  const Caller caller_;
  bool has_sent_events_ = false;
};

}  // namespace sluice::gateway
