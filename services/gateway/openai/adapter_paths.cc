#include "services/gateway/openai/adapter_paths.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "services/gateway/json/object_reader.h"
#include "services/gateway/openai/error.h"
#include "sluice/v1/generation.pb.h"

namespace sluice::gateway::openai {
namespace {

using nlohmann::json;

std::string RequiredText(ObjectReader& reader, const char* name) {
  const std::string text = reader.String(name).value_or("");
  if (text.empty()) {
    reader.Fail(name, "missing_required_parameter",
                absl::StrCat("Missing required parameter: '", name, "'."));
  }
  return text;
}

absl::StatusOr<v1::LoadAdapterRequest> ReadLoad(const json& body) {
  ObjectReader reader(body);
  v1::LoadAdapterRequest request;
  request.set_name(RequiredText(reader, "lora_name"));
  request.set_folder(RequiredText(reader, "lora_path"));
  request.set_replace(reader.Bool("load_inplace").value_or(false));
  reader.String("base_model_name");
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  return request;
}

absl::StatusOr<v1::UnloadAdapterRequest> ReadUnload(const json& body) {
  ObjectReader reader(body);
  v1::UnloadAdapterRequest request;
  request.set_name(RequiredText(reader, "lora_name"));
  reader.Integer("lora_int_id", 0, std::numeric_limits<int32_t>::max());
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  return request;
}

// vLLM answers a text.
http::Response Success(const std::string& name, const char* done) {
  return {.status = 200,
          .headers = {{"content-type", "text/plain; charset=utf-8"}},
          .body = absl::StrCat("Success: LoRA adapter '", name, "' ", done, " successfully.")};
}

// Reads a request and hands it to `send`, with what answers the call.
template <class Request, class Response>
void Serve(const ApiContext& context, std::shared_ptr<http::Exchange> exchange,
           absl::StatusOr<Request> (*read)(const json& body),
           void (Backend::*send)(const Caller&, Request, Backend::Callback<Response>),
           const char* done) {
  const auto call = std::make_shared<ApiCall>(context, std::move(exchange));
  const auto request = std::make_shared<Request>();
  call->ReadBody(
      context.body_reader,
      [request, read](const json& body) {
        absl::StatusOr<Request> parsed = read(body);
        if (parsed.ok()) *request = *std::move(parsed);
        return parsed.status();
      },
      [&context, call, request, send, done](const absl::Status& status) {
        if (!status.ok()) return call->Respond(ErrorResponse(status));
        const std::string name = request->name();
        (context.backend.*send)(call->caller(), *request,
                                [call, name, done](const absl::StatusOr<Response>& answer) {
                                  if (!answer.ok()) {
                                    return call->Respond(ErrorResponse(answer.status()));
                                  }
                                  call->Respond(Success(name, done));
                                });
      });
}

}  // namespace

absl::Status CheckLoadAdapterBody(const json& body, absl::string_view) {
  return ReadLoad(body).status();
}

absl::Status CheckUnloadAdapterBody(const json& body, absl::string_view) {
  return ReadUnload(body).status();
}

void AddAdapterRoutes(http::Router& router, const ApiContext& context) {
  router.Add("POST", "/v1/load_lora_adapter", [&context](std::shared_ptr<http::Exchange> exchange) {
    Serve(context, std::move(exchange), &ReadLoad, &Backend::LoadAdapter, "added");
  });
  router.Add("POST", "/v1/unload_lora_adapter",
             [&context](std::shared_ptr<http::Exchange> exchange) {
               Serve(context, std::move(exchange), &ReadUnload, &Backend::UnloadAdapter, "removed");
             });
}

}  // namespace sluice::gateway::openai
