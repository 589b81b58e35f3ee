#include "services/gateway/page/page.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/gateway/json/json_text.h"
#include "services/gateway/json/object_reader.h"
#include "services/gateway/openai/error.h"
#include "services/gateway/page/assets.h"
#include "services/gateway/page/inspection.h"
#include "services/gateway/page/sampling_form.h"

namespace sluice::gateway {
namespace {

using nlohmann::json;

constexpr size_t kMaxSequences = 256;  // that the ledger shows

// Nothing from elsewhere, nothing inline, in no frame.
constexpr char kPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

http::Response AssetResponse(const Asset& asset) {
  return {.headers = {{"content-type", asset.content_type},
                      {"cache-control", "no-cache"},
                      {"content-security-policy", kPolicy},
                      {"x-content-type-options", "nosniff"},
                      {"referrer-policy", "no-referrer"}},
          .body = std::string(asset.content)};
}

json ProcessJson(const v1::ProcessStatus& process) {
  return {{"service", process.service()},
          {"address", process.address()},
          {"ready", process.state() == v1::PROCESS_STATE_READY},
          {"stage", process.stage()},
          {"rank", process.rank()},
          {"detail", process.detail()},
          {"weight_bytes", process.weight_bytes()},
          {"kv_bytes", process.kv_bytes()},
          {"arithmetic", process.arithmetic()}};
}

json HistogramJson(const Histogram& histogram) {
  return {{"bounds", Histogram::kBounds}, {"counts", histogram.Counts()}};
}

const char* StateText(v1::RequestState state) {
  switch (state) {
    case v1::REQUEST_STATE_RUNNING:
      return "running";
    case v1::REQUEST_STATE_PAUSED:
      return "paused";
    case v1::REQUEST_STATE_ENDED:
      return "ended";
    default:
      return "waiting";
  }
}

// The ledger: what each sequence has used, as far as a page can show it.
json SequencesJson(const v1::GetStatusResponse& status) {
  json sequences = json::array();
  for (const v1::RequestStatus& request : status.requests()) {
    for (const v1::SequenceStatus& sequence : request.sequences()) {
      if (sequences.size() == kMaxSequences) return sequences;
      sequences.push_back({{"request_id", request.request_id()},
                           {"tenant", request.tenant()},
                           {"sequence", sequence.sequence()},
                           {"state", StateText(sequence.state())},
                           {"num_prompt_tokens", sequence.num_prompt_tokens()},
                           {"num_generated_tokens", sequence.num_generated_tokens()},
                           {"num_held_blocks", sequence.num_held_blocks()},
                           {"num_shared_blocks", sequence.num_shared_blocks()},
                           {"num_preemptions", sequence.num_preemptions()},
                           {"num_computed_positions", sequence.num_computed_positions()},
                           {"num_hit_positions", sequence.num_hit_positions()}});
    }
  }
  return sequences;
}

json StatusJson(const v1::GetStatusResponse& status) {
  json processes = json::array();
  for (const v1::ProcessStatus& process : status.processes()) {
    processes.push_back(ProcessJson(process));
  }
  return {{"serving", status.serving()},
          {"model_name", status.model_name()},
          {"epoch", status.epoch()},
          {"processes", std::move(processes)},
          {"kv_cache",
           {{"block_size", status.kv_cache().block_size()},
            {"num_blocks", status.kv_cache().num_blocks()},
            {"num_used_blocks", status.kv_cache().num_used_blocks()},
            {"num_shared_blocks", status.kv_cache().num_shared_blocks()},
            {"num_cached_blocks", status.kv_cache().num_cached_blocks()}}},
          {"sequences", SequencesJson(status)},
          {"num_waiting_sequences", status.num_waiting_sequences()},
          {"num_running_sequences", status.num_running_sequences()},
          {"num_steps", status.num_steps()},
          {"num_generated_tokens", status.num_generated_tokens()},
          {"num_recoveries", status.num_recoveries()},
          {"num_stages", status.num_stages()},
          {"num_ranks", status.num_ranks()},
          {"uptime_ms", status.uptime_ms()}};
}

void ServeStatus(const ApiContext& context, const PageOptions& options,
                 std::shared_ptr<http::Exchange> exchange) {
  const auto call = std::make_shared<ApiCall>(std::move(exchange));
  context.backend.GetModel(
      call->caller(), [&context, options, call](const absl::StatusOr<v1::GetModelResponse>& model) {
        if (!model.ok()) return call->Respond(openai::ErrorResponse(model.status()));
        v1::GetStatusRequest request;
        request.set_include_requests(call->request().query == "sequences");
        context.backend.GetStatus(
            call->caller(), std::move(request),
            [&context, options, call, has_template = model->has_chat_template()](
                const absl::StatusOr<v1::GetStatusResponse>& status) {
              if (!status.ok()) return call->Respond(openai::ErrorResponse(status.status()));
              json body = StatusJson(*status);
              const Meter& meter = context.backend.meter();
              body["time_to_first_token"] = HistogramJson(meter.time_to_first_token);
              body["time_between_tokens"] = HistogramJson(meter.time_between_tokens);
              body["has_chat_template"] = has_template;
              body["demo"] = options.kill != nullptr;
              call->Respond(200, body);
            });
      });
}

// Takes the same time for every token of the same length.
bool IsEqual(absl::string_view a, absl::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

// A browser names the origin of the page that sends a request like this one.
bool IsOfThisOrigin(const http::Request& request) {
  const std::optional<absl::string_view> origin = request.Header("origin");
  if (!origin.has_value()) return true;
  const absl::string_view host = request.authority;
  return !host.empty() &&
         (*origin == absl::StrCat("http://", host) || *origin == absl::StrCat("https://", host));
}

absl::Status Kill(const ApiCall& call, const PageOptions& options) {
  if (!IsOfThisOrigin(call.request())) {
    return absl::PermissionDeniedError("a page of another origin may not do this");
  }
  const absl::string_view token = call.request().Header("x-sluice-demo-token").value_or("");
  if (!IsEqual(token, options.demo_token)) {
    return absl::PermissionDeniedError(
        "x-sluice-demo-token is not the token in the address that `sluice up --demo` prints");
  }
  const absl::StatusOr<json> body = call.Body();
  if (!body.ok()) return body.status();
  ObjectReader reader(*body);
  const std::string address = reader.String("address").value_or("");
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  return options.kill(address);
}

}  // namespace

void AddPageRoutes(http::Router& router, const ApiContext& context, const PageOptions& options) {
  for (const Asset& asset : Assets()) {
    router.Add("GET", asset.path, [&asset](const std::shared_ptr<http::Exchange>& exchange) {
      exchange->Respond(AssetResponse(asset));
    });
  }
  router.Add("GET", "/page/sampling", [](std::shared_ptr<http::Exchange> exchange) {
    ApiCall(std::move(exchange)).Respond(200, SamplingForm());
  });
  router.Add("GET", "/page/status", [&context, options](std::shared_ptr<http::Exchange> exchange) {
    ServeStatus(context, options, std::move(exchange));
  });
  router.Add("POST", "/page/inspect", [&context](std::shared_ptr<http::Exchange> exchange) {
    ServeInspection(context, std::move(exchange));
  });
  if (options.kill == nullptr) return;
  router.Add("POST", "/page/kill", [&context, options](std::shared_ptr<http::Exchange> exchange) {
    const auto call = std::make_shared<ApiCall>(std::move(exchange));
    // Only for callers whom the orchestrator serves, too.
    context.backend.AskForModel(
        call->caller(), [call, options](const absl::StatusOr<v1::GetModelResponse>& model) {
          const absl::Status status = model.ok() ? Kill(*call, options) : model.status();
          if (!status.ok()) return call->Respond(openai::ErrorResponse(status));
          call->Respond(200, {{"killed", true}});
        });
  });
}

}  // namespace sluice::gateway
