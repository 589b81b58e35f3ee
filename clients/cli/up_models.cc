#include "clients/cli/up_models.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "clients/cli/listen_port.h"
#include "clients/cli/memory_fit.h"
#include "clients/cli/model_group.h"
#include "clients/cli/model_host_service.h"
#include "clients/cli/process_group.h"
#include "clients/cli/process_plan.h"
#include "clients/cli/socket_folder.h"
#include "clients/cli/up_flags.h"
#include "clients/cli/up_plan.h"
#include "services/common/status.h"
#include "services/rpc/server.h"
#include "services/security/token_file.h"

namespace sluice {
namespace {

// For uses of models when the host ends: the gateway has ended by then.
constexpr absl::Duration kHostEnd = absl::Milliseconds(100);

// A model, and where its clients find it.
struct PlannedModel {
  std::unique_ptr<SocketFolder> sockets;
  std::string address;  // empty: it sleeps, and the gateway alone reaches it
  GroupedModel grouped;
};

// What all models have in common.
struct Place {
  std::unique_ptr<SocketFolder> sockets;
  std::string http_address;  // empty: no gateway
  SharedSecrets secrets;
};

class ModelPlanner {
 public:
  ModelPlanner(const UpConfig& config, const Place& place, const Environment& environment)
      : config_(config),
        place_(place),
        environment_(environment),
        next_port_(config.common.values.Get<int>("port")),
        next_metrics_port_(config.common.values.Get<int>("metrics_port")) {}

  // Statuses name the model.
  absl::StatusOr<PlannedModel> Plan(const ConfiguredModel& configured) {
    absl::StatusOr<PlannedModel> planned = PlanOne(configured);
    if (!planned.ok()) return Annotate(planned.status(), configured.name);
    return planned;
  }

 private:
  absl::StatusOr<PlannedModel> PlanOne(const ConfiguredModel& configured) {
    ModelFlags flags = configured.flags;
    if (absl::Status usable = CheckModelFlags(flags); !usable.ok()) return usable;
    absl::StatusOr<CheckedModel> model = CheckModel(flags, environment_);
    if (!model.ok()) return model.status();
    const absl::StatusOr<KeptMemory> memory = PipelineMemory(flags, model->folder);
    if (!memory.ok()) return memory.status();
    PlannedModel planned;
    absl::StatusOr<std::unique_ptr<SocketFolder>> sockets =
        SocketFolder::Make(environment_.temp_folder);
    if (!sockets.ok()) return sockets.status();
    planned.sockets = *std::move(sockets);
    const std::string folder = planned.sockets->path();
    if (!configured.sleeps()) {
      absl::StatusOr<std::string> address = NextAddress(flags.values);
      if (!address.ok()) return address.status();
      planned.address = *std::move(address);
    }
    if (next_metrics_port_ > 0) {
      flags.values.Put("metrics_port", absl::StrCat(next_metrics_port_));
    }
    PipelineSpec spec = CommonSpec(environment_, flags, place_.http_address, place_.secrets);
    spec.socket_folder = folder;
    spec.model_folder = std::move(model->folder);
    spec.listen = configured.sleeps() ? absl::StrCat("unix:", folder, "/public") : planned.address;
    spec.health = absl::StrCat("unix:", folder, "/health");
    spec.draft_config = model->draft;
    spec.reached_by_gateway_alone = configured.sleeps();
    absl::StatusOr<std::vector<ProcessSpec>> processes =
        PlanReplica(spec, model->config, model->shards);
    if (!processes.ok()) return processes.status();
    if (next_metrics_port_ > 0) next_metrics_port_ += static_cast<int>(processes->size());
    planned.grouped = {
        .name = configured.name,
        .endpoint = AddressForGateway(spec),
        .memory_bytes = memory->weight_bytes + memory->kv_bytes,
        .sleep_after = configured.sleep_after,
        .asleep = configured.asleep,
        .processes = {.name = configured.name,
                      .processes = *std::move(processes),
                      .ready_when = {spec.health},
                      .hang_timeout = flags.values.Get<absl::Duration>("hang_timeout"),
                      .stopped_first = "orchestrator",
                      .stopped_first_grace = DrainOf(flags.values)}};
    return planned;
  }

  // The port that the model was told, else the next one from --port on.
  absl::StatusOr<std::string> NextAddress(const OptionValues& values) {
    int wanted = values.Get<int>("port");
    if (!values.IsGiven("port")) {
      wanted = next_port_;
      if (next_port_ > 0) ++next_port_;
    }
    const std::string host = values.Get<std::string>("host");
    const absl::StatusOr<int> port = FindListenPort(host, wanted);
    if (!port.ok()) return port.status();
    return AddressOf(host, *port);
  }

  const UpConfig& config_;
  const Place& place_;
  const Environment& environment_;
  int next_port_;
  int next_metrics_port_;
};

absl::Status CheckTogether(const std::vector<PlannedModel>& models, uint64_t memory_bytes) {
  const auto mib = [](uint64_t bytes) {
    return absl::StrCat((bytes + (1 << 20) - 1) >> 20, " MiB");
  };
  uint64_t taken = 0;
  std::vector<std::string> parts;
  for (const PlannedModel& model : models) {
    const GroupedModel& grouped = model.grouped;
    if (grouped.memory_bytes > memory_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat(
          grouped.name, " takes ", mib(grouped.memory_bytes), ", and all together may take ",
          mib(memory_bytes), "; accepted: smaller weights or a smaller kv_cache_mib"));
    }
    if (grouped.asleep) continue;
    taken += grouped.memory_bytes;
    parts.push_back(absl::StrCat(grouped.name, " ", mib(grouped.memory_bytes)));
  }
  if (taken <= memory_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the models that are awake at first take more than ", mib(memory_bytes), ": ",
                   absl::StrJoin(parts, ", "),
                   "; accepted: smaller weights, a smaller kv_cache_mib, or asleep: "
                   "true and sleep_after for some"));
}

absl::StatusOr<Place> MakePlace(ModelFlags& common, const Environment& environment) {
  absl::StatusOr<std::string> http_address = HttpAddress(common.values);
  if (!http_address.ok()) return http_address.status();
  absl::StatusOr<std::unique_ptr<SocketFolder>> sockets =
      SocketFolder::Make(environment.temp_folder);
  if (!sockets.ok()) return sockets.status();
  absl::StatusOr<SharedSecrets> secrets = MakeSecrets((*sockets)->path(), common.values);
  if (!secrets.ok()) return secrets.status();
  return Place{*std::move(sockets), *std::move(http_address), *std::move(secrets)};
}

// Null where no tokens are asked for.
absl::StatusOr<std::unique_ptr<Authenticator>> MakeAuthenticator(const std::string& tokens) {
  if (tokens.empty()) return std::unique_ptr<Authenticator>();
  absl::StatusOr<std::unique_ptr<TokenFile>> file = TokenFile::Open(tokens, nullptr);
  if (!file.ok()) return Annotate(file.status(), "--tokens");
  return std::make_unique<Authenticator>(AuthenticatorOptions{.tokens = *std::move(file)});
}

// What the main thread waits for.
class Changes {
 public:
  void Note() {
    absl::MutexLock lock(&mutex_);
    ++count_;
  }
  // Returns once `is_done` is true, which is asked after each change, or after an interrupt.
  template <class Predicate>
  void AwaitChange(const Predicate& is_done) {
    while (true) {
      int64_t seen = 0;
      {
        absl::MutexLock lock(&mutex_);
        if (is_stopped_) return;
        seen = count_;
      }
      if (is_done()) return;
      absl::MutexLock lock(&mutex_);
      const auto changed = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return is_stopped_ || count_ != seen;
      };
      mutex_.Await(absl::Condition(&changed));
    }
  }
  void Stop() {
    absl::MutexLock lock(&mutex_);
    is_stopped_ = true;
  }
  bool is_stopped() const {
    absl::MutexLock lock(&mutex_);
    return is_stopped_;
  }

 private:
  mutable absl::Mutex mutex_;
  int64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

// The first failure of what runs always; OK where there is none.
absl::Status FailureOf(const ModelGroup& group, const ProcessGroup* gateway) {
  for (const ModelGroup::Entry& entry : group.List()) {
    const bool failed = entry.state == ProcessGroup::State::kEnded && !entry.last_end.ok();
    if (failed && !entry.sleeps) return Annotate(entry.last_end, entry.name);
  }
  if (gateway == nullptr) return absl::OkStatus();
  return gateway->state() == ProcessGroup::State::kEnded ? gateway->last_end() : absl::OkStatus();
}

bool IsReady(const ModelGroup& group, const std::vector<PlannedModel>& models,
             const ProcessGroup* gateway) {
  const std::vector<ModelGroup::Entry> entries = group.List();
  for (size_t i = 0; i < models.size(); ++i) {
    if (models[i].grouped.asleep) continue;
    if (entries[i].state != ProcessGroup::State::kRunning && !entries[i].sleeps) return false;
    // One that sleeps may have gone to sleep again.
    if (entries[i].state == ProcessGroup::State::kStarting) return false;
  }
  return gateway == nullptr || gateway->state() == ProcessGroup::State::kRunning;
}

void PrintReady(const std::vector<PlannedModel>& models, const Place& place,
                const std::string& demo_page, Environment& environment) {
  for (const PlannedModel& model : models) {
    if (model.address.empty()) {
      environment.out << (model.grouped.asleep ? "asleep " : "awake ") << model.grouped.name
                      << std::endl;
    } else {
      environment.out << "ready " << model.address << ' ' << model.grouped.name << std::endl;
    }
  }
  if (!place.http_address.empty()) environment.out << "http " << place.http_address << std::endl;
  if (!demo_page.empty()) environment.out << "demo " << demo_page << std::endl;
}

// The models in their order; each has the files that MakeSecrets() has named.
absl::StatusOr<std::vector<PlannedModel>> PlanModels(UpConfig& config, const Place& place,
                                                     const Environment& environment,
                                                     uint64_t memory_bytes) {
  ModelPlanner planner(config, place, environment);
  std::vector<PlannedModel> models;
  for (ConfiguredModel& configured : config.models) {
    for (const OptionName<void> name : {OptionName<void>("tokens"), OptionName<void>("tenants"),
                                        OptionName<void>("batch_token_file")}) {
      if (config.common.values.IsGiven(name)) {
        configured.flags.values.Put(name, config.common.values.TextOf(name));
      }
    }
    absl::StatusOr<PlannedModel> planned = planner.Plan(configured);
    if (!planned.ok()) return planned.status();
    models.push_back(*std::move(planned));
  }
  if (absl::Status fit = CheckTogether(models, memory_bytes); !fit.ok()) return fit;
  return models;
}

// The gateway, and the server that tells it of the models.
class Door {
 public:
  // Borrows both.
  Door(ModelHostService* service, Changes* changes) : service_(*service), changes_(*changes) {}
  ~Door() {
    gateway_.reset();
    if (server_ != nullptr) server_->Shutdown(kHostEnd);
  }

  absl::Status Open(const UpConfig& config, const Place& place, const Environment& environment) {
    const std::string host = absl::StrCat("unix:", place.sockets->path(), "/models");
    absl::StatusOr<std::unique_ptr<Server>> started =
        Server::Start({.address = host, .services = {&service_}});
    if (!started.ok()) return started.status();
    server_ = *std::move(started);
    server_->SetServing(true);
    PipelineSpec spec = CommonSpec(environment, config.common, place.http_address, place.secrets);
    spec.socket_folder = place.sockets->path();
    ProcessSpec process = PlanGateway(spec, host);
    const std::string health = process.health;
    gateway_ = std::make_unique<ProcessGroup>(
        ProcessGroupOptions{
            .processes = {std::move(process)},
            .ready_when = {health},
            .hang_timeout = config.common.values.Get<absl::Duration>("hang_timeout")},
        [this] { changes_.Note(); });
    gateway_->Start();
    return absl::OkStatus();
  }

  // Null where it was not opened.
  const ProcessGroup* gateway() const { return gateway_.get(); }

 private:
  ModelHostService& service_;
  Changes& changes_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<ProcessGroup> gateway_;
};

}  // namespace

absl::Status ServeModels(UpConfig config, Environment& environment) {
  const absl::StatusOr<Place> place = MakePlace(config.common, environment);
  if (!place.ok()) return place.status();
  const uint64_t memory_bytes = config.memory_bytes.value_or(environment.memory_limit);
  const absl::StatusOr<std::vector<PlannedModel>> models =
      PlanModels(config, *place, environment, memory_bytes);
  if (!models.ok()) return models.status();
  const absl::StatusOr<std::unique_ptr<Authenticator>> authenticator =
      MakeAuthenticator(config.common.values.Get<std::string>("tokens"));
  if (!authenticator.ok()) return authenticator.status();

  Changes changes;
  const Interrupt::Handler on_interrupt(environment.interrupt, [&changes] { changes.Stop(); });
  std::vector<GroupedModel> grouped;
  grouped.reserve(models->size());
  for (const PlannedModel& model : *models) grouped.push_back(model.grouped);
  ModelGroup group(std::move(grouped), memory_bytes, [&changes] { changes.Note(); });
  ModelHostService service(&group, authenticator->get());
  Door door(&service, &changes);
  if (!place->http_address.empty()) {
    if (absl::Status opened = door.Open(config, *place, environment); !opened.ok()) return opened;
  }
  absl::Status failure;
  changes.AwaitChange([&] {
    failure = FailureOf(group, door.gateway());
    return !failure.ok() || IsReady(group, *models, door.gateway());
  });
  if (!failure.ok() || changes.is_stopped()) return failure;
  PrintReady(*models, *place, DemoPage(config.common.values, place->http_address, place->secrets),
             environment);
  changes.AwaitChange([&] {
    failure = FailureOf(group, door.gateway());
    return !failure.ok();
  });
  return failure;
}

}  // namespace sluice
