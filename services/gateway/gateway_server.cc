#include "services/gateway/gateway_server.h"

#include <prometheus/text_serializer.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "services/common/status.h"
#include "services/gateway/anthropic/anthropic_api.h"
#include "services/gateway/api/authorization.h"
#include "services/gateway/batches/batch_paths.h"
#include "services/gateway/json/json_text.h"
#include "services/gateway/kserve/kserve_api.h"
#include "services/gateway/models/path_error.h"
#include "services/gateway/openai/adapter_paths.h"
#include "services/gateway/openai/embedding_paths.h"
#include "services/gateway/openai/error.h"
#include "services/gateway/openai/openai_api.h"
#include "services/gateway/openai/text_paths.h"
#include "services/gateway/openapi/openapi.h"
#include "services/security/local_address.h"
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
  headers.emplace_back("access-control-allow-methods", "GET, POST, DELETE");
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

std::vector<ModelMeter> MetersOf(const std::vector<std::unique_ptr<ServedModel>>& models) {
  std::vector<ModelMeter> meters;
  for (const std::unique_ptr<ServedModel>& model : models) {
    meters.push_back({model->name, &model->backend.meter()});
  }
  return meters;
}

std::vector<ModelFleet> FleetsOf(const std::vector<std::unique_ptr<ServedModel>>& models) {
  std::vector<ModelFleet> fleets;
  for (const std::unique_ptr<ServedModel>& model : models) {
    fleets.push_back({model->name, model->backend.fleet_figures()});
  }
  return fleets;
}

http::OriginPolicy OriginsOf(const GatewayOptions& options) {
  return {.checks_host = !options.allowed_hosts.empty() || IsLocalAddress(options.listen),
          .hosts = options.allowed_hosts,
          .allowed_origin = options.cors_origin};
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
  if (absl::Status started = gateway->StartBatches(); !started.ok()) return started;
  const GatewayOptions& chosen = gateway->options_;
  absl::StatusOr<std::unique_ptr<http::Server>> server =
      http::Server::Start({.address = chosen.listen,
                           .num_threads = chosen.num_threads,
                           .tls_certificate = chosen.tls_certificate,
                           .tls_key = chosen.tls_key,
                           .connections = gateway->MakeConnectionContext(),
                           .max_waiting_bytes = gateway->budgets_.waiting_bytes});
  if (!server.ok()) return server.status();
  gateway->server_ = *std::move(server);
  return gateway;
}

GatewayServer::GatewayServer(GatewayOptions options)
    : options_(std::move(options)),
      model_host_(options_.model_host == nullptr
                      ? nullptr
                      : std::make_unique<ModelHost>(options_.model_host)),
      models_(MakeModels(), model_host_.get(), &body_reader_),
      budgets_(BudgetsOf(options_.memory_bytes)),
      origins_(OriginsOf(options_)),
      bodies_(budgets_.body_bytes) {
  SetMaxJsonValueBytes(budgets_.value_bytes);
  for (const std::unique_ptr<ServedModel>& model : models_.models()) AddRoutes(*model);
}

std::vector<std::unique_ptr<ServedModel>> GatewayServer::MakeModels() {
  std::vector<std::unique_ptr<ServedModel>> models;
  for (const ServedModelOptions& model : options_.models) {
    models.push_back(std::make_unique<ServedModel>(model, options_.backend, options_.tool_format,
                                                   &body_reader_, options_.tracer));
  }
  return models;
}

// Before the server, whose connections ask for it.
absl::Status GatewayServer::StartBatches() {
  if (options_.batches.folder.empty()) return absl::OkStatus();
  BatchOptions options = options_.batches;
  options.limits.max_line_bytes = options_.limits.max_body_bytes;
  absl::StatusOr<std::unique_ptr<BatchService>> batches = BatchService::Start(
      std::move(options),
      [this](std::shared_ptr<http::Exchange> exchange) { models_.Serve(std::move(exchange)); });
  if (!batches.ok()) return Annotate(batches.status(), "--batch_dir");
  batches_ = *std::move(batches);
  return absl::OkStatus();
}

GatewayServer::~GatewayServer() {
  if (server_ != nullptr) server_->Shutdown(options_.drain_timeout);
  if (batches_ != nullptr) batches_->Shutdown();
  models_.Shutdown();
  body_reader_.Shutdown();
  server_.reset();  // its loops use the models to their end
}

void GatewayServer::AddRoutes(ServedModel& model) {
  http::Router& router = model.router;
  const ApiContext& context = model.context;
  router.Add("GET", "/health", [this](std::shared_ptr<http::Exchange> exchange) {
    ServeHealth(std::move(exchange));
  });
  router.Add("GET", "/metrics", [this](const std::shared_ptr<http::Exchange>& exchange) {
    exchange->Respond({.headers = {{"content-type", "text/plain; version=0.0.4; charset=utf-8"}},
                       .body = MetricsText()});
  });
  router.Add("GET", "/version", [](std::shared_ptr<http::Exchange> exchange) {
    ApiCall(std::move(exchange)).Respond(200, {{"version", SLUICE_VERSION}});
  });
  openai::AddRoutes(router, context);
  openai::AddTextRoutes(router, context);
  openai::AddEmbeddingRoutes(router, context);
  openai::AddAdapterRoutes(router, context);
  anthropic::AddRoutes(router, context);
  AddBatchRoutes(router, context, [this] { return batches_.get(); });
  kserve::AddRoutes(router, context);
  AddOpenApiRoute(router);
  AddPageRoutes(router, context, options_.page);
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
  models_.CheckHealth(call->caller().loop, [this, call, answers_now](const absl::Status& status) {
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
      server_->num_connections(),
      "\n# HELP sluice_gateway_evicted_connections_total Connections closed to make room for "
      "others.\n"
      "# TYPE sluice_gateway_evicted_connections_total counter\n"
      "sluice_gateway_evicted_connections_total ",
      server_->num_evicted(),
      "\n# HELP sluice_gateway_body_bytes Memory that requests' bodies account for.\n"
      "# TYPE sluice_gateway_body_bytes gauge\nsluice_gateway_body_bytes ",
      bodies_.used(),
      "\n# HELP sluice_gateway_refused_calls_total Calls of callers who are not known.\n"
      "# TYPE sluice_gateway_refused_calls_total counter\nsluice_gateway_refused_calls_total ",
      refused_calls_.total(), "\n", MetersText(MetersOf(models_.models())),
      FleetsText(FleetsOf(models_.models())), SpansText(options_.tracer));
}

// What a head alone says.
std::optional<http::Response> GatewayServer::RefusalOf(const http::Request& request) const {
  if (const std::optional<std::string> refusal = origins_.Refusal(request)) {
    return PathError(request.path, absl::PermissionDeniedError(*refusal));
  }
  const absl::Status authorization = AuthorizationOf(request).status();
  if (authorization.ok()) return std::nullopt;
  return PathError(request.path, authorization);
}

// Of a body that is not small: its caller must be known before it is read.
void GatewayServer::Admit(const std::shared_ptr<const http::Request>& head, http::Loop& loop,
                          std::function<void(std::optional<http::Response>)> done) {
  const Caller caller = {.loop = &loop,
                         .authorization = AuthorizationOf(*head).value_or(std::string()),
                         .trace = std::nullopt};
  models_.CheckCaller(caller, [head, done = std::move(done)](const absl::Status& known) {
    if (known.ok()) return done(std::nullopt);
    done(PathError(head->path, known));
  });
}

// One line a second for each peer.
void GatewayServer::CountRefused(const http::Request& request, http::Loop& loop) {
  if (!refused_calls_.Add(request.peer)) return;
  loop.After(absl::Seconds(1), [this] { refused_calls_.Flush(); });
}

bool GatewayServer::IsReachable(absl::Duration patience) {
  return server_->AcceptsStrangers(patience) && server_->IsResponsive(patience);
}

http::ConnectionContext GatewayServer::MakeConnectionContext() {
  return {.limits = FitLimits(options_.limits, options_.memory_bytes, options_.max_descriptors,
                              !options_.tls_certificate.empty()),
          .handler =
              [this](std::shared_ptr<http::Exchange> exchange) {
                const bool asks_leave = exchange->request().method == "OPTIONS";
                if (asks_leave) return exchange->Respond({.status = 204});
                models_.Serve(std::move(exchange));
              },
          .error_response =
              [](int status, absl::string_view message) {
                return openai::ErrorResponse(status, message);
              },
          .common_headers =
              [this](const http::Request& request) {
                return CorsHeaders(options_.cors_origin, request);
              },
          .refusal = [this](const http::Request& request) { return RefusalOf(request); },
          .admit =
              [this](const std::shared_ptr<const http::Request>& head, http::Loop& loop,
                     std::function<void(std::optional<http::Response>)> done) {
                Admit(head, loop, std::move(done));
              },
          .tenant = TenantOf,
          .bodies = &bodies_,
          .on_unauthorized = [this](const http::Request& request,
                                    http::Loop& loop) { CountRefused(request, loop); }};
}

}  // namespace sluice::gateway
