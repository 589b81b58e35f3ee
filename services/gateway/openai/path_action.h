// Paths that read a whole body and answer with one value: the body and the model are read first.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "services/gateway/api/api_call.h"
#include "services/gateway/json/object_reader.h"
#include "services/gateway/openai/error.h"
#include "sluice/v1/generation.pb.h"

namespace sluice::gateway::openai {

// What a path does, on the loop, once its body is read.
using Action = std::function<void()>;

// Answers 404 where no adapter is called `wanted`, else runs the action.
inline void RunWithAdapter(const ApiContext& context, const std::shared_ptr<ApiCall>& call,
                           const std::string& wanted, Action action) {
  context.backend.ListAdapters(
      call->caller(), [call, wanted, action = std::move(action)](
                          const absl::StatusOr<v1::ListAdaptersResponse>& known) {
        if (!known.ok()) return call->Respond(ErrorResponse(known.status()));
        const bool is_known =
            std::any_of(known->adapters().begin(), known->adapters().end(),
                        [&](const auto& adapter) { return adapter.name() == wanted; });
        if (!is_known) return call->Respond(ErrorResponse(ModelNotFound(wanted)));
        action();
      });
}

// Hands the body and the model to `read`, which may run on another thread than the loop's, and runs
// the action that it returns; answers where there is none. A `read` with a fourth argument takes
// adapters as models: it is the name of the one that is asked for, or empty.
template <class Read>
void ReadBody(const ApiContext& context, std::shared_ptr<http::Exchange> exchange, Read read) {
  constexpr bool kTakesAdapters =
      std::is_invocable_v<Read, const std::shared_ptr<ApiCall>&, ObjectReader&,
                          const v1::GetModelResponse&, const std::string&>;
  const auto call = std::make_shared<ApiCall>(context, std::move(exchange));
  context.backend.GetModel(call->caller(), [&context, call, read = std::move(read)](
                                               const absl::StatusOr<v1::GetModelResponse>& model) {
    if (!model.ok()) return call->Respond(ErrorResponse(model.status()));
    const auto action = std::make_shared<Action>();
    const auto adapter = std::make_shared<std::string>();
    call->ReadBody(
        context.body_reader,
        [call, action, adapter, read, model = *model](const nlohmann::json& body) {
          ObjectReader reader(body);
          const std::string wanted = reader.String("model").value_or("");
          if (!wanted.empty() && wanted != model.name()) *adapter = wanted;
          absl::StatusOr<Action> read_action = [&]() -> absl::StatusOr<Action> {
            if constexpr (kTakesAdapters) {
              return read(call, reader, model, *adapter);
            } else {
              if (!adapter->empty()) reader.Fail(ModelNotFound(wanted));
              return read(call, reader, model);
            }
          }();
          if (read_action.ok()) *action = *std::move(read_action);
          return read_action.status();
        },
        [&context, call, action, adapter](const absl::Status& status) {
          if (!status.ok()) return call->Respond(ErrorResponse(status));
          Action run = std::exchange(*action, nullptr);
          if (adapter->empty()) return run();
          RunWithAdapter(context, call, *adapter, std::move(run));
        });
  });
}

}  // namespace sluice::gateway::openai
