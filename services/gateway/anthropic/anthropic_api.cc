#include "services/gateway/anthropic/anthropic_api.h"

#include <memory>
#include <utility>

#include "services/gateway/anthropic/message_call.h"

namespace sluice::gateway::anthropic {

void AddRoutes(http::Router& router, const ApiContext& context) {
  router.Add("POST", "/v1/messages", [&context](std::shared_ptr<http::Exchange> exchange) {
    MessageCall::Start(context, std::move(exchange));
  });
  router.Add("POST", "/v1/messages/count_tokens",
             [&context](std::shared_ptr<http::Exchange> exchange) {
               MessageCall::StartCount(context, std::move(exchange));
             });
}

}  // namespace sluice::gateway::anthropic
