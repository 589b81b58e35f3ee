// `sluice up`: one process per service and shard on this host, supervised until interrupted.
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
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
#include "clients/cli/process_plan.h"
#include "clients/cli/socket_folder.h"
#include "clients/cli/up_flags.h"
#include "services/common/random.h"
#include "services/model/device_check.h"
#include "services/model/digest/vocabulary_check.h"
#include "services/model/model_check.h"
#include "services/model/weights.h"
#include "services/process/log.h"
#include "services/process/log_format.h"
#include "services/rpc/transport.h"
#include "services/security/token_file.h"
#include "services/tokenizer/chat_template.h"
#include "services/tokenizer/tokenizer.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// What ending itself takes the orchestrator once its calls have ended.
constexpr absl::Duration kEnd = absl::Seconds(1);

// Whom clients with the key of --api_key are served for.
constexpr char kKeyTenant[] = "default";
// As services/gateway/batches has it: for whom lines of batches run.
constexpr char kBatchTenant[] = "batch";

struct Plan {
  std::unique_ptr<SocketFolder> sockets;
  std::string address;
  std::string health;        // the orchestrator's own, which no other process can have
  std::string http_address;  // empty: no gateway
  std::string demo_page;     // its address with the token for demonstrations; empty: none
  std::string api_key;       // that clients have to show; empty: another arrangement
  std::vector<ProcessSpec> processes;
};

// A folder without a tokenizer serves token ids; one that can't be read serves nothing.
absl::Status CheckTokenizer(const std::string& folder, const std::string& chat_template) {
  const absl::Status usable = CheckChatTemplate(chat_template);
  if (!usable.ok()) return usable;
  const absl::Status status = Tokenizer::Load(folder, chat_template).status();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

// Nothing where no model drafts. What its processes would end with, said before they start.
absl::StatusOr<std::optional<ModelConfig>> LoadDraftModel(const ModelFlags& flags,
                                                          const std::string& served_folder,
                                                          const ModelConfig& served) {
  const std::string folder = flags.draft_model();
  if (folder.empty()) return std::optional<ModelConfig>();
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

// What is served, and in what arrangement.
struct Model {
  std::string folder;
  ModelConfig config;
  std::vector<ShardPlan> shards;
  std::optional<ModelConfig> draft;
};

// All that can be known of it to fail before a process is started.
absl::StatusOr<Model> LoadModel(const ModelFlags& flags, const Environment& environment) {
  absl::StatusOr<std::string> folder = ModelFolder(flags, environment.executable);
  if (!folder.ok()) return folder.status();
  absl::StatusOr<ModelConfig> config = LoadModelConfig(*folder, flags.overrides());
  if (!config.ok()) return config.status();
  absl::StatusOr<std::vector<ShardPlan>> shards = PlanShards(*config, flags);
  if (!shards.ok()) return shards.status();
  const absl::StatusOr<WeightSource> weights = WeightSource::Open(*folder, *config);
  if (!weights.ok()) return weights.status();
  absl::Status status = CheckModelFiles(*folder, *config).status();
  if (status.ok()) {
    status = CheckTokenizer(*folder, flags.values.Get<std::string>("chat_template"));
  }
  if (!status.ok()) return status;
  absl::StatusOr<std::optional<ModelConfig>> draft = LoadDraftModel(flags, *folder, *config);
  if (!draft.ok()) return draft.status();
  status = CheckDevice(flags.device());
  if (status.ok() && flags.on_gpu()) status = CheckGpuComputes(*config);
  if (status.ok()) status = CheckPipelineFits(flags, *folder, environment.memory_limit);
  if (!status.ok()) return status;
  return Model{*std::move(folder), *std::move(config), *std::move(shards), *std::move(draft)};
}

// Where it will be reached, and the sockets between its processes.
absl::StatusOr<Plan> ReservePlaces(const OptionValues& values, const Environment& environment) {
  const std::string host = values.Get<std::string>("host");
  const absl::StatusOr<int> port = FindListenPort(host, values.Get<int>("port"));
  if (!port.ok()) return port.status();
  const bool serves_http = values.IsGiven("http_port");
  absl::StatusOr<int> http_port = 0;
  if (serves_http) http_port = FindListenPort(host, values.Get<int>("http_port"));
  if (!http_port.ok()) return http_port.status();
  absl::StatusOr<std::unique_ptr<SocketFolder>> sockets =
      SocketFolder::Make(environment.temp_folder);
  if (!sockets.ok()) return sockets.status();
  Plan plan{.sockets = *std::move(sockets), .address = AddressOf(host, *port)};
  plan.health = absl::StrCat("unix:", plan.sockets->path(), "/health");
  if (serves_http) plan.http_address = AddressOf(host, *http_port);
  return plan;
}

absl::Status WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << '\n';
  file.close();
  return file ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("cannot write ", path));
}

// Draws a secret that processes of this pipeline share, and leaves it for them in `path`.
absl::StatusOr<std::string> MakeToken(const std::string& path) {
  const std::string token = absl::StrCat(absl::Hex(RandomNumber(), absl::kZeroPad16),
                                         absl::Hex(RandomNumber(), absl::kZeroPad16));
  if (absl::Status written = WriteFile(path, token); !written.ok()) return written;
  return token;
}

absl::Status AddToken(const std::string& tokens, absl::string_view token,
                      absl::string_view tenant) {
  const absl::StatusOr<std::string> line = TokenLine(token, tenant);
  return line.ok() ? AppendTokenLine(tokens, *line) : line.status();
}

// The one API key as a file of tokens, which holds its hash; beside it one that lines of batches run
// with.
absl::Status UseApiKey(const std::string& folder, OptionValues& values) {
  const std::string path = absl::StrCat(folder, "/tokens");
  const absl::Status added = AddToken(path, values.Get<std::string>("api_key"), kKeyTenant);
  if (!added.ok()) return added;
  values.Put("tokens", path);
  if (!values.IsGiven("batch_dir") || values.IsGiven("batch_token_file")) return absl::OkStatus();
  const std::string token_file = absl::StrCat(folder, "/batch-token");
  const absl::StatusOr<std::string> token = MakeToken(token_file);
  if (!token.ok()) return token.status();
  values.Put("batch_token_file", token_file);
  return AddToken(path, *token, kBatchTenant);
}

// Gives the tenant of batches a low weight, so that interactive requests are served first; a file that
// --tenants names is left to say so itself.
absl::Status LetBatchesYield(const std::string& folder, OptionValues& values) {
  const bool is_needed = values.IsGiven("batch_dir") && values.Get<std::string>("tenants").empty();
  if (!is_needed) return absl::OkStatus();
  const std::string path = absl::StrCat(folder, "/tenants.json");
  values.Put("tenants", path);
  return WriteFile(path,
                   absl::StrCat(R"({"tenants": {")", kBatchTenant, R"(": {"weight": 0.1}}})"));
}

absl::StatusOr<Plan> MakePlan(ModelFlags flags, const Environment& environment) {
  absl::StatusOr<Model> model = LoadModel(flags, environment);
  if (!model.ok()) return model.status();
  absl::StatusOr<Plan> plan = ReservePlaces(flags.values, environment);
  if (!plan.ok()) return plan.status();
  if (flags.values.IsGiven("api_key")) {
    const absl::Status used = UseApiKey(plan->sockets->path(), flags.values);
    if (!used.ok()) return used;
    plan->api_key = flags.values.Get<std::string>("api_key");
  }
  const absl::Status yields = LetBatchesYield(plan->sockets->path(), flags.values);
  if (!yields.ok()) return yields;
  std::string demo_token_file;
  if (flags.values.Get<bool>("demo")) {
    demo_token_file = absl::StrCat(plan->sockets->path(), "/demo-token");
    const absl::StatusOr<std::string> token = MakeToken(demo_token_file);
    if (!token.ok()) return token.status();
    const bool https = !flags.values.Get<std::string>("tls_cert").empty();
    plan->demo_page =
        absl::StrCat(https ? "https://" : "http://", plan->http_address, "/#demo=", *token);
  }
  absl::StatusOr<std::vector<ProcessSpec>> processes =
      PlanProcesses({.bin_folder = fs::path(environment.executable).parent_path().string(),
                     .socket_folder = plan->sockets->path(),
                     .model_folder = std::move(model->folder),
                     .listen = plan->address,
                     .health = plan->health,
                     .http_listen = plan->http_address,
                     .memory_limit = environment.memory_limit,
                     .demo_token_file = std::move(demo_token_file),
                     .num_gpus = flags.on_gpu() ? NumGpus() : 0,
                     .flags = flags,
                     .draft_config = model->draft},
                    model->config, model->shards);
  if (!processes.ok()) return processes.status();
  plan->processes = *std::move(processes);
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
  std::vector<std::string> serving = {plan.health};
  if (!plan.http_address.empty()) serving.push_back(plan.processes.back().health);
  const HealthProbe health(std::move(serving));
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
                 {"reason", end.reason},
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
            if (!plan.demo_page.empty()) environment.out << "demo " << plan.demo_page << std::endl;
            LogPool(plan, environment);
          },
      .stopped_first = "orchestrator",
      .stopped_first_grace = drain,
  });
  // An interrupt is how `up` is meant to end.
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
  const absl::StatusOr<Plan> plan = MakePlan(up_flags, environment);
  if (!plan.ok()) return Fail(plan.status(), environment);
  const absl::Duration drain =
      values.Get<absl::Duration>("drain_delay") + values.Get<absl::Duration>("drain_timeout");
  return Serve(*plan, drain + kEnd, values.Get<absl::Duration>("hang_timeout"), environment);
}

}  // namespace sluice
