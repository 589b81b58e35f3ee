#include "services/common/process.h"

#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/debugging/symbolize.h"
#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "services/common/address.h"
#include "services/common/child_process.h"
#include "services/common/cpu_list.h"
#include "services/common/flag_usage.h"
#include "services/common/log.h"
#include "services/common/log_flags.h"
#include "services/common/process_end.h"
#include "services/common/refusal.h"
#include "services/common/status.h"
#include "services/common/steady_time.h"
#include "services/common/stop_signal.h"
#include "services/common/wire_metrics.h"
#include "services/listener/limits.h"
#include "services/metrics/metrics_server.h"
#include "services/metrics/process_metrics.h"
#include "services/security/certificate_files.h"

ABSL_FLAG(std::string, model, "", "folder of the model, in Hugging Face's layout");
ABSL_FLAG(std::string, rope_scaling, "",
          "how rotary positions are stretched, instead of what config.json says, such as "
          "yarn,factor=4; the same for every process of a replica");
ABSL_FLAG(std::string, listen, "127.0.0.1:0",
          "address to serve on: unix:/path, or host:port with certificates (port 0: any free one)");
ABSL_FLAG(
    std::string, cpus, "",
    "CPUs that this process keeps to, such as 0-3,8, its threads for arithmetic each to one of "
    "them; all where empty");
ABSL_FLAG(std::string, tls_cert, "", "PEM file of this process's certificate");
ABSL_FLAG(std::string, tls_key, "", "PEM file of its private key");
ABSL_FLAG(std::string, tls_ca, "", "PEM file of the authority that peers' certificates come from");
ABSL_FLAG(std::string, tls_domain, sluice::kDefaultTlsDomain,
          "domain of the names by which certificates say what a process is, such as "
          "shard.sluice.internal");
ABSL_FLAG(std::vector<std::string>, health_listen, {},
          "further addresses, by comma, that answer grpc.health.v1 in plaintext and nothing else: "
          "for probes that have no certificate");

ABSL_FLAG(absl::Duration, startup_timeout, absl::ZeroDuration(),
          "a process that has not begun to listen by then, such as one whose disk does not answer, "
          "ends itself and says so; 0s: never");
ABSL_FLAG(
    absl::Duration, hang_timeout, absl::Seconds(2),
    "work that takes longer, and ten times as long as its like has taken, hangs: health says "
    "NOT_SERVING, and the process ends itself where that does not come back. The orchestrator "
    "holds steps against it too, and wires the replica anew");
ABSL_FLAG(int, metrics_port, 0,
          "port for Prometheus: GET /metrics, in plaintext, on --metrics_host; 0: none");
ABSL_FLAG(std::string, metrics_host, "127.0.0.1",
          "address of this host that --metrics_port is on: 0.0.0.0 for all of IPv4, :: for all");
ABSL_FLAG(absl::Duration, drain_delay, absl::ZeroDuration(),
          "how long to go on serving after SIGTERM while saying NOT_SERVING, for those who send "
          "clients here to hear of it");
ABSL_FLAG(absl::Duration, drain_timeout, absl::Seconds(1),
          "how long calls that are open after that may take to end");

ABSL_FLAG(absl::Duration, refusal_timeout, absl::Seconds(30),
          "a process that nobody has used yet and that its orchestrator has refused for so long, "
          "such as one that was started with another model, ends itself and says why; 0: never");

namespace sluice {
namespace {

sigset_t ShutdownSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGHUP);
  return signals;
}

// Where it is to listen, looked at before anything that is only about the kind of address.
absl::Status CheckListenFlags() {
  const absl::Status listen = CheckListenAddress(absl::GetFlag(FLAGS_listen));
  if (!listen.ok()) return Annotate(listen, "--listen");
  for (const std::string& address : absl::GetFlag(FLAGS_health_listen)) {
    const absl::Status health = CheckListenAddress(address);
    if (!health.ok()) return Annotate(health, "--health_listen");
  }
  return absl::OkStatus();
}

// None where none are wanted.
absl::StatusOr<std::unique_ptr<MetricsServer>> ServeMetrics(const std::string& program,
                                                            RunningService& service) {
  const int port = absl::GetFlag(FLAGS_metrics_port);
  if (port == 0) return std::unique_ptr<MetricsServer>();
  std::vector<std::shared_ptr<prometheus::Collectable>> sources = service.metrics();
  sources.push_back(std::make_shared<WireMetrics>());
  sources.push_back(
      std::make_shared<ProcessMetrics>(std::string(absl::StripPrefix(program, "sluice-")),
                                       [&service] { return service.server().serving(); }));
  const std::string host = absl::GetFlag(FLAGS_metrics_host);
  const bool is_ipv6 = absl::StrContains(host, ':');
  return MetricsServer::Start(
      is_ipv6 ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port),
      std::move(sources));
}

void EndWhenRefused(const std::string& program) {
  const auto watch = std::make_shared<RefusalWatch>(absl::GetFlag(FLAGS_refusal_timeout));
  SetRefusalHandler({.on_asked =
                         [watch, program](const std::string& refusal) {
                           const std::optional<std::string> end =
                               watch->OnAsked(refusal, SteadyTime::Now());
                           if (end.has_value()) EndWithReason(program, *end);
                         },
                     .on_used = [watch] { watch->OnUsed(); }});
}

// Answers probes while the process loads, which may take minutes: alive, and not serving. What it
// does not answer is no loading process but a frozen one.
class LoadingHealth {
 public:
  // UNAVAILABLE where an address can't be bound; null where there is none.
  static absl::StatusOr<std::unique_ptr<LoadingHealth>> Start(
      const std::vector<std::string>& addresses) {
    if (addresses.empty()) return std::unique_ptr<LoadingHealth>();
    absl::StatusOr<std::unique_ptr<Server>> server = Server::Start({.address = "inproc:loading"});
    if (!server.ok()) return server.status();
    const absl::Status listens = (*server)->ServeHealthOn(addresses);
    if (!listens.ok()) return listens;
    return std::unique_ptr<LoadingHealth>(new LoadingHealth(*std::move(server)));
  }

 private:
  explicit LoadingHealth(std::unique_ptr<Server> server) : server_(std::move(server)) {}

  const std::unique_ptr<Server> server_;
};

// Ends the process unless it is destroyed within `timeout`; zero: never.
class StartupTimeout {
 public:
  StartupTimeout(const std::string& program, absl::Duration timeout) {
    if (timeout <= absl::ZeroDuration()) return;
    thread_ = std::thread([this, program, timeout] {
      if (started_.WaitFor(timeout)) return;
      EndWithStacks(program, absl::StrCat("the start has taken longer than --startup_timeout, ",
                                          absl::FormatDuration(timeout)));
    });
  }
  ~StartupTimeout() {
    started_.Set();
    if (thread_.joinable()) thread_.join();
  }

 private:
  StopSignal started_;
  std::thread thread_;
};

// A second signal ends the wait.
void WaitFor(const sigset_t& signals, absl::Duration delay) {
  const timespec timeout = absl::ToTimespec(delay);
  sigtimedwait(&signals, nullptr, &timeout);
}

}  // namespace

int RunProcess(int argc, char** argv, const char* usage, const StartService& start) {
  // Before any thread exists, so that all inherit it and sigwait() below is the only one to see
  // these signals.
  const sigset_t signals = ShutdownSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  // A connection takes two descriptors, and a shell's usual limit is 1024.
  RaiseDescriptorLimit();
  // Of a log that nobody reads any longer.
  std::signal(SIGPIPE, SIG_IGN);

  absl::InitializeSymbolizer(argv[0]);
  absl::SetProgramUsageMessage(usage);
  ShowOwnFlags();
  const std::vector<char*> arguments = absl::ParseCommandLine(argc, argv);
  if (const absl::Status applied = ApplyLogFlags(); !applied.ok()) {
    return FailAtStart(argv[0], 2, applied.message());
  }
  if (arguments.size() > 1) {
    return FailAtStart(argv[0], 2,
                       absl::StrCat("unexpected argument ", arguments[1], "; see --help"));
  }
  if (absl::GetFlag(FLAGS_hang_timeout) <= absl::ZeroDuration()) {
    return FailAtStart(
        argv[0], 2,
        absl::StrCat("--hang_timeout is ", absl::FormatDuration(absl::GetFlag(FLAGS_hang_timeout)),
                     "; it must be longer than 0s, such as 2s"));
  }
  if (const absl::Status listen = CheckListenFlags(); !listen.ok()) {
    return FailAtStart(argv[0], 2, listen.message());
  }
  const absl::StatusOr<std::vector<int>> cpus = ParseCpuList(absl::GetFlag(FLAGS_cpus));
  absl::Status kept = cpus.status();
  if (kept.ok()) kept = KeepToCpus(*cpus);
  if (!kept.ok()) {
    return FailAtStart(argv[0], 2, absl::StrCat("--cpus: ", kept.message()));
  }
  const ProcessOptions options = {.program = OwnProgram(argv[0]),
                                  .model = absl::GetFlag(FLAGS_model),
                                  .rope_scaling = absl::GetFlag(FLAGS_rope_scaling),
                                  .cpus = *cpus,
                                  .listen = absl::GetFlag(FLAGS_listen),
                                  .hang_timeout = absl::GetFlag(FLAGS_hang_timeout),
                                  .tls = {.certificate = absl::GetFlag(FLAGS_tls_cert),
                                          .key = absl::GetFlag(FLAGS_tls_key),
                                          .authority = absl::GetFlag(FLAGS_tls_ca),
                                          .domain = absl::GetFlag(FLAGS_tls_domain)}};
  if (options.model.empty()) {
    return FailAtStart(argv[0], 2, "--model is required: the folder of the model");
  }
  if (options.tls.complete()) {
    const absl::Status issued = CheckIssuer(options.tls);
    if (!issued.ok()) return FailAtStart(argv[0], 1, issued.ToString());
  }
  const std::string program = std::filesystem::path(argv[0]).filename().string();
  EndWhenRefused(program);
  auto loading = LoadingHealth::Start(absl::GetFlag(FLAGS_health_listen));
  if (!loading.ok()) return FailAtStart(argv[0], 1, loading.status().ToString());
  absl::StatusOr<std::unique_ptr<RunningService>> service = [&] {
    const StartupTimeout timeout(program, absl::GetFlag(FLAGS_startup_timeout));
    return start(options);
  }();
  if (!service.ok()) return FailAtStart(argv[0], 1, service.status().ToString());
  loading->reset();  // the service answers there from now on
  const absl::Status health =
      (*service)->server().ServeHealthOn(absl::GetFlag(FLAGS_health_listen));
  if (!health.ok()) return FailAtStart(argv[0], 1, health.ToString());
  const auto metrics = ServeMetrics(program, **service);
  if (!metrics.ok()) return FailAtStart(argv[0], 1, metrics.status().ToString());
  Log(LogLevel::kInfo, program, "listening", {{"address", (*service)->server().address()}});
  int signal = 0;
  do {
    sigwait(&signals, &signal);
  } while (signal == SIGHUP && (*service)->Reload());
  (*service)->server().StopServing();
  WaitFor(signals, absl::GetFlag(FLAGS_drain_delay));
  (*service)->server().Shutdown(absl::GetFlag(FLAGS_drain_timeout));
  return 0;
}

}  // namespace sluice
