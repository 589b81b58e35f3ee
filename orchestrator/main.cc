// sluice-orchestrator: serves the public API over the processes of a replica.
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "orchestrator/orchestrator_server.h"
#include "services/common/address.h"
#include "services/program/process.h"
#include "services/telemetry/telemetry_flags.h"

namespace {

// Clients see certificates of their own where there are some, else those of the private plane.
sluice::PublicListener ListenerOf(const sluice::OptionValues& values,
                                  const sluice::TlsFiles& pipeline) {
  sluice::PublicListener listener;
  listener.tls = {.certificate = values.Get<std::string>("public_tls_cert"),
                  .key = values.Get<std::string>("public_tls_key"),
                  .authority = values.Get<std::string>("public_tls_ca"),
                  .domain = pipeline.domain};
  listener.insecure = values.Get<bool>("insecure_public");
  if (listener.tls.empty()) {
    listener.tls = pipeline;
    listener.clients_by_role = true;
  }
  return listener;
}

// All of its flags or none.
absl::StatusOr<std::optional<sluice::DraftModelPlace>> DraftModelOf(
    const sluice::OptionValues& values) {
  const std::pair<const char*, std::string> flags[] = {
      {"draft_model", values.Get<std::string>("draft_model")},
      {"draft_embedding", values.Get<std::string>("draft_embedding")},
      {"draft_shard", values.Get<std::string>("draft_shard")},
      {"draft_sampler", values.Get<std::string>("draft_sampler")}};
  const char* given = nullptr;
  const char* missing = nullptr;
  for (const auto& [name, value] : flags) (value.empty() ? missing : given) = name;
  if (given == nullptr) return std::optional<sluice::DraftModelPlace>();
  if (missing != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", given, " was given, and --", missing, " is required with it"));
  }
  return sluice::DraftModelPlace{.model = flags[0].second,
                                 .embedding = flags[1].second,
                                 .shard = flags[2].second,
                                 .sampler = flags[3].second};
}

absl::StatusOr<sluice::OrchestratorServerOptions> OptionsOf(const sluice::ProcessOptions& process) {
  const sluice::OptionValues& values = process.values;
  sluice::OrchestratorServerOptions options;
  options.model = process.model;
  options.overrides = {process.rope_scaling};
  options.address = process.listen;
  options.listener = ListenerOf(values, process.tls);
  options.owners_socket = values.Get<std::string>("owners_socket");
  options.tokens = values.Get<std::string>("tokens");
  options.tokenizer = values.Get<std::string>("tokenizer");
  options.topology.embedding = values.Get<std::string>("embedding");
  options.topology.sampler = values.Get<std::string>("sampler");
  for (const auto& [name, address] : {std::pair("tokenizer", options.tokenizer),
                                      std::pair("embedding", options.topology.embedding),
                                      std::pair("sampler", options.topology.sampler)}) {
    if (address.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("--", name, " is required: its address"));
    }
    const absl::Status valid = sluice::CheckAddress(address);
    if (!valid.ok()) return sluice::Annotate(valid, absl::StrCat("--", name));
  }
  auto shards = sluice::ParseShardAddresses(values.Get<std::string>("shards"));
  if (!shards.ok()) return sluice::Annotate(shards.status(), "--shards");
  options.topology.shards = *std::move(shards);
  const auto inspector =
      std::filesystem::path(process.program).replace_filename("sluice-inspector");
  if (std::filesystem::exists(inspector)) options.inspector = inspector.string();
  const auto weights = sluice::ParseWeightType(values.Get<std::string>("weights"));
  if (!weights.ok()) return sluice::Annotate(weights.status(), "--weights");
  options.weights = *weights;
  options.rank_transport = values.Get<std::string>("rank_transport") == "shm"
                               ? sluice::RankTransport::kSharedMemory
                               : sluice::RankTransport::kTcp;
  options.vllm_metric_names = values.Get<bool>("vllm_metric_names");
  options.max_step_tokens = values.Get<int>("max_step_tokens");
  options.max_step_sequences = values.Get<int>("max_step_sequences");
  options.max_queued_sequences = values.Get<int>("max_queued_sequences");
  options.max_request_work = values.Get<absl::Duration>("max_request_work");
  const auto draft = sluice::ParseDraftMode(values.Get<std::string>("draft"));
  if (!draft.ok()) return sluice::Annotate(draft.status(), "--draft");
  options.draft = *draft;
  const auto policy = sluice::ParseDraftPolicy(values.Get<std::string>("draft_policy"));
  if (!policy.ok()) return sluice::Annotate(policy.status(), "--draft_policy");
  options.draft_policy = *policy;
  auto draft_model = DraftModelOf(values);
  if (!draft_model.ok()) return draft_model.status();
  options.draft_model = *std::move(draft_model);
  options.hang_timeout = process.hang_timeout;
  options.hold_time = values.Get<absl::Duration>("hold_time");
  options.tenants = values.Get<std::string>("tenants");
  options.values = values;
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  std::unique_ptr<sluice::Dialer> dialer;
  std::unique_ptr<sluice::Tracer> tracer;  // outlives the service, whose last requests it tells of
  return sluice::RunProcess(
      argc, argv, sluice::kOrchestrator,
      "Serves the public API: schedules requests over the processes of a replica.",
      [&dialer, &tracer](const sluice::ProcessOptions& process)
          -> absl::StatusOr<std::unique_ptr<sluice::RunningService>> {
        auto options = OptionsOf(process);
        if (!options.ok()) return options.status();
        auto traced = sluice::TracerOf("sluice-orchestrator", process.values);
        if (!traced.ok()) return traced.status();
        tracer = *std::move(traced);
        options->tracer = tracer.get();
        dialer = std::make_unique<sluice::Dialer>(process.tls);
        return sluice::OrchestratorServer::Start(*options, dialer.get());
      });
}
