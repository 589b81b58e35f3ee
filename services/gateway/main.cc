// sluice-gateway: HTTP in front of the gRPC API of one or several orchestrators.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "kernels/usable_memory.h"
#include "services/common/address.h"
#include "services/common/flag_usage.h"
#include "services/common/log.h"
#include "services/common/log_flags.h"
#include "services/common/server.h"
#include "services/common/status.h"
#include "services/common/steady_time.h"
#include "services/common/transport.h"
#include "services/gateway/gateway_server.h"
#include "services/gateway/page/page_flags.h"
#include "services/gateway/tool_calls/format.h"
#include "services/security/certificate_files.h"
#include "services/security/local_address.h"
#include "services/telemetry/telemetry_flags.h"

ABSL_FLAG(std::string, orchestrator, "",
          "address of the orchestrator, or of several by comma, which take calls in turns");
ABSL_FLAG(std::string, listen, "127.0.0.1:8080",
          "HOST:PORT to serve HTTP on (port 0: any free one)");
ABSL_FLAG(
    std::string, health_listen, "",
    "further address, such as unix:/path, that answers grpc.health.v1 in plaintext and nothing "
    "else, once HTTP is served");
ABSL_FLAG(int, threads, 1, "threads that serve connections");
ABSL_FLAG(std::string, tls_cert, "", "PEM file of the certificate that clients see: serves HTTPS");
ABSL_FLAG(std::string, tls_key, "", "PEM file of its private key");
ABSL_FLAG(std::string, orchestrator_tls_ca, "",
          "PEM file of the authority that the orchestrators' public certificates come from");
ABSL_FLAG(std::string, orchestrator_tls_cert, "",
          "PEM file of this client's certificate, where orchestrators ask for one");
ABSL_FLAG(std::string, orchestrator_tls_key, "", "PEM file of its private key");
ABSL_FLAG(bool, orchestrator_insecure, false, "speaks plaintext to orchestrators on other hosts");
ABSL_FLAG(bool, plaintext, false,
          "speaks HTTP without TLS beyond loopback too, for use behind a proxy that ends TLS");
ABSL_FLAG(std::string, cors_origin, "",
          "web origin whose pages may call, such as https://example.org, or * for any; none where "
          "empty");
ABSL_FLAG(
    std::vector<std::string>, allowed_hosts, {},
    "names, by comma, that clients may call this server by besides IP addresses and localhost, "
    "or * for any; a request whose header Host has another is refused. Without the flag: none "
    "where --listen is a loopback address, else any");
ABSL_FLAG(
    int, memory_mib, 0,
    "MiB that this process may take, from which it derives how many bytes of requests and how "
    "many connections it holds; 0: what its control group may, at most a quarter of the host's");
ABSL_FLAG(bool, share_certificate, false,
          "serves all callers as the holder of --orchestrator_tls_cert, whoever they are");
ABSL_FLAG(
    std::string, tool_parser, "auto",
    "how the model writes calls of tools: hermes, llama3_json, pythonic, mistral, phi, gemma, "
    "qwen3_xml, glm, deepseek, kimi, granite, lfm, harmony or none; auto: as its chat template "
    "tells");
ABSL_FLAG(int, max_connections, 4096, "connections at a time; more are answered 503");
ABSL_FLAG(int, max_body_mib, 16,
          "MiB that a request's body may have, at most 56: a message of a session has 64; more are "
          "answered 413");
ABSL_FLAG(absl::Duration, header_timeout, absl::Seconds(10), "for a request's headers to come");
ABSL_FLAG(absl::Duration, body_timeout, absl::Seconds(60), "for a request's body to come");
ABSL_FLAG(absl::Duration, idle_timeout, absl::Seconds(75), "between requests of a connection");
ABSL_FLAG(absl::Duration, write_timeout, absl::Seconds(60),
          "for a client to take 64 KiB of its response");
ABSL_FLAG(absl::Duration, drain_delay, absl::ZeroDuration(),
          "how long SIGTERM is followed by business as usual, until nobody sends new clients here");
ABSL_FLAG(
    absl::Duration, drain_timeout, absl::Seconds(1),
    "for answers under way to end after SIGTERM and the delay; a second signal ends them at once");

namespace sluice {
namespace {

absl::Status CheckRange(const char* flag, int value, int min, int max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, " is ", value, "; accepted: ", min, " to ", max));
}

absl::Status CheckDuration(const char* flag, absl::Duration value, absl::Duration min) {
  if (value >= min && value <= absl::Hours(24)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, " is ", absl::FormatDuration(value), "; accepted: up to 24h"));
}

absl::Status CheckAddresses() {
  if (absl::GetFlag(FLAGS_orchestrator).empty()) {
    return absl::InvalidArgumentError("--orchestrator is required: its address");
  }
  absl::Status status = Annotate(CheckListenAddress(absl::GetFlag(FLAGS_listen)), "--listen");
  if (const std::string health = absl::GetFlag(FLAGS_health_listen); !health.empty()) {
    status.Update(Annotate(CheckListenAddress(health), "--health_listen"));
  }
  return status;
}

absl::Status CheckFlags() {
  if (absl::Status addresses = CheckAddresses(); !addresses.ok()) return addresses;
  absl::Status status = CheckRange("threads", absl::GetFlag(FLAGS_threads), 1, 64);
  status.Update(CheckRange("max_connections", absl::GetFlag(FLAGS_max_connections), 1, 1'000'000));
  status.Update(CheckRange("memory_mib", absl::GetFlag(FLAGS_memory_mib), 0, 1 << 24));
  status.Update(CheckRange("max_body_mib", absl::GetFlag(FLAGS_max_body_mib), 1, 56));
  const std::string parser = absl::GetFlag(FLAGS_tool_parser);
  if (parser != "auto" && !gateway::ToolFormatByName(parser).has_value()) {
    status.Update(absl::InvalidArgumentError(absl::StrCat(
        "--tool_parser is \"", parser, "\"; accepted: auto, ", gateway::ToolFormatNames())));
  }
  for (const auto& [flag, value] :
       {std::pair("header_timeout", absl::GetFlag(FLAGS_header_timeout)),
        std::pair("body_timeout", absl::GetFlag(FLAGS_body_timeout)),
        std::pair("idle_timeout", absl::GetFlag(FLAGS_idle_timeout)),
        std::pair("write_timeout", absl::GetFlag(FLAGS_write_timeout)),
        std::pair("drain_timeout", absl::GetFlag(FLAGS_drain_timeout))}) {
    status.Update(CheckDuration(flag, value, absl::Nanoseconds(1)));
  }
  status.Update(
      CheckDuration("drain_delay", absl::GetFlag(FLAGS_drain_delay), absl::ZeroDuration()));
  const std::string listen = absl::GetFlag(FLAGS_listen);
  const bool https = !absl::GetFlag(FLAGS_tls_cert).empty();
  if (https != !absl::GetFlag(FLAGS_tls_key).empty()) {
    status.Update(absl::InvalidArgumentError("--tls_cert and --tls_key: set both or neither"));
  }
  if (!absl::GetFlag(FLAGS_orchestrator_tls_cert).empty() &&
      !absl::GetFlag(FLAGS_share_certificate)) {
    status.Update(absl::InvalidArgumentError(
        "--orchestrator_tls_cert has orchestrators serve everybody who reaches --listen as the "
        "certificate's holder: say --share_certificate as well where that is meant, or have "
        "callers "
        "come with tokens"));
  }
  if (!https && !absl::GetFlag(FLAGS_plaintext) && !IsLocalAddress(listen)) {
    status.Update(absl::InvalidArgumentError(
        absl::StrCat("--listen ", listen,
                     " is not a loopback address: it needs --tls_cert and "
                     "--tls_key, or --plaintext behind a proxy that ends TLS")));
  }
  return status;
}

uint64_t MemoryToTake() {
  const int chosen = absl::GetFlag(FLAGS_memory_mib);
  if (chosen > 0) return uint64_t{static_cast<uint32_t>(chosen)} << 20;
  const auto host =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  // A host without a limit has other processes too.
  return std::min(MemoryLimit(""), host / 4);
}

// A connection is a file descriptor, and a shell's usual limit is 1024. Returns how many there may be.
uint64_t AllowManyDescriptors() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

absl::StatusOr<gateway::GatewayOptions> OptionsFromFlags() {
  const absl::Status files = CheckCertificateFiles(
      {.certificate = absl::GetFlag(FLAGS_tls_cert), .key = absl::GetFlag(FLAGS_tls_key)},
      absl::Now());
  if (!files.ok()) return files;
  gateway::GatewayOptions options;
  const ClientSecurity security = {
      .tls = {.certificate = absl::GetFlag(FLAGS_orchestrator_tls_cert),
              .key = absl::GetFlag(FLAGS_orchestrator_tls_key),
              .authority = absl::GetFlag(FLAGS_orchestrator_tls_ca)},
      .server = Role::kOrchestrator,
      .insecure = absl::GetFlag(FLAGS_orchestrator_insecure)};
  for (const absl::string_view address :
       absl::StrSplit(absl::GetFlag(FLAGS_orchestrator), ',', absl::SkipEmpty())) {
    auto channel = DialPublic(address, security);
    if (!channel.ok()) return channel.status();
    options.orchestrators.push_back(*std::move(channel));
  }
  options.listen = absl::GetFlag(FLAGS_listen);
  options.num_threads = absl::GetFlag(FLAGS_threads);
  options.tls_certificate = absl::GetFlag(FLAGS_tls_cert);
  options.tls_key = absl::GetFlag(FLAGS_tls_key);
  options.cors_origin = absl::GetFlag(FLAGS_cors_origin);
  for (const std::string& host : absl::GetFlag(FLAGS_allowed_hosts)) {
    options.allowed_hosts.push_back(absl::AsciiStrToLower(host));
  }
  options.memory_bytes = MemoryToTake();
  options.max_descriptors = AllowManyDescriptors();
  options.tool_format = gateway::ToolFormatByName(absl::GetFlag(FLAGS_tool_parser));
  absl::StatusOr<gateway::PageOptions> page = gateway::PageOptionsFromFlags();
  if (!page.ok()) return page.status();
  options.page = *std::move(page);
  options.limits.max_connections = absl::GetFlag(FLAGS_max_connections);
  options.limits.max_body_bytes = static_cast<uint64_t>(absl::GetFlag(FLAGS_max_body_mib)) << 20;
  options.limits.header_timeout = absl::GetFlag(FLAGS_header_timeout);
  options.limits.body_timeout = absl::GetFlag(FLAGS_body_timeout);
  options.limits.idle_timeout = absl::GetFlag(FLAGS_idle_timeout);
  options.limits.write_timeout = absl::GetFlag(FLAGS_write_timeout);
  options.drain_timeout = absl::GetFlag(FLAGS_drain_timeout);
  return options;
}

absl::StatusOr<std::unique_ptr<gateway::GatewayServer>> Start(Tracer* tracer) {
  absl::StatusOr<gateway::GatewayOptions> options = OptionsFromFlags();
  if (!options.ok()) return options.status();
  options->tracer = tracer;
  return gateway::GatewayServer::Start(*std::move(options));
}

// Nothing where nobody asked for it.
absl::StatusOr<std::unique_ptr<Server>> ServeHealth() {
  const std::string address = absl::GetFlag(FLAGS_health_listen);
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

int Run(const char* program) {
  if (const absl::Status status = CheckFlags(); !status.ok()) {
    return FailAtStart(program, 2, status.message());
  }
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // before any thread: sigwait() alone sees them
  std::signal(SIGPIPE, SIG_IGN);

  const absl::StatusOr<std::unique_ptr<Tracer>> tracer = TracerFromFlags("sluice-gateway");
  absl::StatusOr<std::unique_ptr<gateway::GatewayServer>> server =
      tracer.ok() ? Start(tracer->get()) : tracer.status();
  if (!server.ok()) return FailAtStart(program, 1, server.status().ToString());
  const absl::StatusOr<std::unique_ptr<Server>> health = ServeHealth();
  if (!health.ok()) return FailAtStart(program, 1, health.status().ToString());
  std::optional<ReachabilityProbe> probe;
  if (*health != nullptr) probe.emplace(server->get(), health->get());
  Log(LogLevel::kInfo, "sluice-gateway", "listening", {{"address", (*server)->address()}});
  int signal = 0;
  sigwait(&signals, &signal);
  const timespec delay = absl::ToTimespec(absl::GetFlag(FLAGS_drain_delay));
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
  absl::SetProgramUsageMessage("Serves HTTP in front of the gRPC API of orchestrators.");
  sluice::ShowOwnFlags();
  const std::vector<char*> arguments = absl::ParseCommandLine(argc, argv);
  if (const absl::Status applied = sluice::ApplyLogFlags(); !applied.ok()) {
    return sluice::FailAtStart(argv[0], 2, applied.message());
  }
  if (arguments.size() > 1) {
    return sluice::FailAtStart(argv[0], 2,
                               absl::StrCat("unexpected argument ", arguments[1], "; see --help"));
  }
  return sluice::Run(argv[0]);
}
