#include "services/program/process.h"

#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/debugging/symbolize.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "services/common/address.h"
#include "services/common/status.h"
#include "services/common/steady_time.h"
#include "services/listener/limits.h"
#include "services/metrics/metrics_server.h"
#include "services/metrics/process_metrics.h"
#include "services/process/child_process.h"
#include "services/process/cpu_list.h"
#include "services/process/log.h"
#include "services/process/process_end.h"
#include "services/process/stop_signal.h"
#include "services/program/arguments.h"
#include "services/program/wire_metrics.h"
#include "services/rpc/refusal.h"
#include "services/security/certificate_files.h"

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
absl::Status CheckListenFlags(const OptionValues& values) {
  const absl::Status listen = CheckListenAddress(values.Get<std::string>("listen"));
  if (!listen.ok()) return Annotate(listen, "--listen");
  for (const std::string& address : values.Get<std::vector<std::string>>("health_listen")) {
    const absl::Status health = CheckListenAddress(address);
    if (!health.ok()) return Annotate(health, "--health_listen");
  }
  return absl::OkStatus();
}

// None where none are wanted.
absl::StatusOr<std::unique_ptr<MetricsServer>> ServeMetrics(const std::string& program,
                                                            const OptionValues& values,
                                                            RunningService& service) {
  const int port = values.Get<int>("metrics_port");
  if (port == 0) return std::unique_ptr<MetricsServer>();
  std::vector<std::shared_ptr<prometheus::Collectable>> sources = service.metrics();
  sources.push_back(std::make_shared<WireMetrics>());
  sources.push_back(
      std::make_shared<ProcessMetrics>(std::string(absl::StripPrefix(program, "sluice-")),
                                       [&service] { return service.server().serving(); }));
  const std::string host = values.Get<std::string>("metrics_host");
  const bool is_ipv6 = absl::StrContains(host, ':');
  return MetricsServer::Start(
      is_ipv6 ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port),
      std::move(sources));
}

void EndWhenRefused(const std::string& program, absl::Duration timeout) {
  const auto watch = std::make_shared<RefusalWatch>(timeout);
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

ProcessOptions::ProcessOptions(const OptionValues& all, std::string own_program,
                               std::vector<int> own_cpus)
    : values(all),
      program(std::move(own_program)),
      model(values.Get<std::string>("model")),
      rope_scaling(values.Get<std::string>("rope_scaling")),
      cpus(std::move(own_cpus)),
      listen(values.Get<std::string>("listen")),
      hang_timeout(values.Get<absl::Duration>("hang_timeout")),
      tls{.certificate = values.Get<std::string>("tls_cert"),
          .key = values.Get<std::string>("tls_key"),
          .authority = values.Get<std::string>("tls_ca"),
          .domain = values.Get<std::string>("tls_domain")} {}

int RunProcess(int argc, char** argv, Programs own, const char* usage, const StartService& start) {
  // Before any thread exists, so that all inherit it and sigwait() below is the only one to see
  // these signals.
  const sigset_t signals = ShutdownSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  // A connection takes two descriptors, and a shell's usual limit is 1024.
  RaiseDescriptorLimit();
  // Of a log that nobody reads any longer.
  std::signal(SIGPIPE, SIG_IGN);

  absl::InitializeSymbolizer(argv[0]);
  OptionValues values(own);
  if (const auto exit = ParseArguments(argc, argv, usage, values)) return *exit;
  if (const absl::Status listen = CheckListenFlags(values); !listen.ok()) {
    return FailAtStart(argv[0], 2, listen.message());
  }
  const absl::StatusOr<std::vector<int>> cpus = ParseCpuList(values.Get<std::string>("cpus"));
  absl::Status kept = cpus.status();
  if (kept.ok()) kept = KeepToCpus(*cpus);
  if (!kept.ok()) {
    return FailAtStart(argv[0], 2, absl::StrCat("--cpus: ", kept.message()));
  }
  const ProcessOptions options(values, OwnProgram(argv[0]), *cpus);
  if (options.model.empty()) {
    return FailAtStart(argv[0], 2, "--model is required: the folder of the model");
  }
  if (options.tls.complete()) {
    const absl::Status issued = CheckIssuer(options.tls);
    if (!issued.ok()) return FailAtStart(argv[0], 1, issued.ToString());
  }
  const std::string program = std::filesystem::path(argv[0]).filename().string();
  EndWhenRefused(program, values.Get<absl::Duration>("refusal_timeout"));
  const auto health_listen = values.Get<std::vector<std::string>>("health_listen");
  auto loading = LoadingHealth::Start(health_listen);
  if (!loading.ok()) return FailAtStart(argv[0], 1, loading.status().ToString());
  absl::StatusOr<std::unique_ptr<RunningService>> service = [&] {
    const StartupTimeout timeout(program, values.Get<absl::Duration>("startup_timeout"));
    return start(options);
  }();
  if (!service.ok()) return FailAtStart(argv[0], 1, service.status().ToString());
  loading->reset();  // the service answers there from now on
  const absl::Status health = (*service)->server().ServeHealthOn(health_listen);
  if (!health.ok()) return FailAtStart(argv[0], 1, health.ToString());
  const auto metrics = ServeMetrics(program, values, **service);
  if (!metrics.ok()) return FailAtStart(argv[0], 1, metrics.status().ToString());
  Log(LogLevel::kInfo, program, "listening", {{"address", (*service)->server().address()}});
  int signal = 0;
  do {
    sigwait(&signals, &signal);
  } while (signal == SIGHUP && (*service)->Reload());
  (*service)->server().StopServing();
  WaitFor(signals, values.Get<absl::Duration>("drain_delay"));
  (*service)->server().Shutdown(values.Get<absl::Duration>("drain_timeout"));
  return 0;
}

}  // namespace sluice
