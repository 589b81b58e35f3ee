#include "services/gateway/gateway_server.h"

#include <prometheus/text_serializer.h>

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "services/gateway/anthropic/anthropic_api.h"
#include "services/gateway/kserve/kserve_api.h"
#include "services/gateway/openai/error.h"
#include "services/gateway/openai/openai_api.h"
#include "services/gateway/openai/text_paths.h"
#include "services/telemetry/span_metrics.h"

namespace sluice::gateway {
namespace {

// What a page of another origin may do; its browser asks before it does it (Fetch, 3.2).
http::Headers CorsHeaders(const std::string& allowed, const http::Request& request) {
  const absl::string_view origin = request.Header("origin").value_or("");
  if (allowed.empty() || origin.empty() || (allowed != "*" && allowed != origin)) return {};
  http::Headers headers = {{"access-control-allow-origin", allowed},
                           {"access-control-expose-headers", "x-request-id, retry-after"},
                           {"vary", "origin"}};
  if (request.method != "OPTIONS") return headers;
  headers.emplace_back("access-control-allow-methods", "GET, POST");
  headers.emplace_back(
      "access-control-allow-headers",
      std::string(request.Header("access-control-request-headers").value_or("content-type")));
  headers.emplace_back("access-control-max-age", "600");
  return headers;
}

std::string SpansText(const Tracer* tracer) {
  if (tracer == nullptr) return "";
  const SpanMetrics metrics([tracer] { return tracer->counts(); });
  return prometheus::TextSerializer().Serialize(metrics.Collect());
}

void RespondHealth(ApiCall& call, const absl::Status& status) {
  if (status.ok()) return call.Respond(200, {{"status", "ok"}});
  call.Respond(503, {{"status", "unavailable"}, {"reason", std::string(status.message())}});
}

// Of "grace=SECONDS"; zero where the query is anything else.
absl::Duration GraceIn(absl::string_view query) {
  int seconds = 0;
  if (!absl::ConsumePrefix(&query, "grace=") || !absl::SimpleAtoi(query, &seconds)) {
    return absl::ZeroDuration();
  }
  return absl::Seconds(seconds);
}

}  // namespace

absl::StatusOr<std::unique_ptr<GatewayServer>> GatewayServer::Start(GatewayOptions options) {
  std::unique_ptr<GatewayServer> gateway(new GatewayServer(std::move(options)));
  const GatewayOptions& chosen = gateway->options_;
  absl::StatusOr<std::unique_ptr<http::Server>> server =
      http::Server::Start({.address = chosen.listen,
                           .num_threads = chosen.num_threads,
                           .tls_certificate = chosen.tls_certificate,
                           .tls_key = chosen.tls_key,
                           .connections = gateway->MakeConnectionContext()});
  if (!server.ok()) return server.status();
  gateway->server_ = *std::move(server);
  return gateway;
}

GatewayServer::GatewayServer(GatewayOptions options)
    : options_(std::move(options)),
      backend_(options_.orchestrators, options_.backend),
      vocabulary_(&backend_),
      output_styles_(&backend_, options_.tool_format),
      context_{backend_, vocabulary_, output_styles_, options_.tracer},
      router_([](int status, absl::string_view message) {
        return openai::ErrorResponse(status, message);
      }) {
  AddRoutes();
}

GatewayServer::~GatewayServer() {
  if (server_ == nullptr) return;
  server_->Shutdown(options_.drain_timeout);
  backend_.Shutdown();
  server_.reset();  // its loops use the backend to their end
}

void GatewayServer::AddRoutes() {
  router_.Add("GET", "/health", [this](std::shared_ptr<http::Exchange> exchange) {
    ServeHealth(std::move(exchange));
  });
  router_.Add("GET", "/metrics", [this](const std::shared_ptr<http::Exchange>& exchange) {
    exchange->Respond({.headers = {{"content-type", "text/plain; version=0.0.4; charset=utf-8"}},
                       .body = MetricsText()});
  });
  openai::AddRoutes(router_, context_);
  openai::AddTextRoutes(router_, context_);
  anthropic::AddRoutes(router_, context_);
  kserve::AddRoutes(router_, context_);
  AddPageRoutes(router_, context_, options_.page);
}

// With a grace it answers at once, so that a probe can tell a gateway that does not answer from one
// without a pipeline for now.
void GatewayServer::ServeHealth(std::shared_ptr<http::Exchange> exchange) {
  const auto call = std::make_shared<ApiCall>(std::move(exchange));
  const absl::Duration grace = GraceIn(call->request().query);
  const bool answers_now = [&] {
    absl::MutexLock lock(&mutex_);
    return SteadyTime::Now() - last_served_ < grace;
  }();
  if (answers_now) RespondHealth(*call, absl::OkStatus());
  backend_.CheckHealth(call->caller().loop, [this, call, answers_now](const absl::Status& status) {
    if (status.ok()) {
      absl::MutexLock lock(&mutex_);
      last_served_ = SteadyTime::Now();
    }
    if (!answers_now) RespondHealth(*call, status);
  });
}

std::string GatewayServer::MetricsText() {
  return absl::StrCat(
      "# HELP sluice_gateway_connections Open connections.\n"
      "# TYPE sluice_gateway_connections gauge\nsluice_gateway_connections ",
      server_->num_connections(), "\n", backend_.meter().Text(), SpansText(options_.tracer));
}

http::ConnectionContext GatewayServer::MakeConnectionContext() {
  return {.limits = options_.limits,
          .handler =
              [this](std::shared_ptr<http::Exchange> exchange) {
                const bool asks_leave = exchange->request().method == "OPTIONS";
                if (asks_leave) return exchange->Respond({.status = 204});
                router_.Serve(std::move(exchange));
              },
          .error_response =
              [](int status, absl::string_view message) {
                return openai::ErrorResponse(status, message);
              },
          .common_headers =
              [this](const http::Request& request) {
                return CorsHeaders(options_.cors_origin, request);
              }};
}

}  // namespace sluice::gateway
