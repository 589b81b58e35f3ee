// sluice-orchestrator: serves the public API over the processes of a replica.
#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "orchestrator/orchestrator_server.h"
#include "services/common/address.h"
#include "services/common/process.h"
#include "services/telemetry/telemetry_flags.h"

ABSL_FLAG(std::string, tokenizer, "", "address of the tokenizer");
ABSL_FLAG(std::string, embedding, "", "address of the embedding");
ABSL_FLAG(
    std::string, shards, "",
    "addresses of the shards: ranks by comma, stages by semicolon, such as \"a:1,b:1;c:1,d:1\"");
ABSL_FLAG(std::string, sampler, "", "address of the sampler");
ABSL_FLAG(std::string, rank_transport, "shm",
          "how the ranks of a stage talk: shm (one host) or tcp (several hosts)");
ABSL_FLAG(std::string, weights, "auto", "what the stages were started with; shown by GetModel");
ABSL_FLAG(std::string, public_tls_cert, "",
          "PEM file of the certificate that clients see; default: --tls_cert");
ABSL_FLAG(std::string, public_tls_key, "", "PEM file of its private key");
ABSL_FLAG(std::string, public_tls_ca, "",
          "PEM file of the authority that clients' certificates come from; default: --tls_ca, and "
          "the name client.DOMAIN in them");
ABSL_FLAG(std::string, owners_socket, "",
          "unix:/PATH where clients of this user, such as a gateway, come without TLS; with tokens "
          "all the same");
ABSL_FLAG(
    std::string, tokens, "",
    "file of the bearer tokens that clients may show, on each line the SHA-256 of one and its "
    "tenant; read again when it changes");
ABSL_FLAG(bool, insecure_public, false,
          "serve clients on other hosts in plaintext, or without asking who they are");
ABSL_FLAG(bool, vllm_metric_names, false,
          "serve the figures that routers and dashboards made for vLLM read, under its names too");
ABSL_FLAG(int, max_step_tokens, 512, "positions computed in one step, over all sequences");
ABSL_FLAG(int, max_step_sequences, 64, "sequences in one step");
ABSL_FLAG(int, max_queued_sequences, 1024, "sequences that may wait before new ones are refused");
ABSL_FLAG(
    std::string, draft, "ngram",
    "tokens computed before the model has chosen: ngram (what followed the same tokens before, "
    "where that wins) or none; no token depends on it");
ABSL_FLAG(std::string, draft_policy, "measured",
          "which drafts are computed: measured (those that save time) or always (the likeliest, "
          "whatever they cost; a draft model is asked before every token)");
ABSL_FLAG(std::string, draft_model, "",
          "folder of a smaller model with the same tokens that drafts as well, of which the "
          "configuration is read; its processes are those of the three flags after it");
ABSL_FLAG(std::string, draft_embedding, "", "address of the draft model's embedding");
ABSL_FLAG(std::string, draft_shard, "", "address of its shard, which holds all its layers");
ABSL_FLAG(std::string, draft_sampler, "", "address of its sampler");
ABSL_FLAG(
    absl::Duration, hold_time, absl::ZeroDuration(),
    "how long requests wait while processes of the replica are replaced, or still belong to the "
    "orchestrator that this one succeeds: as long the health service \"accepts\" says SERVING, for "
    "updates in which each waits for the other; 0s: while it stands by, requests end at once");
ABSL_FLAG(
    std::string, tenants, "",
    "JSON file of what tenants are granted: weights, priorities, limits; read again on SIGHUP");

namespace {

// Clients see certificates of their own where there are some, else those of the private plane.
sluice::PublicListener ListenerFromFlags(const sluice::TlsFiles& pipeline) {
  sluice::PublicListener listener;
  listener.tls = {.certificate = absl::GetFlag(FLAGS_public_tls_cert),
                  .key = absl::GetFlag(FLAGS_public_tls_key),
                  .authority = absl::GetFlag(FLAGS_public_tls_ca),
                  .domain = pipeline.domain};
  listener.insecure = absl::GetFlag(FLAGS_insecure_public);
  if (listener.tls.empty()) {
    listener.tls = pipeline;
    listener.clients_by_role = true;
  }
  return listener;
}

// All of its flags or none.
absl::StatusOr<std::optional<sluice::DraftModelPlace>> DraftModelFromFlags() {
  const std::pair<const char*, std::string> flags[] = {
      {"draft_model", absl::GetFlag(FLAGS_draft_model)},
      {"draft_embedding", absl::GetFlag(FLAGS_draft_embedding)},
      {"draft_shard", absl::GetFlag(FLAGS_draft_shard)},
      {"draft_sampler", absl::GetFlag(FLAGS_draft_sampler)}};
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

absl::Status ReadLimits(sluice::OrchestratorServerOptions& options) {
  options.max_step_tokens = absl::GetFlag(FLAGS_max_step_tokens);
  options.max_step_sequences = absl::GetFlag(FLAGS_max_step_sequences);
  options.max_queued_sequences = absl::GetFlag(FLAGS_max_queued_sequences);
  for (const auto& [name, value] :
       {std::pair("max_step_tokens", options.max_step_tokens),
        std::pair("max_step_sequences", options.max_step_sequences),
        std::pair("max_queued_sequences", options.max_queued_sequences)}) {
    if (value >= 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, " is ", value, "; accepted: 1 or more"));
  }
  return absl::OkStatus();
}

absl::StatusOr<sluice::OrchestratorServerOptions> OptionsFromFlags(
    const sluice::ProcessOptions& process) {
  sluice::OrchestratorServerOptions options;
  options.model = process.model;
  options.overrides = {process.rope_scaling};
  options.address = process.listen;
  options.listener = ListenerFromFlags(process.tls);
  options.owners_socket = absl::GetFlag(FLAGS_owners_socket);
  options.tokens = absl::GetFlag(FLAGS_tokens);
  options.tokenizer = absl::GetFlag(FLAGS_tokenizer);
  options.topology.embedding = absl::GetFlag(FLAGS_embedding);
  options.topology.sampler = absl::GetFlag(FLAGS_sampler);
  for (const auto& [name, address] : {std::pair("tokenizer", options.tokenizer),
                                      std::pair("embedding", options.topology.embedding),
                                      std::pair("sampler", options.topology.sampler)}) {
    if (address.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("--", name, " is required: its address"));
    }
    const absl::Status valid = sluice::CheckAddress(address);
    if (!valid.ok()) return sluice::Annotate(valid, absl::StrCat("--", name));
  }
  auto shards = sluice::ParseShardAddresses(absl::GetFlag(FLAGS_shards));
  if (!shards.ok()) return sluice::Annotate(shards.status(), "--shards");
  options.topology.shards = *std::move(shards);
  const auto weights = sluice::ParseWeightType(absl::GetFlag(FLAGS_weights));
  if (!weights.ok()) return sluice::Annotate(weights.status(), "--weights");
  options.weights = *weights;
  const std::string transport = absl::GetFlag(FLAGS_rank_transport);
  if (transport != "shm" && transport != "tcp") {
    return absl::InvalidArgumentError(
        absl::StrCat("--rank_transport is ", transport, "; accepted: shm, tcp"));
  }
  options.rank_transport =
      transport == "shm" ? sluice::RankTransport::kSharedMemory : sluice::RankTransport::kTcp;
  options.vllm_metric_names = absl::GetFlag(FLAGS_vllm_metric_names);
  if (const absl::Status limits = ReadLimits(options); !limits.ok()) return limits;
  const auto draft = sluice::ParseDraftMode(absl::GetFlag(FLAGS_draft));
  if (!draft.ok()) return sluice::Annotate(draft.status(), "--draft");
  options.draft = *draft;
  const auto policy = sluice::ParseDraftPolicy(absl::GetFlag(FLAGS_draft_policy));
  if (!policy.ok()) return sluice::Annotate(policy.status(), "--draft_policy");
  options.draft_policy = *policy;
  auto draft_model = DraftModelFromFlags();
  if (!draft_model.ok()) return draft_model.status();
  options.draft_model = *std::move(draft_model);
  options.hang_timeout = process.hang_timeout;
  options.hold_time = absl::GetFlag(FLAGS_hold_time);
  if (options.hold_time < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat("--hold_time is ",
                                                   absl::FormatDuration(options.hold_time),
                                                   "; accepted: 0s or longer, such as 120s"));
  }
  options.tenants = absl::GetFlag(FLAGS_tenants);
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  std::unique_ptr<sluice::Dialer> dialer;
  std::unique_ptr<sluice::Tracer> tracer;  // outlives the service, whose last requests it tells of
  return sluice::RunProcess(
      argc, argv, "Serves the public API: schedules requests over the processes of a replica.",
      [&dialer, &tracer](const sluice::ProcessOptions& process)
          -> absl::StatusOr<std::unique_ptr<sluice::RunningService>> {
        auto options = OptionsFromFlags(process);
        if (!options.ok()) return options.status();
        auto traced = sluice::TracerFromFlags("sluice-orchestrator");
        if (!traced.ok()) return traced.status();
        tracer = *std::move(traced);
        options->tracer = tracer.get();
        dialer = std::make_unique<sluice::Dialer>(process.tls);
        return sluice::OrchestratorServer::Start(*options, dialer.get());
      });
}
