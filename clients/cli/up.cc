// `sluice up`: one process per service and shard on this host, supervised until interrupted.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "clients/cli/commands.h"
#include "clients/cli/connection.h"
#include "clients/cli/event_fd.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/health_probe.h"
#include "clients/cli/health_watch.h"
#include "clients/cli/listen_port.h"
#include "clients/cli/memory_fit.h"
#include "clients/cli/outcome.h"
#include "clients/cli/process_group.h"
#include "clients/cli/process_plan.h"
#include "clients/cli/socket_folder.h"
#include "clients/cli/up_config.h"
#include "clients/cli/up_flags.h"
#include "clients/cli/up_models.h"
#include "clients/cli/up_plan.h"
#include "services/process/log.h"
#include "services/process/log_format.h"
#include "services/rpc/transport.h"

namespace sluice {
namespace {

struct Plan {
  std::unique_ptr<SocketFolder> sockets;
  std::string address;
  std::string health;        // the orchestrator's own, which no other process can have
  std::string http_address;  // empty: no gateway
  std::string demo_page;     // its address with the token for demonstrations; empty: none
  std::string api_key;       // that clients have to show; empty: another arrangement
  std::vector<ProcessSpec> processes;
};

absl::StatusOr<Plan> MakePlan(ModelFlags flags, const Environment& environment) {
  absl::StatusOr<CheckedModel> model = CheckModel(flags, environment);
  if (!model.ok()) return model.status();
  const absl::Status fits = CheckPipelineFits(flags, model->folder, environment.memory_limit);
  if (!fits.ok()) return fits;
  const std::string host = flags.values.Get<std::string>("host");
  const absl::StatusOr<int> port = FindListenPort(host, flags.values.Get<int>("port"));
  if (!port.ok()) return port.status();
  absl::StatusOr<std::string> http_address = HttpAddress(flags.values);
  if (!http_address.ok()) return http_address.status();
  absl::StatusOr<std::unique_ptr<SocketFolder>> sockets =
      SocketFolder::Make(environment.temp_folder);
  if (!sockets.ok()) return sockets.status();
  const std::string folder = (*sockets)->path();
  absl::StatusOr<SharedSecrets> secrets = MakeSecrets(folder, flags.values);
  if (!secrets.ok()) return secrets.status();
  Plan plan{.sockets = *std::move(sockets),
            .address = AddressOf(host, *port),
            .health = absl::StrCat("unix:", folder, "/health"),
            .http_address = *std::move(http_address),
            .api_key = secrets->api_key};
  plan.demo_page = DemoPage(flags.values, plan.http_address, *secrets);
  PipelineSpec spec = CommonSpec(environment, flags, plan.http_address, *secrets);
  spec.socket_folder = folder;
  spec.model_folder = std::move(model->folder);
  spec.listen = plan.address;
  spec.health = plan.health;
  spec.draft_config = model->draft;
  absl::StatusOr<std::vector<ProcessSpec>> processes =
      PlanProcesses(spec, model->config, model->shards);
  if (!processes.ok()) return processes.status();
  plan.processes = *std::move(processes);
  return plan;
}

// How much the pool holds is known once it is there. A pipeline that is lost again by now, or asks
// its clients for more than this one has, says nothing.
void LogPool(const Plan& plan, Environment& environment) {
  const std::string& address = plan.address;
  const absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = DialPublic(address);
  if (!channel.ok()) return;
  // Asks once: who waits here replaces nothing that has ended.
  Client client(address, {*channel}, environment.interrupt,
                {.token = plan.api_key, .connect_timeout = absl::ZeroDuration()});
  const absl::StatusOr<std::string> pool = PoolText(client);
  if (!pool.ok() || pool->empty()) return;
  Log(LogLevel::kInfo, "up", "pipeline-ready", {{"note", *pool}});
}

int Serve(const Plan& plan, absl::Duration drain, absl::Duration hang_timeout,
          Environment& environment) {
  EventFd stop;
  const Interrupt::Handler on_interrupt(environment.interrupt, [&stop] { stop.Set(); });
  ProcessGroupOptions group = {.processes = plan.processes,
                               .ready_when = {plan.health},
                               .hang_timeout = hang_timeout,
                               .stopped_first = "orchestrator",
                               .stopped_first_grace = drain};
  if (!plan.http_address.empty()) group.ready_when.push_back(plan.processes.back().health);
  const HealthProbe health(group.ready_when);
  HealthWatch watch(HealthAddresses(plan.processes), hang_timeout);
  SupervisorOptions supervision = LoggedSupervision(group);
  supervision.stop_fd = stop.fd();
  supervision.ready_fd = health.fd();
  supervision.health = &watch;
  supervision.on_ready = [&] {
    environment.out << "ready " << plan.address << std::endl;
    if (!plan.http_address.empty()) environment.out << "http " << plan.http_address << std::endl;
    if (!plan.demo_page.empty()) environment.out << "demo " << plan.demo_page << std::endl;
    LogPool(plan, environment);
  };
  const absl::Status status = Supervise(supervision);
  // An interrupt is how `up` is meant to end.
  return status.ok() ? kSuccess : Fail(status, environment);
}

// Of several models. The options of the file are checked with those that were given.
int ServeConfig(const ModelFlags& given, const std::string& command, Environment& environment) {
  absl::StatusOr<UpConfig> config = ReadUpConfig(given.values.Get<std::string>("config"), given);
  if (!config.ok()) return Fail(config.status(), environment);
  if (const absl::Status usage = CheckUpFlags(config->common); !usage.ok()) {
    return FailUsage(command, usage, environment);
  }
  const absl::Status status = ServeModels(*std::move(config), environment);
  return status.ok() ? kSuccess : Fail(status, environment);
}

}  // namespace

int UpCommand(absl::Span<const std::string> arguments, Environment& environment) {
  ModelFlags up_flags(kUp);
  FlagSet flags(
      "up", "[flags]",
      "Serves a model on this host with one process per service and shard. Prints "
      "\"ready HOST:PORT\" once it serves, starts again what ends or hangs, stops "
      "everything on Ctrl-C or SIGTERM. Its log goes to stderr, the processes' unix sockets into a "
      "folder of TMPDIR.");
  AddModelFlags(flags, &up_flags);
  if (const std::optional<int> exit = ParseOrExit(flags, arguments, environment)) return *exit;
  const bool has_keys =
      up_flags.values.IsGiven("api_key") || !up_flags.values.Get<std::string>("tokens").empty();
  if (!has_keys && !environment.api_key.empty()) {
    up_flags.values.Put("api_key", environment.api_key);
  }
  if (const absl::Status usage = CheckUpFlags(up_flags); !usage.ok()) {
    return FailUsage(flags.command(), usage, environment);
  }
  const OptionValues& values = up_flags.values;
  SetMinimumLogLevel(*ParseLogLevel(values.Get<std::string>("log_level")));
  SetLogFormat(*ParseLogFormat(values.Get<std::string>("log_format")));
  if (values.IsGiven("config")) return ServeConfig(up_flags, flags.command(), environment);
  const absl::StatusOr<Plan> plan = MakePlan(up_flags, environment);
  if (!plan.ok()) return Fail(plan.status(), environment);
  return Serve(*plan, DrainOf(values), values.Get<absl::Duration>("hang_timeout"), environment);
}

}  // namespace sluice
