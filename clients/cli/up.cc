// `sluice up`: one process per service and shard on this host, supervised until interrupted.
#include <filesystem>
#include <functional>
#include <map>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "clients/cli/commands.h"
#include "clients/cli/connection.h"
#include "clients/cli/event_fd.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/health_probe.h"
#include "clients/cli/health_watch.h"
#include "clients/cli/listen_port.h"
#include "clients/cli/outcome.h"
#include "clients/cli/process_plan.h"
#include "clients/cli/socket_folder.h"
#include "services/common/log.h"
#include "services/common/log_format.h"
#include "services/common/transport.h"
#include "services/model/digest/vocabulary_check.h"
#include "services/model/model_check.h"
#include "services/model/weights.h"
#include "services/security/credentials.h"
#include "services/telemetry/telemetry_options.h"
#include "services/tokenizer/tokenizer.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// What ending itself takes the orchestrator once its calls have ended.
constexpr absl::Duration kEnd = absl::Seconds(1);

struct UpFlags {
  LogFormat log_format = LogFormat::kText;  // of all processes
  ModelFlags model;
  StepFlags steps;
  std::string host = "127.0.0.1";
  int32_t port = 8700;
  PublicListener listener;
  std::string tokens;
  std::string tenants;
  std::string health_listen;
  int32_t metrics_port = 0;
  bool vllm_metric_names = false;
  std::string otlp_endpoint;
  std::string otlp_tls_ca;
  std::string otlp_token_file;
  std::optional<float> otlp_sample_ratio;
  absl::Duration drain_delay = absl::ZeroDuration();
  absl::Duration drain_timeout = absl::Seconds(1);
  std::optional<int32_t> http_port;
  bool demo = false;
};

std::string AddressOf(const std::string& host, int port) {
  const bool is_ipv6 = absl::StrContains(host, ':');
  return is_ipv6 ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

void AddStepFlags(FlagSet& flags, StepFlags* into) {
  constexpr int32_t kMost = 1 << 20;
  flags.Section("Steps and queues");
  flags.AddParsed(
      "max_step_tokens", "N",
      "Positions computed in one step, over all sequences; shards allocate for so many. "
      "Default 512.",
      FlagSet::IntegerFrom(1, kMost, &into->max_step_tokens));
  flags.AddParsed("max_step_sequences", "N", "Sequences in one step. Default 64.",
                  FlagSet::IntegerFrom(1, kMost, &into->max_step_sequences));
  flags.AddParsed("max_queued_sequences", "N",
                  "Sequences that may wait before new ones are refused with RESOURCE_EXHAUSTED. "
                  "Default 1024.",
                  FlagSet::IntegerFrom(1, kMost, &into->max_queued_sequences));
}

PublicListener ListenerOf(const UpFlags& flags) {
  PublicListener listener = flags.listener;
  listener.tokens = !flags.tokens.empty();
  return listener;
}

absl::Status CheckGateway(const UpFlags& flags) {
  if (!flags.http_port.has_value()) {
    if (!flags.demo) return absl::OkStatus();
    return absl::InvalidArgumentError("--demo is about the page, which needs --http_port");
  }
  if (*flags.http_port < 0 || *flags.http_port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("--http_port: ", *flags.http_port, " is not from 0 to 65535"));
  }
  if (flags.listener.tls.authority.empty() || !flags.tokens.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--http_port: over HTTP clients come with tokens, not with certificates: set --tokens");
}

absl::Status CheckTelemetry(const UpFlags& flags) {
  return MakeTelemetryOptions("up",
                              {.endpoint = flags.otlp_endpoint,
                               .authority = flags.otlp_tls_ca,
                               .token_file = flags.otlp_token_file,
                               .sample_ratio = flags.otlp_sample_ratio.value_or(1)},
                              [](const char*) { return ""; })
      .status();
}

absl::Status CheckFlags(const UpFlags& flags) {
  if (flags.port < 0 || flags.port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("--port: ", flags.port, " is not from 0 to 65535"));
  }
  if (flags.metrics_port < 0 || flags.metrics_port > 65000) {
    return absl::InvalidArgumentError(
        absl::StrCat("--metrics_port: ", flags.metrics_port, " is not from 0 to 65000"));
  }
  if (absl::Status status = CheckDraftFlags(flags.model); !status.ok()) return status;
  if (absl::Status status = CheckGateway(flags); !status.ok()) return status;
  if (absl::Status status = CheckTelemetry(flags); !status.ok()) return status;
  return PublicServerCredentials(AddressOf(flags.host, flags.port), ListenerOf(flags)).status();
}

// What the orchestrator is told of its public listener.
std::vector<std::string> ListenerArguments(const UpFlags& flags, const std::string& health_socket) {
  std::vector<std::string> arguments = {
      "--health_listen",
      absl::StrCat(health_socket, flags.health_listen.empty() ? "" : ",", flags.health_listen)};
  const TlsFiles& tls = flags.listener.tls;
  for (const auto& [name, value] :
       {std::pair("--public_tls_cert", tls.certificate), std::pair("--public_tls_key", tls.key),
        std::pair("--public_tls_ca", tls.authority), std::pair("--tokens", flags.tokens),
        std::pair("--tenants", flags.tenants)}) {
    if (!value.empty()) arguments.insert(arguments.end(), {name, value});
  }
  arguments.insert(arguments.end(), {"--drain_delay", absl::FormatDuration(flags.drain_delay),
                                     "--drain_timeout", absl::FormatDuration(flags.drain_timeout)});
  if (flags.vllm_metric_names) arguments.emplace_back("--vllm_metric_names");
  if (flags.listener.insecure) arguments.emplace_back("--insecure_public");
  return arguments;
}

// What those are told who tell a collector of requests: orchestrator and gateway.
std::vector<std::string> TelemetryArguments(const UpFlags& flags) {
  std::vector<std::string> arguments;
  for (const auto& [name, value] : {std::pair("--otlp_endpoint", flags.otlp_endpoint),
                                    std::pair("--otlp_tls_ca", flags.otlp_tls_ca),
                                    std::pair("--otlp_token_file", flags.otlp_token_file)}) {
    if (!value.empty()) arguments.insert(arguments.end(), {name, value});
  }
  if (flags.otlp_sample_ratio.has_value()) {
    arguments.insert(arguments.end(),
                     {"--otlp_sample_ratio", absl::StrCat(*flags.otlp_sample_ratio)});
  }
  return arguments;
}

// What the gateway is told of its own; nothing where it serves plaintext on loopback.
std::vector<std::string> GatewayArguments(const UpFlags& flags) {
  const TlsFiles& tls = flags.listener.tls;
  if (!tls.certificate.empty()) {
    return {"--tls_cert", tls.certificate, "--tls_key", tls.key};
  }
  if (flags.listener.insecure) return {"--plaintext"};
  return {};
}

void AddListenerFlags(FlagSet& flags, UpFlags* into) {
  flags.Add("port", "PORT", "Where clients reach it; 0: a free port. Default 8700.", &into->port);
  flags.Add("host", "HOST",
            "An address of this host; beyond loopback it needs TLS, and tokens or certificates of "
            "the clients. Default 127.0.0.1.",
            &into->host);
  flags.Add("tls_cert", "FILE", "Certificate that clients see (PEM); read again when it changes.",
            &into->listener.tls.certificate);
  flags.Add("tls_key", "FILE", "Its key (PEM).", &into->listener.tls.key);
  flags.Add("tls_ca", "FILE", "Authority of clients' certificates (PEM).",
            &into->listener.tls.authority);
  flags.Add("tokens", "FILE",
            "Bearer tokens of clients: on each line the SHA-256 of one, its tenant and, "
            "optionally, classes. Read again when it changes.",
            &into->tokens);
  flags.Add("tenants", "FILE",
            "JSON file of what tenants are granted: weights, priorities, limits. Read again on "
            "SIGHUP to the orchestrator. Default: all the same, and priority 0 alone.",
            &into->tenants);
  flags.AddSwitch("insecure_public",
                  "Serve clients on other hosts in plaintext, or without asking who they are.",
                  &into->listener.insecure);
  flags.Add("health_listen", "HOST:PORT",
            "Answer grpc.health.v1, and nothing else, in plaintext here too: for probes.",
            &into->health_listen);
  flags.Add("metrics_port", "PORT",
            "Prometheus finds the orchestrator's metrics here and the other processes' on the "
            "ports after it, on every address of this host. Default 0: nowhere.",
            &into->metrics_port);
  flags.AddSwitch("vllm_metric_names",
                  "There, the figures that routers and dashboards made for vLLM read, under its "
                  "names too.",
                  &into->vllm_metric_names);
  flags.Add(
      "otlp_endpoint", "HOST:PORT",
      "An OpenTelemetry collector that is told a span for every request, by OTLP over gRPC; in "
      "plaintext on this host and after http://, else over TLS. Default: "
      "OTEL_EXPORTER_OTLP_ENDPOINT of the environment.",
      &into->otlp_endpoint);
  flags.Add("otlp_tls_ca", "FILE", "Authority of its certificate (PEM).", &into->otlp_tls_ca);
  flags.Add("otlp_token_file", "FILE", "A bearer token for it.", &into->otlp_token_file);
  flags.Add(
      "otlp_sample_ratio", "P",
      "Part of the requests that it is told of, where their callers have not decided. Default 1.",
      &into->otlp_sample_ratio);
  flags.Add("drain_delay", "SECONDS",
            "How long to go on serving after SIGTERM while health says NOT_SERVING. Default 0.",
            &into->drain_delay);
  flags.Add("drain_timeout", "SECONDS", "How long open streams may then take to end. Default 1.",
            &into->drain_timeout);
  flags.Add("http_port", "PORT",
            "Starts the gateway as well: the APIs of OpenAI and others over HTTP, and a page; 0: a "
            "free port; HTTPS where there is a certificate. Prints \"http HOST:PORT\" after "
            "\"ready\".",
            &into->http_port);
  flags.AddParsed("log_format", "FORMAT",
                  "How all processes write their log: text, or json, an object on each line. "
                  "Default text.",
                  [into](const std::string& text) {
                    const absl::StatusOr<LogFormat> format = ParseLogFormat(text);
                    if (format.ok()) into->log_format = *format;
                    return format.status();
                  });
  flags.AddSwitch("demo", "The gateway's page gets buttons that kill processes, to show what then.",
                  &into->demo);
}

struct Plan {
  std::unique_ptr<SocketFolder> sockets;
  std::string address;
  std::string health;        // the orchestrator's own, which no other process can have
  std::string http_address;  // empty: no gateway
  std::function<bool()> gateway_is_up;
  std::vector<ProcessSpec> processes;
};

// A folder without a tokenizer serves token ids; one that can't be read serves nothing.
absl::Status CheckTokenizer(const std::string& folder) {
  const absl::Status status = Tokenizer::Load(folder).status();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

// Nothing where no model drafts. What its processes would end with, said before they start.
absl::StatusOr<std::optional<ModelConfig>> LoadDraftModel(const ModelFlags& flags,
                                                          const std::string& served_folder,
                                                          const ModelConfig& served) {
  if (!flags.draft_model.has_value()) return std::optional<ModelConfig>();
  const std::string& folder = *flags.draft_model;
  const absl::StatusOr<ModelConfig> config = LoadModelConfig(folder);
  if (!config.ok()) return config.status();
  const absl::Status same =
      CheckSameVocabulary({.folder = served_folder, .size = served.vocab_size},
                          {.folder = folder, .size = config->vocab_size});
  if (!same.ok()) return same;
  const absl::StatusOr<WeightSource> weights = WeightSource::Open(folder, *config);
  if (!weights.ok()) return weights.status();
  const absl::Status files = CheckModelFiles(folder, *config).status();
  if (!files.ok()) return files;
  return *config;
}

// Everything that can be known to fail before a process is started.
absl::StatusOr<Plan> MakePlan(const UpFlags& flags, const Environment& environment) {
  absl::StatusOr<std::string> folder = ModelFolder(flags.model, environment.executable);
  if (!folder.ok()) return folder.status();
  const absl::StatusOr<ModelConfig> config = LoadModelConfig(*folder, flags.model.overrides());
  if (!config.ok()) return config.status();
  const absl::StatusOr<std::vector<ShardPlan>> shards = PlanShards(*config, flags.model);
  if (!shards.ok()) return shards.status();
  const absl::StatusOr<WeightSource> weights = WeightSource::Open(*folder, *config);
  if (!weights.ok()) return weights.status();
  const absl::Status files = CheckModelFiles(*folder, *config).status();
  if (!files.ok()) return files;
  if (absl::Status loads = CheckTokenizer(*folder); !loads.ok()) return loads;
  const absl::StatusOr<std::optional<ModelConfig>> draft_config =
      LoadDraftModel(flags.model, *folder, *config);
  if (!draft_config.ok()) return draft_config.status();
  const absl::Status device = CheckDevice(flags.model.device.value_or(DeviceId{}));
  if (!device.ok()) return device;
  const absl::StatusOr<int> port = FindListenPort(flags.host, flags.port);
  if (!port.ok()) return port.status();
  absl::StatusOr<int> http_port = 0;
  if (flags.http_port.has_value()) http_port = FindListenPort(flags.host, *flags.http_port);
  if (!http_port.ok()) return http_port.status();
  absl::StatusOr<std::unique_ptr<SocketFolder>> sockets =
      SocketFolder::Make(environment.temp_folder);
  if (!sockets.ok()) return sockets.status();

  Plan plan{.sockets = *std::move(sockets), .address = AddressOf(flags.host, *port)};
  plan.health = absl::StrCat("unix:", plan.sockets->path(), "/health");
  if (flags.http_port.has_value()) {
    plan.http_address = AddressOf(flags.host, *http_port);
    plan.gateway_is_up = [host = flags.host, port = *http_port] {
      return AcceptsConnections(host, port);
    };
  }
  plan.processes =
      PlanProcesses({.bin_folder = fs::path(environment.executable).parent_path().string(),
                     .socket_folder = plan.sockets->path(),
                     .model_folder = *std::move(folder),
                     .listen = plan.address,
                     .health = plan.health,
                     .listener = ListenerArguments(flags, plan.health),
                     .telemetry = TelemetryArguments(flags),
                     .metrics_port = flags.metrics_port,
                     .http_listen = plan.http_address,
                     .gateway = flags.http_port.has_value() ? GatewayArguments(flags)
                                                            : std::vector<std::string>(),
                     .demo = flags.demo,
                     .log_format = flags.log_format,
                     .num_gpus = flags.model.on_gpu() ? NumGpus() : 0,
                     .flags = flags.model,
                     .steps = flags.steps,
                     .draft_config = *draft_config},
                    *config, *shards);
  return plan;
}

// How much the pool holds is known once it is there. A pipeline that is lost again by now, or asks
// its clients for more than this one has, says nothing.
void LogPool(const std::string& address, Environment& environment) {
  const absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = DialPublic(address);
  if (!channel.ok()) return;
  // Asks once: who waits here replaces nothing that has ended.
  Client client(address, {*channel}, environment.interrupt,
                {.connect_timeout = absl::ZeroDuration()});
  const absl::StatusOr<std::string> pool = PoolText(client);
  if (!pool.ok() || pool->empty()) return;
  Log(LogLevel::kInfo, "up", "pipeline-ready", {{"note", *pool}});
}

std::map<std::string, std::string> HealthAddresses(const std::vector<ProcessSpec>& processes) {
  std::map<std::string, std::string> addresses;
  for (const ProcessSpec& process : processes) {
    if (!process.health.empty()) addresses[process.name] = process.health;
  }
  return addresses;
}

int Serve(const Plan& plan, absl::Duration drain, absl::Duration hang_timeout,
          Environment& environment) {
  EventFd stop;
  const Interrupt::Handler on_interrupt(environment.interrupt, [&stop] { stop.Set(); });
  const HealthProbe health(plan.health, plan.gateway_is_up);
  HealthWatch watch(HealthAddresses(plan.processes), hang_timeout);
  const absl::Status status = Supervise({
      .processes = plan.processes,
      .stop_fd = stop.fd(),
      .ready_fd = health.fd(),
      .health = &watch,
      .on_start =
          [](const std::string& name, pid_t pid) {
            Log(LogLevel::kInfo, "up", "process-started", {{"process", name}, {"pid", pid}});
          },
      .on_end =
          [](const ProcessEnd& end) {
            Log(LogLevel::kWarning, "up", "process-restarts",
                {{"process", end.name},
                 {"pid", end.pid},
                 {"ended_with", end.how},
                 {"restart_in", absl::FormatDuration(end.restart_in)}});
          },
      .on_silent =
          [](const SilentProcess& silent) {
            Log(LogLevel::kWarning, "up", "process-does-not-answer",
                {{"process", silent.name}, {"pid", silent.pid}, {"effect", "it is killed"}});
          },
      .on_ready =
          [&] {
            environment.out << "ready " << plan.address << std::endl;
            if (!plan.http_address.empty()) {
              environment.out << "http " << plan.http_address << std::endl;
            }
            LogPool(plan.address, environment);
          },
      .stopped_first = "orchestrator",
      .stopped_first_grace = drain,
  });
  // An interrupt is how `up` is meant to end.
  return status.ok() ? kSuccess : Fail(status, environment);
}

}  // namespace

int UpCommand(absl::Span<const std::string> arguments, Environment& environment) {
  UpFlags up_flags;
  FlagSet flags(
      "up", "[flags]",
      "Serves a model on this host with one process per service and shard. Prints "
      "\"ready HOST:PORT\" once it serves, starts again what ends or hangs, stops "
      "everything on Ctrl-C or SIGTERM. Its log goes to stderr, the processes' unix sockets into a "
      "folder of TMPDIR.");
  flags.Section("Server");
  AddListenerFlags(flags, &up_flags);
  AddModelFlags(flags, &up_flags.model, "info");
  AddStepFlags(flags, &up_flags.steps);
  if (const std::optional<int> exit = ParseOrExit(flags, arguments, environment)) return *exit;
  if (const absl::Status usage = CheckFlags(up_flags); !usage.ok()) {
    return FailUsage(flags.command(), usage, environment);
  }
  if (up_flags.model.log_level.has_value()) SetMinimumLogLevel(*up_flags.model.log_level);
  SetLogFormat(up_flags.log_format);
  const absl::StatusOr<Plan> plan = MakePlan(up_flags, environment);
  if (!plan.ok()) return Fail(plan.status(), environment);
  return Serve(*plan, up_flags.drain_delay + up_flags.drain_timeout + kEnd,
               up_flags.model.hang_bound(), environment);
}

}  // namespace sluice
