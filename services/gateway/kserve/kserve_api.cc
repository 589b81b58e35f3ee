#include "services/gateway/kserve/kserve_api.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "services/gateway/api/http_status.h"
#include "services/gateway/api/sent_names.h"

namespace sluice::gateway::kserve {
namespace {

using nlohmann::json;

constexpr char kModels[] = "/v2/models/";

void RespondError(ApiCall& call, int status, absl::string_view message) {
  call.Respond(status, {{"error", std::string(message)}});
}

void ServeLive(std::shared_ptr<http::Exchange> exchange) {
  ApiCall(std::move(exchange)).Respond(200, {{"live", true}});
}

void ServeReady(const ApiContext& context, std::shared_ptr<http::Exchange> exchange) {
  const auto call = std::make_shared<ApiCall>(std::move(exchange));
  context.backend.CheckHealth(call->caller().loop, [call](const absl::Status& status) {
    call->Respond(status.ok() ? 200 : 503, {{"ready", status.ok()}});
  });
}

json TensorJson(const char* name, const char* datatype) {
  return {{"name", name}, {"datatype", datatype}, {"shape", {1}}};
}

json ModelJson(const v1::GetModelResponse& model) {
  return {{"name", model.name()},
          {"versions", {"1"}},
          {"platform", absl::StrCat("sluice_", model.architecture())},
          {"inputs", {TensorJson("text_input", "BYTES"), TensorJson("max_tokens", "INT32")}},
          {"outputs", {TensorJson("text_output", "BYTES")}}};
}

// /v2/models/NAME[/versions/1][/ready]
void ServeModel(const ApiContext& context, std::shared_ptr<http::Exchange> exchange) {
  std::string name = exchange->request().path.substr(sizeof(kModels) - 1);
  const bool asks_ready = absl::EndsWith(name, "/ready");
  name = std::string(absl::StripSuffix(absl::StripSuffix(name, "/ready"), "/versions/1"));
  const auto call = std::make_shared<ApiCall>(std::move(exchange));
  context.backend.AskForModel(
      call->caller(),
      [&context, call, name, asks_ready](const absl::StatusOr<v1::GetModelResponse>& model) {
        if (!model.ok()) {
          return RespondError(*call, HttpStatus(model.status()),
                              std::string(AsSent(model.status()).message()));
        }
        if (name != model->name()) {
          return RespondError(*call, 404, absl::StrCat("no model named ", name));
        }
        if (asks_ready) return ServeReady(context, call->exchange());
        call->Respond(200, ModelJson(*model));
      });
}

}  // namespace

void AddRoutes(http::Router& router, const ApiContext& context) {
  const auto ready = [&context](std::shared_ptr<http::Exchange> exchange) {
    ServeReady(context, std::move(exchange));
  };
  router.Add("GET", "/v2", [](std::shared_ptr<http::Exchange> exchange) {
    ApiCall(std::move(exchange))
        .Respond(200,
                 {{"name", "sluice"}, {"version", SLUICE_VERSION}, {"extensions", json::array()}});
  });
  router.Add("GET", "/v2/health/live", ServeLive);
  router.Add("GET", "/v2/health/ready", ready);
  router.Add("GET", "/v2/models/*", [&context](std::shared_ptr<http::Exchange> exchange) {
    ServeModel(context, std::move(exchange));
  });
}

}  // namespace sluice::gateway::kserve
