// Paths that read a whole body and answer with one value: the body and the model are read first.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "services/gateway/api/api_call.h"
#include "services/gateway/json/object_reader.h"
#include "services/gateway/openai/error.h"

namespace sluice::gateway::openai {

// What a path does, on the loop, once its body is read.
using Action = std::function<void()>;

// Hands the body and the model to `read`, which may run on another thread than the loop's, and runs
// the action that it returns; answers where there is none.
template <class Read>
void ReadBody(const ApiContext& context, std::shared_ptr<http::Exchange> exchange, Read read) {
  const auto call = std::make_shared<ApiCall>(context, std::move(exchange));
  context.backend.GetModel(call->caller(), [&context, call, read = std::move(read)](
                                               const absl::StatusOr<v1::GetModelResponse>& model) {
    if (!model.ok()) return call->Respond(ErrorResponse(model.status()));
    const auto action = std::make_shared<Action>();
    call->ReadBody(
        context.body_reader,
        [call, action, read, model = *model](const nlohmann::json& body) {
          ObjectReader reader(body);
          const std::string wanted = reader.String("model").value_or("");
          if (!wanted.empty() && wanted != model.name()) reader.Fail(ModelNotFound(wanted));
          absl::StatusOr<Action> read_action = read(call, reader, model);
          if (read_action.ok()) *action = *std::move(read_action);
          return read_action.status();
        },
        [call, action](const absl::Status& status) {
          if (!status.ok()) return call->Respond(ErrorResponse(status));
          std::exchange(*action, nullptr)();
        });
  });
}

}  // namespace sluice::gateway::openai
