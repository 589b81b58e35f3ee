#include "clients/cli/up_flags.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "services/common/termination_log.h"
#include "services/telemetry/telemetry_options.h"

namespace sluice {
namespace {

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
                               .sample_ratio = flags.otlp_sample_ratio},
                              ProcessEnvironment())
      .status();
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
  flags.Add(
      "tokens", "FILE",
      "Bearer tokens of clients: on each line the SHA-256 of one and its tenant. Read again when "
      "it changes.",
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
            "ports after it. Default 0: nowhere.",
            &into->metrics_port);
  flags.Add("metrics_host", "HOST",
            "The address of this host that those ports are on; 0.0.0.0: every one. Default "
            "127.0.0.1.",
            &into->metrics_host);
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
  flags.Add("otlp_sample_ratio", "P",
            "Part of the requests that it is told of, where their callers have not decided. "
            "Default: what "
            "OTEL_TRACES_SAMPLER of the environment says, else 1.",
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
  flags.Add(
      "http_hosts", "NAMES",
      "Names, by comma, that clients may call the gateway by besides addresses and localhost, "
      "such as that of a proxy before it; *: any. Default: none while --host is loopback.",
      &into->http_hosts);
  flags.AddParsed("log_format", "FORMAT",
                  "How all processes write their log: text, or json, an object on each line. "
                  "Default text.",
                  [into](const std::string& text) {
                    const absl::StatusOr<LogFormat> format = ParseLogFormat(text);
                    if (format.ok()) into->log_format = *format;
                    return format.status();
                  });
  flags.AddParsed("termination_log", "FILE",
                  "Is told in a sentence why all of it ends, where it does so by itself: "
                  "/dev/termination-log in a container of Kubernetes. Default: none.",
                  [](const std::string& path) { return SetTerminationLog(path); });
  flags.AddSwitch(
      "demo",
      "The gateway's page gets buttons that kill processes, for whoever opens it by the "
      "address that is printed.",
      &into->demo);
}

}  // namespace

void AddUpFlags(FlagSet& flags, UpFlags* into) {
  flags.Section("Server");
  AddListenerFlags(flags, into);
  AddModelFlags(flags, &into->model, "info");
  AddStepFlags(flags, &into->steps);
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
  if (absl::Status status = CheckModelFlags(flags.model); !status.ok()) return status;
  if (absl::Status status = CheckGateway(flags); !status.ok()) return status;
  if (absl::Status status = CheckTelemetry(flags); !status.ok()) return status;
  return PublicServerCredentials(AddressOf(flags.host, flags.port), ListenerOf(flags)).status();
}

std::string AddressOf(const std::string& host, int port) {
  const bool is_ipv6 = absl::StrContains(host, ':');
  return is_ipv6 ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

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

std::vector<std::string> GatewayArguments(const UpFlags& flags) {
  const TlsFiles& tls = flags.listener.tls;
  std::vector<std::string> arguments;
  if (!tls.certificate.empty()) {
    arguments = {"--tls_cert", tls.certificate, "--tls_key", tls.key};
  } else if (flags.listener.insecure) {
    arguments = {"--plaintext"};
  }
  if (!flags.http_hosts.empty()) {
    arguments.insert(arguments.end(), {"--allowed_hosts", flags.http_hosts});
  }
  return arguments;
}

}  // namespace sluice
