#include "services/gateway/anthropic/anthropic_api.h"

#include <memory>
#include <utility>

#include "services/gateway/anthropic/error.h"
#include "services/gateway/anthropic/message_call.h"
#include "services/gateway/anthropic/message_request.h"

namespace sluice::gateway::anthropic {
namespace {

void CountTokens(const ApiContext& context, const std::shared_ptr<ApiCall>& call,
                 const v1::Chat& chat) {
  context.backend.ApplyChatTemplate(
      call->caller(), TemplateRequest(chat),
      [call](const absl::StatusOr<v1::ApplyChatTemplateResponse>& prompt) {
        if (!prompt.ok()) return AnswerError(*call, prompt.status());
        call->Respond(200, {{"input_tokens", prompt->token_ids_size()}});
      });
}

void ServeCount(const ApiContext& context, std::shared_ptr<http::Exchange> exchange) {
  const auto call = std::make_shared<ApiCall>(context, std::move(exchange));
  context.backend.GetModel(
      call->caller(), [&context, call](const absl::StatusOr<v1::GetModelResponse>& model) {
        if (!model.ok()) return AnswerError(*call, model.status());
        const auto request = std::make_shared<MessageRequest>();
        call->ReadBody(
            context.body_reader,
            [call, request](const nlohmann::json& body) {
              absl::StatusOr<MessageRequest> read = ReadCountRequest(body, call->request().body);
              if (read.ok()) *request = *std::move(read);
              return read.status();
            },
            [&context, call, request, name = model->name()](const absl::Status& status) {
              if (!status.ok()) return AnswerError(*call, status);
              if (!request->model.empty() && request->model != name) {
                return AnswerError(*call, ModelNotFound(request->model));
              }
              CountTokens(context, call, request->generate.chat());
            });
      });
}

}  // namespace

void AddRoutes(http::Router& router, const ApiContext& context) {
  router.Add("POST", "/v1/messages", [&context](std::shared_ptr<http::Exchange> exchange) {
    std::make_shared<MessageCall>(context, std::move(exchange))->Start();
  });
  router.Add("POST", "/v1/messages/count_tokens",
             [&context](std::shared_ptr<http::Exchange> exchange) {
               ServeCount(context, std::move(exchange));
             });
}

}  // namespace sluice::gateway::anthropic
