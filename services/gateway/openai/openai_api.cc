#include "services/gateway/openai/openai_api.h"

#include <memory>
#include <string>
#include <utility>

#include "services/gateway/openai/chat_call.h"
#include "services/gateway/openai/completion_call.h"
#include "services/gateway/openai/error.h"
#include "services/gateway/openai/response_call.h"

namespace sluice::gateway::openai {
namespace {

using nlohmann::json;

constexpr char kModels[] = "/v1/models/";

// As vLLM lists them: beside the model that they are for.
// The list where `wanted` is empty.
void ServeModels(const ApiContext& context, std::shared_ptr<http::Exchange> exchange,
                 std::string wanted) {
  const auto call = std::make_shared<ApiCall>(std::move(exchange));
  context.backend.AskForModel(
      call->caller(), [&context, call, wanted = std::move(wanted)](
                          const absl::StatusOr<v1::GetModelResponse>& model) {
        if (!model.ok()) return call->Respond(ErrorResponse(model.status()));
        if (wanted == model->name()) return call->Respond(200, ModelObject(*model));
        context.backend.ListAdapters(
            call->caller(), [call, wanted, model = *model](
                                const absl::StatusOr<v1::ListAdaptersResponse>& adapters) {
              if (!adapters.ok()) return call->Respond(ErrorResponse(adapters.status()));
              json data = json::array({ModelObject(model)});
              for (const v1::AdapterInfo& adapter : adapters->adapters()) {
                data.push_back(AdapterObject(adapter.name(), model));
                if (adapter.name() == wanted) return call->Respond(200, data.back());
              }
              if (!wanted.empty()) return call->Respond(ErrorResponse(ModelNotFound(wanted)));
              call->Respond(200, {{"object", "list"}, {"data", std::move(data)}});
            });
      });
}

}  // namespace

json ModelObject(const v1::GetModelResponse& model) {
  return {{"id", model.name()},
          {"object", "model"},
          {"created", 0},
          {"owned_by", "sluice"},
          {"max_model_len", model.max_positions()}};
}

json AdapterObject(const std::string& name, const v1::GetModelResponse& base) {
  json object = ModelObject(base);
  object["id"] = name;
  object["parent"] = base.name();
  object["root"] = name;
  return object;
}

void AddRoutes(http::Router& router, const ApiContext& context) {
  router.Add("GET", "/v1/models", [&context](std::shared_ptr<http::Exchange> exchange) {
    ServeModels(context, std::move(exchange), "");
  });
  router.Add("GET", "/v1/models/*", [&context](std::shared_ptr<http::Exchange> exchange) {
    std::string name = exchange->request().path.substr(sizeof(kModels) - 1);
    ServeModels(context, std::move(exchange), std::move(name));
  });
  router.Add("POST", "/v1/completions", [&context](std::shared_ptr<http::Exchange> exchange) {
    std::make_shared<CompletionCall>(context, std::move(exchange))->Start();
  });
  router.Add("POST", "/v1/chat/completions", [&context](std::shared_ptr<http::Exchange> exchange) {
    std::make_shared<ChatCall>(context, std::move(exchange))->Start();
  });
  router.Add("POST", "/v1/responses", [&context](std::shared_ptr<http::Exchange> exchange) {
    std::make_shared<ResponseCall>(context, std::move(exchange))->Start();
  });
}

}  // namespace sluice::gateway::openai
