// sluice-gateway: HTTP in front of the gRPC API of one or several orchestrators.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "kernels/usable_memory.h"
#include "services/common/address.h"
#include "services/common/status.h"
#include "services/common/steady_time.h"
#include "services/gateway/backend/endpoint_source.h"
#include "services/gateway/gateway_server.h"
#include "services/gateway/models/model_host.h"
#include "services/gateway/models/served_model.h"
#include "services/gateway/page/page_flags.h"
#include "services/gateway/tool_calls/format.h"
#include "services/process/log.h"
#include "services/program/arguments.h"
#include "services/rpc/server.h"
#include "services/rpc/transport.h"
#include "services/security/certificate_files.h"
#include "services/security/local_address.h"
#include "services/security/read_file.h"
#include "services/telemetry/telemetry_flags.h"

namespace sluice {
namespace {

absl::Status CheckAddresses(const OptionValues& values) {
  const int num_given = (values.Get<std::string>("orchestrator").empty() ? 0 : 1) +
                        (values.Get<std::string>("models").empty() ? 0 : 1) +
                        (values.Get<std::string>("model_host").empty() ? 0 : 1);
  if (num_given == 0) {
    return absl::InvalidArgumentError(
        "--orchestrator is required: its address; or --models, of several models");
  }
  if (num_given > 1) {
    return absl::InvalidArgumentError(
        "--orchestrator, --models and --model_host: more than one was given; choose one");
  }
  absl::Status status = Annotate(CheckListenAddress(values.Get<std::string>("listen")), "--listen");
  if (const std::string health = values.Get<std::string>("health_listen"); !health.empty()) {
    status.Update(Annotate(CheckListenAddress(health), "--health_listen"));
  }
  return status;
}

absl::Status CheckFlags(const OptionValues& values) {
  if (absl::Status addresses = CheckAddresses(values); !addresses.ok()) return addresses;
  absl::Status status;
  const std::string listen = values.Get<std::string>("listen");
  const bool https = !values.Get<std::string>("tls_cert").empty();
  if (https != !values.Get<std::string>("tls_key").empty()) {
    status.Update(absl::InvalidArgumentError("--tls_cert and --tls_key: set both or neither"));
  }
  if (!values.Get<std::string>("orchestrator_tls_cert").empty() &&
      !values.Get<bool>("share_certificate")) {
    status.Update(absl::InvalidArgumentError(
        "--orchestrator_tls_cert has orchestrators serve everybody who reaches --listen as the "
        "certificate's holder: say --share_certificate as well where that is meant, or have "
        "callers come with tokens"));
  }
  if (!https && !values.Get<bool>("plaintext") && !IsLocalAddress(listen)) {
    status.Update(absl::InvalidArgumentError(
        absl::StrCat("--listen ", listen,
                     " is not a loopback address: it needs --tls_cert and "
                     "--tls_key, or --plaintext behind a proxy that ends TLS")));
  }
  return status;
}

uint64_t MemoryToTake(int chosen) {
  if (chosen > 0) return uint64_t{static_cast<uint32_t>(chosen)} << 20;
  const auto host =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  // A host without a limit has other processes too.
  return std::min(MemoryLimit(""), host / 4);
}

// A connection is a file descriptor, and a shell's usual limit is 1024. Returns how many there may
// be.
uint64_t AllowManyDescriptors() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

// The orchestrators of one model, by comma.
absl::StatusOr<gateway::ServedModelOptions> ModelAt(absl::string_view name,
                                                    absl::string_view addresses,
                                                    const ClientSecurity& security) {
  gateway::ServedModelOptions model = {.name = std::string(name)};
  absl::StatusOr<std::shared_ptr<gateway::EndpointSource>> source =
      gateway::EndpointSource::Parse(addresses, security);
  if (!source.ok()) return source.status();
  const std::shared_ptr<gateway::EndpointSource> endpoints = *std::move(source);
  if (endpoints->changes()) {
    model.discover = [endpoints] { return endpoints->Find(); };
    return model;
  }
  for (const gateway::Orchestrator& orchestrator : endpoints->Find()) {
    model.orchestrators.push_back(orchestrator.channel);
  }
  return model;
}

// Of --models.
absl::StatusOr<std::vector<gateway::ServedModelOptions>> NamedModels(
    const std::string& text, const ClientSecurity& security) {
  std::vector<gateway::ServedModelOptions> models;
  std::set<std::string> names;
  for (const absl::string_view entry : absl::StrSplit(text, ';', absl::SkipEmpty())) {
    const std::vector<std::string> parts = absl::StrSplit(entry, absl::MaxSplits('=', 1));
    if (parts.size() < 2 || parts[0].empty() || parts[1].empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--models: \"", entry, "\" is not NAME=ADDRESS[,ADDRESS]"));
    }
    if (!names.insert(parts[0]).second) {
      return absl::InvalidArgumentError(absl::StrCat("--models: ", parts[0], " is there twice"));
    }
    absl::StatusOr<gateway::ServedModelOptions> model = ModelAt(parts[0], parts[1], security);
    if (!model.ok()) return model.status();
    models.push_back(*std::move(model));
  }
  return models;
}

// What the host at `channel` has.
absl::StatusOr<std::vector<gateway::ServedModelOptions>> HostedModels(
    const std::shared_ptr<grpc::Channel>& channel, const ClientSecurity& security) {
  const absl::StatusOr<v1::ListModelsResponse> hosted = gateway::ModelHost(channel).ListNow();
  if (!hosted.ok()) return Annotate(hosted.status(), "--model_host");
  std::vector<gateway::ServedModelOptions> models;
  for (const v1::HostedModel& each : hosted->models()) {
    absl::StatusOr<gateway::ServedModelOptions> model =
        ModelAt(each.name(), each.endpoint(), security);
    if (!model.ok()) return model.status();
    model->sleeps = each.sleeps();
    models.push_back(*std::move(model));
  }
  return models;
}

absl::Status FindModels(const OptionValues& values, const ClientSecurity& security,
                        gateway::GatewayOptions& options) {
  absl::StatusOr<std::vector<gateway::ServedModelOptions>> models;
  if (const std::string host = values.Get<std::string>("model_host"); !host.empty()) {
    absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = DialPublic(host);
    if (!channel.ok()) return channel.status();
    options.model_host = *std::move(channel);
    models = HostedModels(options.model_host, security);
  } else if (const std::string named = values.Get<std::string>("models"); !named.empty()) {
    models = NamedModels(named, security);
  } else {
    absl::StatusOr<gateway::ServedModelOptions> model =
        ModelAt("", values.Get<std::string>("orchestrator"), security);
    if (!model.ok()) return model.status();
    models = std::vector{*std::move(model)};
  }
  if (models.ok()) options.models = *std::move(models);
  return models.status();
}

absl::StatusOr<gateway::GatewayOptions> OptionsOf(const OptionValues& values) {
  const absl::Status files =
      CheckCertificateFiles({.certificate = values.Get<std::string>("tls_cert"),
                             .key = values.Get<std::string>("tls_key")},
                            absl::Now());
  if (!files.ok()) return files;
  gateway::GatewayOptions options;
  const ClientSecurity security = {
      .tls = {.certificate = values.Get<std::string>("orchestrator_tls_cert"),
              .key = values.Get<std::string>("orchestrator_tls_key"),
              .authority = values.Get<std::string>("orchestrator_tls_ca")},
      .server = Role::kOrchestrator,
      .insecure = values.Get<bool>("orchestrator_insecure")};
  if (absl::Status found = FindModels(values, security, options); !found.ok()) return found;
  if (const std::string file = values.Get<std::string>("orchestrator_token_file"); !file.empty()) {
    const absl::StatusOr<std::string> token = ReadRegularFile(file);
    if (!token.ok()) return Annotate(token.status(), "--orchestrator_token_file");
    options.backend.authorization = absl::StrCat("Bearer ", absl::StripAsciiWhitespace(*token));
  }
  options.listen = values.Get<std::string>("listen");
  options.num_threads = values.Get<int>("threads");
  options.tls_certificate = values.Get<std::string>("tls_cert");
  options.tls_key = values.Get<std::string>("tls_key");
  options.cors_origin = values.Get<std::string>("cors_origin");
  for (const std::string& host : values.Get<std::vector<std::string>>("allowed_hosts")) {
    options.allowed_hosts.push_back(absl::AsciiStrToLower(host));
  }
  options.memory_bytes = MemoryToTake(values.Get<int>("memory_mib"));
  options.max_descriptors = AllowManyDescriptors();
  options.tool_format = gateway::ToolFormatByName(values.Get<std::string>("tool_parser"));
  absl::StatusOr<gateway::PageOptions> page = gateway::PageOptionsOf(values);
  if (!page.ok()) return page.status();
  options.page = *std::move(page);
  options.batches.folder = values.Get<std::string>("batch_dir");
  options.batches.token_file = values.Get<std::string>("batch_token_file");
  options.batches.max_running_lines = values.Get<int>("batch_concurrency");
  options.batches.quota_bytes = static_cast<uint64_t>(values.Get<int>("batch_quota_mib")) << 20;
  options.limits.max_connections = values.Get<int>("max_connections");
  options.limits.max_body_bytes = static_cast<uint64_t>(values.Get<int>("max_body_mib")) << 20;
  options.limits.header_timeout = values.Get<absl::Duration>("header_timeout");
  options.limits.body_timeout = values.Get<absl::Duration>("body_timeout");
  options.limits.idle_timeout = values.Get<absl::Duration>("idle_timeout");
  options.limits.write_timeout = values.Get<absl::Duration>("write_timeout");
  options.drain_timeout = values.Get<absl::Duration>("drain_timeout");
  return options;
}

absl::StatusOr<std::unique_ptr<gateway::GatewayServer>> Start(const OptionValues& values,
                                                              Tracer* tracer) {
  absl::StatusOr<gateway::GatewayOptions> options = OptionsOf(values);
  if (!options.ok()) return options.status();
  options->tracer = tracer;
  return gateway::GatewayServer::Start(*std::move(options));
}

// Nothing where nobody asked for it.
absl::StatusOr<std::unique_ptr<Server>> ServeHealth(const std::string& address) {
  if (address.empty()) return std::unique_ptr<Server>();
  absl::StatusOr<std::unique_ptr<Server>> health = Server::Start({.address = address});
  if (health.ok()) (*health)->SetServing(true);
  return health;
}

// Has the health of the process say whether a stranger can connect to the gateway. Ends with it.
class ReachabilityProbe {
 public:
  // Borrows both.
  ReachabilityProbe(gateway::GatewayServer* gateway, Server* health)
      : gateway_(*gateway), health_(*health), thread_([this] { Run(); }) {}
  ~ReachabilityProbe() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  void Run() {
    int num_failures = 0;
    std::unique_lock lock(mutex_);
    while (!changed_.wait_until(lock, (SteadyTime::Now() + absl::Seconds(2)).ToChrono(),
                                [this] { return stopping_; })) {
      lock.unlock();
      num_failures = gateway_.IsReachable(absl::Seconds(2)) ? 0 : num_failures + 1;
      const bool serving = num_failures < 2;  // once is the load of a moment
      if (serving != health_.serving()) {
        Log(serving ? LogLevel::kInfo : LogLevel::kError, "sluice-gateway",
            serving ? "reachable" : "unreachable");
        health_.SetServing(serving);
      }
      lock.lock();
    }
  }

  gateway::GatewayServer& gateway_;
  Server& health_;
  std::mutex mutex_;  // guards the next
  bool stopping_ = false;
  std::condition_variable changed_;
  std::thread thread_;  // last: it uses what is above
};

int Run(const char* program, const OptionValues& values) {
  if (const absl::Status status = CheckFlags(values); !status.ok()) {
    return FailAtStart(program, 2, status.message());
  }
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // before any thread: sigwait() alone sees them
  std::signal(SIGPIPE, SIG_IGN);

  const absl::StatusOr<std::unique_ptr<Tracer>> tracer = TracerOf("sluice-gateway", values);
  absl::StatusOr<std::unique_ptr<gateway::GatewayServer>> server =
      tracer.ok() ? Start(values, tracer->get()) : tracer.status();
  if (!server.ok()) return FailAtStart(program, 1, server.status().ToString());
  const absl::StatusOr<std::unique_ptr<Server>> health =
      ServeHealth(values.Get<std::string>("health_listen"));
  if (!health.ok()) return FailAtStart(program, 1, health.status().ToString());
  std::optional<ReachabilityProbe> probe;
  if (*health != nullptr) probe.emplace(server->get(), health->get());
  Log(LogLevel::kInfo, "sluice-gateway", "listening", {{"address", (*server)->address()}});
  int signal = 0;
  sigwait(&signals, &signal);
  const timespec delay = absl::ToTimespec(values.Get<absl::Duration>("drain_delay"));
  if (sigtimedwait(&signals, nullptr, &delay) >= 0) std::quick_exit(0);
  // What is still answered after that ends with the process.
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGINT, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  probe.reset();
  server->reset();
  return 0;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  sluice::OptionValues values(sluice::gateway::kLinkedGateway);
  if (const auto exit = sluice::ParseArguments(
          argc, argv, "Serves HTTP in front of the gRPC API of orchestrators.", values)) {
    return *exit;
  }
  return sluice::Run(argv[0], values);
}
