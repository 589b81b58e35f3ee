// Paths that read a whole body and answer with one value: the body and the model are read first.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "services/gateway/api/api_call.h"
#include "services/gateway/http/router.h"
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

// Serves a path: `read(reader, call, model)` returns what the body asks for, or why it cannot be done,
// and `serve(call, input, model)` does it on the loop.
template <class Read, class Serve>
void ServeBody(const ApiContext& context, std::shared_ptr<http::Exchange> exchange, Read read,
               Serve serve) {
  ReadBody(context, std::move(exchange),
           [read, serve](const std::shared_ptr<ApiCall>& call, ObjectReader& reader,
                         const v1::GetModelResponse& model) -> absl::StatusOr<Action> {
             auto input = read(reader, call, model);
             if (!input.ok()) return input.status();
             return Action(
                 [serve, call, model, input = *std::move(input)] { serve(call, input, model); });
           });
}

// A callback of the backend that answers `call` with the JSON that `make(response)` returns.
template <class Response, class Make>
auto AnswerWith(std::shared_ptr<ApiCall> call, Make make) {
  return
      [call = std::move(call), make = std::move(make)](const absl::StatusOr<Response>& response) {
        if (!response.ok()) return call->Respond(ErrorResponse(response.status()));
        call->Respond(200, make(*response));
      };
}

// A reader of a body that has read the model that is asked for, which every body may have.
inline ObjectReader ReaderWithModel(const nlohmann::json& body) {
  ObjectReader reader(body);
  reader.String("model");
  return reader;
}

using ServePath = void (*)(const ApiContext& context, std::shared_ptr<http::Exchange> exchange);

inline void AddPost(http::Router& router, const ApiContext& context, const char* path,
                    ServePath serve) {
  router.Add("POST", path, [&context, serve](std::shared_ptr<http::Exchange> exchange) {
    serve(context, std::move(exchange));
  });
}

}  // namespace sluice::gateway::openai
