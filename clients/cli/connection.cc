#include "clients/cli/connection.h"

#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "clients/cli/in_process.h"
#include "clients/cli/memory_fit.h"
#include "services/common/address.h"
#include "services/common/status.h"
#include "services/messages/metadata.h"
#include "services/model/digest/vocabulary_check.h"
#include "services/model/shown_bar.h"
#include "services/process/cpu_list.h"
#include "services/process/log.h"
#include "services/rpc/transport.h"

namespace sluice {
namespace {

// One of the two flags that name the key, of which `into` is a member of `flags`.
absl::Status SetKey(const std::string& text, std::string* into, const EndpointFlags& flags) {
  if (text.empty()) {
    return absl::InvalidArgumentError("it is empty; leave the flag out to show no key");
  }
  *into = text;
  if (flags.api_key.empty() || flags.token_file.empty()) return absl::OkStatus();
  const char* const other = into == &flags.api_key ? "--token_file" : "--api_key";
  return absl::InvalidArgumentError(absl::StrCat("it and ", other, " were both given; choose one"));
}

}  // namespace

void AddEndpointFlags(FlagSet& flags, const std::string& default_text, EndpointFlags* into) {
  flags.Section("Server");
  flags.AddParsed("endpoint", "HOST:PORT",
                  absl::StrCat("Where the pipeline listens, or unix:/PATH; several by comma: what "
                               "one of them loses goes on at the next. ",
                               default_text,
                               " Where this flag and those of a model are not given, the "
                               "environment's SLUICE_ENDPOINT counts."),
                  [into](const std::string& text) {
                    into->endpoint = text;
                    absl::Status status;
                    for (const std::string& address : into->addresses()) {
                      status.Update(CheckAddress(address));
                    }
                    return status;
                  });
  AddSecurityFlags(flags, into);
}

void AddSecurityFlags(FlagSet& flags, EndpointFlags* into) {
  flags.Add("connect_timeout", "SECONDS", "How long to wait for it to come up. Default 5.",
            &into->connect_timeout);
  flags.Add("tls_ca", "FILE", "Authority that signed the server's certificate (PEM).",
            &into->tls_ca);
  flags.Add("tls_cert", "FILE", "Certificate of this client (PEM), where the server asks for one.",
            &into->tls_cert);
  flags.Add("tls_key", "FILE", "Its key (PEM).", &into->tls_key);
  flags.AddSwitch("tls", "TLS by the authorities that this system trusts.", &into->tls);
  flags.AddParsed(
      "token_file", "FILE",
      "API key (bearer token) to show, in a file. Default: the environment's "
      "SLUICE_API_KEY, else SLUICE_TOKEN.",
      [into](const std::string& text) { return SetKey(text, &into->token_file, *into); });
  flags.AddParsed("api_key", "KEY",
                  "API key to show. Other users of this host see command lines: --token_file and "
                  "SLUICE_API_KEY keep it from them.",
                  [into](const std::string& text) { return SetKey(text, &into->api_key, *into); });
  flags.AddSwitch("insecure", "Plaintext also to another host.", &into->insecure);
}

std::vector<std::string> EndpointFlags::addresses() const {
  return absl::StrSplit(endpoint.value_or(kDefaultEndpoint), ',');
}

ClientSecurity EndpointFlags::security() const {
  return {.tls = {.certificate = tls_cert, .key = tls_key, .authority = tls_ca},
          .use_tls = tls,
          .insecure = insecure};
}

namespace {

absl::StatusOr<std::string> CheckedToken(const std::string& token, absl::string_view origin) {
  if (IsMetadataValue(token)) return token;
  return absl::InvalidArgumentError(
      absl::StrCat(origin, ": the token has a character that is not printable ASCII"));
}

}  // namespace

absl::StatusOr<std::string> TokenOf(const EndpointFlags& endpoint, const Environment& environment) {
  if (!endpoint.api_key.empty()) return CheckedToken(endpoint.api_key, "--api_key");
  if (endpoint.token_file.empty()) {
    return CheckedToken(environment.token,
                        environment.api_key.empty() ? "SLUICE_TOKEN" : "SLUICE_API_KEY");
  }
  std::ifstream file(endpoint.token_file);
  std::string token;
  if (!std::getline(file, token) || token.empty()) {
    return absl::NotFoundError(
        absl::StrCat("--token_file: cannot read a token from ", endpoint.token_file));
  }
  return CheckedToken(token, "--token_file");
}

EndpointFlags WithEnvironment(EndpointFlags endpoint, const Environment& environment) {
  if (!endpoint.endpoint.has_value() && !environment.endpoint.empty()) {
    endpoint.endpoint = environment.endpoint;
  }
  return endpoint;
}

absl::StatusOr<std::unique_ptr<Client>> ConnectToEndpoint(const EndpointFlags& flags,
                                                          Environment& environment) {
  const EndpointFlags endpoint = WithEnvironment(flags, environment);
  for (const std::string& address : endpoint.addresses()) {
    // Those of --endpoint were looked at with the other flags.
    const absl::Status valid = CheckAddress(address);
    if (!valid.ok()) return Annotate(valid, "SLUICE_ENDPOINT");
  }
  SetMinimumLogLevel(LogLevel::kError);  // what gRPC has to say of connections, statuses tell
  absl::StatusOr<std::string> token = TokenOf(endpoint, environment);
  if (!token.ok()) return token.status();
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  ClientSecurity security = endpoint.security();
  security.server = Role::kOrchestrator;
  for (const std::string& address : endpoint.addresses()) {
    absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = DialPublic(address, security);
    if (!channel.ok()) return channel.status();
    channels.push_back(*std::move(channel));
  }
  auto client = std::make_unique<Client>(
      absl::StrJoin(endpoint.addresses(), ","), std::move(channels), environment.interrupt,
      client::ClientOptions{.token = *std::move(token),
                            .connect_timeout = endpoint.connect_timeout});
  const auto say = [&environment](const std::string& news) {
    environment.err << EraseShownBar() << "sluice: " << news << std::endl;
  };
  const auto dial_each = [&endpoint] {
    std::vector<std::shared_ptr<grpc::Channel>> all;
    for (const std::string& address : endpoint.addresses()) {
      const auto each = DialPublicEach(address, endpoint.security());
      if (each.ok()) all.insert(all.end(), each->begin(), each->end());
    }
    return all;
  };
  const absl::Status reached = client->WaitUntilReachable(endpoint.connect_timeout, dial_each, say);
  if (!reached.ok()) return reached;
  client->SayWhatCallsWaitFor(say);
  return client;
}

namespace {

absl::StatusOr<std::optional<InProcessDraftModel>> DraftModelOf(const ModelFlags& flags,
                                                                const std::string& folder) {
  const std::string draft_model = flags.draft_model();
  if (draft_model.empty()) return std::optional<InProcessDraftModel>();
  const absl::StatusOr<ModelConfig> config = LoadModelConfig(folder, flags.overrides());
  if (!config.ok()) return config.status();
  const absl::StatusOr<ModelConfig> draft_config = LoadModelConfig(draft_model);
  if (!draft_config.ok()) return draft_config.status();
  const absl::Status same =
      CheckSameVocabulary({.folder = folder, .size = config->vocab_size},
                          {.folder = draft_model, .size = draft_config->vocab_size});
  if (!same.ok()) return same;
  return InProcessDraftModel{.model = draft_model,
                             .weights = FlagsOfDraftModel(flags).weight_type(),
                             .kv_cache_bytes = DraftKvMib(flags, *config, *draft_config) << 20};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> StartPipeline(const ModelFlags& model,
                                                      Environment& environment) {
  absl::StatusOr<std::string> folder = ModelFolder(model, environment.executable);
  if (!folder.ok()) return folder.status();
  absl::StatusOr<std::optional<InProcessDraftModel>> draft_model = DraftModelOf(model, *folder);
  if (!draft_model.ok()) return draft_model.status();
  const absl::Status fits = CheckPipelineFits(model, *folder, environment.memory_limit);
  if (!fits.ok()) return fits;
  const OptionValues& values = model.values;
  if (const absl::Status kept = KeepToCpus(model.cpus); !kept.ok()) return kept;
  absl::StatusOr<std::unique_ptr<InProcessPipeline>> pipeline = environment.start_in_process(
      {.model = *std::move(folder),
       .overrides = model.overrides(),
       .program = environment.executable,
       .num_ranks = model.num_ranks(),
       .num_stages = model.num_stages(),
       .weights = model.weight_type(),
       .kv_dtype = model.kv_dtype(),
       .device = model.device(),
       .num_threads = model.num_threads(),
       .cpus = model.cpus,
       .kv_cache_bytes = model.kv_cache_size_mib() << 20,
       .num_state_slots = model.values.Get<int>("state_slots"),
       .draft = *ParseDraftMode(values.Get<std::string>("draft")),
       .draft_policy = *ParseDraftPolicy(values.Get<std::string>("draft_policy")),
       .draft_model = *std::move(draft_model),
       .values = values});
  if (!pipeline.ok()) return pipeline.status();
  return std::make_unique<Client>(*std::move(pipeline), environment.interrupt);
}

absl::StatusOr<std::string> PoolText(Client& client) {
  const absl::StatusOr<v1::GetStatusResponse> status = client.GetStatus();
  if (!status.ok()) return status.status();
  const absl::StatusOr<v1::GetModelResponse> model = client.GetModel();
  if (!model.ok()) return model.status();
  const int64_t positions =
      int64_t{status->kv_cache().num_blocks()} * status->kv_cache().block_size();
  if (positions == 0) return "";
  const std::string text =
      absl::StrCat("the KV pool holds ", positions, " positions; the context of ", model->name(),
                   " is ", model->max_positions());
  if (positions >= model->max_positions()) return text;
  return absl::StrCat(text, ", so no sequence reaches it: --kv_cache_mib makes the pool larger");
}

absl::Status CheckOneTarget(const EndpointFlags& endpoint, const ModelFlags& model) {
  if (!endpoint.endpoint.has_value()) return CheckModelFlags(model);
  if (!model.values.IsAnyGiven()) return absl::OkStatus();
  std::vector<std::string> excluded;
  for (const Option& option : kOptions) {
    if ((option.programs & kRun) != 0) excluded.push_back(absl::StrCat("--", option.name));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--endpoint names a pipeline that has its model already; it excludes ",
                   absl::StrJoin(excluded, ", ")));
}

bool CallsEndpoint(const EndpointFlags& endpoint, const ModelFlags& model,
                   const Environment& environment) {
  if (endpoint.endpoint.has_value()) return true;
  return !environment.endpoint.empty() && !model.values.IsAnyGiven();
}

absl::StatusOr<std::unique_ptr<Client>> ConnectOrStart(const EndpointFlags& endpoint,
                                                       const ModelFlags& model,
                                                       Environment& environment) {
  if (!CallsEndpoint(endpoint, model, environment)) return StartPipeline(model, environment);
  return ConnectToEndpoint(endpoint, environment);
}

}  // namespace sluice
