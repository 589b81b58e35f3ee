#include "services/gateway/models/model_directory.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "services/gateway/api/api_call.h"
#include "services/gateway/api/authorization.h"
#include "services/gateway/models/held_exchange.h"
#include "services/gateway/models/named_model.h"
#include "services/gateway/models/path_error.h"
#include "services/gateway/openai/openai_api.h"

namespace sluice::gateway {
namespace {

using nlohmann::json;

constexpr absl::string_view kModels = "/v1/models";
constexpr absl::string_view kKServeModels = "/v2/models/";

Caller CallerOf(const http::Request& request, http::Loop& loop) {
  return {.loop = &loop,
          .authorization = AuthorizationOf(request).value_or(std::string()),
          .trace = std::nullopt};
}

// Of /v2/models/NAME/ready and the like.
std::string NameInPath(absl::string_view path) {
  absl::ConsumePrefix(&path, kKServeModels);
  return std::string(path.substr(0, path.find('/')));
}

const char* StateWord(v1::HostedModel::State state) {
  switch (state) {
    case v1::HostedModel::STATE_ASLEEP:
      return "asleep";
    case v1::HostedModel::STATE_WAKING:
      return "waking";
    case v1::HostedModel::STATE_FAILED:
      return "failed";
    default:
      return "awake";
  }
}

ServedModel* DefaultOf(const std::vector<std::unique_ptr<ServedModel>>& models) {
  const auto awake =
      std::find_if(models.begin(), models.end(), [](const auto& model) { return !model->sleeps; });
  return awake == models.end() ? models.front().get() : awake->get();
}

}  // namespace

ModelDirectory::ModelDirectory(std::vector<std::unique_ptr<ServedModel>> models, ModelHost* host,
                               BodyReader* reader)
    : models_(std::move(models)),
      default_model_(DefaultOf(models_)),
      host_(host),
      reader_(*reader) {}

void ModelDirectory::Shutdown() {
  if (host_ != nullptr) host_->Shutdown();
  for (const std::unique_ptr<ServedModel>& model : models_) model->backend.Shutdown();
}

ServedModel* ModelDirectory::Find(const std::string& name) const {
  const auto found = std::find_if(models_.begin(), models_.end(),
                                  [&name](const auto& model) { return model->name == name; });
  return found == models_.end() ? nullptr : found->get();
}

void ModelDirectory::Serve(std::shared_ptr<http::Exchange> exchange) {
  if (is_alone()) return default_model_->router.Serve(std::move(exchange));
  const http::Request& request = exchange->request();
  const absl::string_view path = request.path;
  if (path == kModels || absl::StartsWith(path, "/v1/models/")) {
    if (request.method == "GET" || request.method == "HEAD") return ServeList(std::move(exchange));
  }
  if (absl::StartsWith(path, kKServeModels)) {
    ServedModel* const model = Find(NameInPath(path));
    return (model == nullptr ? default_model_ : model)->router.Serve(std::move(exchange));
  }
  if (request.method != "POST") {
    // Those of the page and of probes look, and wake nobody.
    if (!absl::StartsWith(path, "/v1/")) return default_model_->router.Serve(std::move(exchange));
    return ServeAwake(*default_model_, std::move(exchange));
  }
  http::Loop& loop = exchange->loop();
  const auto name = std::make_shared<std::string>();
  reader_.StartText(
      loop, TenantOf(request), request.body,
      [name](absl::string_view body) {
        *name = ModelNamedIn(body);
        return absl::OkStatus();
      },
      [this, name, exchange](const absl::Status& /*ok*/) { ServeNamed(*name, exchange); });
}

void ModelDirectory::ServeNamed(const std::string& name, std::shared_ptr<http::Exchange> exchange) {
  ServedModel* const model = name.empty() ? default_model_ : Find(name);
  if (model == nullptr) return ServeAdapter(name, 0, std::move(exchange));
  ServeAwake(*model, std::move(exchange));
}

void ModelDirectory::ServeAdapter(const std::string& name, size_t index,
                                  std::shared_ptr<http::Exchange> exchange) {
  // One that sleeps has no adapters to tell.
  while (index < models_.size() && models_[index]->sleeps) ++index;
  if (index == models_.size()) {
    const std::string path = exchange->request().path;
    return ApiCall(std::move(exchange)).Respond(UnknownModelError(path, name));
  }
  ServedModel& model = *models_[index];
  const Caller caller = CallerOf(exchange->request(), exchange->loop());
  model.backend.ListAdapters(caller, [this, name, index, &model, exchange](
                                         const absl::StatusOr<v1::ListAdaptersResponse>& known) {
    if (!known.ok() && !absl::IsUnavailable(known.status())) {
      return ApiCall(exchange).Respond(PathError(exchange->request().path, known.status()));
    }
    const bool is_there =
        known.ok() &&
        std::any_of(known->adapters().begin(), known->adapters().end(),
                    [&name](const v1::AdapterInfo& adapter) { return adapter.name() == name; });
    if (is_there) return model.router.Serve(exchange);
    ServeAdapter(name, index + 1, exchange);
  });
}

void ModelDirectory::ServeAwake(ServedModel& model, std::shared_ptr<http::Exchange> exchange) {
  if (!model.sleeps) return model.router.Serve(std::move(exchange));
  const Caller caller = CallerOf(exchange->request(), exchange->loop());
  host_->Use(caller, model.name,
             [&model, exchange](const absl::StatusOr<std::shared_ptr<ModelUse>>& use) {
               if (use.ok()) {
                 return model.router.Serve(std::make_shared<HeldExchange>(exchange, *use));
               }
               ApiCall(exchange).Respond(PathError(exchange->request().path, use.status()));
             });
}

// The list, or one of it, as it comes together: what each model's orchestrator says of it.
struct ModelDirectory::Listing {
  std::shared_ptr<http::Exchange> exchange;
  std::string wanted;                      // the name of one; empty: all
  std::vector<std::vector<json>> entries;  // of each model: its own, and then its adapters'
  size_t num_missing = 0;
  absl::Status refusal;

  void Respond() {
    ApiCall call(exchange);
    if (!refusal.ok()) return call.Respond(openai::ErrorResponse(refusal));
    json data = json::array();
    for (std::vector<json>& of_model : entries) {
      for (json& entry : of_model) {
        if (entry["id"] == wanted) return call.Respond(200, entry);
        data.push_back(std::move(entry));
      }
    }
    if (wanted.empty()) return call.Respond(200, {{"object", "list"}, {"data", std::move(data)}});
    call.Respond(UnknownModelError(exchange->request().path, wanted));
  }

  // Takes a model's own answer and the list of its adapters. A model whose orchestrator does not answer is
  // listed with its name and state alone (Miss).
  void Take(size_t index, const v1::GetModelResponse& model,
            const absl::StatusOr<v1::ListAdaptersResponse>& adapters) {
    if (!adapters.ok()) return Miss(adapters.status());
    entries[index].front().update(openai::ModelObject(model));
    for (const v1::AdapterInfo& adapter : adapters->adapters()) {
      entries[index].push_back(openai::AdapterObject(adapter.name(), model));
    }
    if (--num_missing == 0) Respond();
  }
  void Miss(const absl::Status& why) {
    if (absl::IsUnauthenticated(why) || absl::IsPermissionDenied(why)) refusal = why;
    if (--num_missing == 0) Respond();
  }
};

void ModelDirectory::ServeList(std::shared_ptr<http::Exchange> exchange) {
  const Caller caller = CallerOf(exchange->request(), exchange->loop());
  const auto listing = std::make_shared<Listing>();
  absl::string_view path = exchange->request().path;
  absl::ConsumePrefix(&path, kModels);
  listing->wanted = std::string(absl::StripPrefix(path, "/"));
  listing->exchange = std::move(exchange);
  const auto ask = [this, caller, listing](const v1::ListModelsResponse& hosted) {
    listing->num_missing = 1 + models_.size();
    for (size_t i = 0; i < models_.size(); ++i) {
      const auto found = std::find_if(
          hosted.models().begin(), hosted.models().end(),
          [&](const v1::HostedModel& model) { return model.name() == models_[i]->name; });
      const v1::HostedModel::State state =
          found == hosted.models().end() ? v1::HostedModel::STATE_AWAKE : found->state();
      json entry = {{"id", models_[i]->name},
                    {"object", "model"},
                    {"created", 0},
                    {"owned_by", "sluice"},
                    {"state", StateWord(state)}};
      listing->entries.emplace_back().push_back(std::move(entry));
      if (state != v1::HostedModel::STATE_AWAKE) {
        --listing->num_missing;
        continue;
      }
      Backend& backend = models_[i]->backend;
      backend.AskForModel(caller, [listing, i, caller,
                                   &backend](const absl::StatusOr<v1::GetModelResponse>& model) {
        if (!model.ok()) return listing->Miss(model.status());
        backend.ListAdapters(caller, [listing, i, model = *model](
                                         const absl::StatusOr<v1::ListAdaptersResponse>& adapters) {
          listing->Take(i, model, adapters);
        });
      });
    }
    if (--listing->num_missing == 0) listing->Respond();
  };
  if (host_ == nullptr) return ask({});
  host_->List(caller, [listing, ask](const absl::StatusOr<v1::ListModelsResponse>& hosted) {
    if (hosted.ok()) return ask(*hosted);
    listing->refusal = hosted.status();
    listing->Respond();
  });
}

void ModelDirectory::CheckCaller(const Caller& caller, std::function<void(absl::Status)> done) {
  if (!default_model_->sleeps) {
    return default_model_->backend.GetModel(
        caller, [done = std::move(done)](const absl::StatusOr<v1::GetModelResponse>& model) {
          done(model.status());
        });
  }
  host_->List(caller,
              [done = std::move(done)](const absl::StatusOr<v1::ListModelsResponse>& models) {
                done(models.status());
              });
}

void ModelDirectory::CheckHealth(http::Loop* loop, std::function<void(absl::Status)> done) {
  if (!default_model_->sleeps) return default_model_->backend.CheckHealth(loop, std::move(done));
  // Waking is what serving takes.
  done(absl::OkStatus());
}

}  // namespace sluice::gateway
