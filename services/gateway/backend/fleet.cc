#include "services/gateway/backend/fleet.h"

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "services/common/status.h"
#include "services/messages/metadata.h"
#include "services/process/log.h"
#include "services/routing/request_keys.h"
#include "sluice/v1/kv_events.grpc.pb.h"

namespace sluice::gateway {
namespace {

// Until an orchestrator is listened to again: where the call was lost; where it was refused.
constexpr absl::Duration kAfterLoss = absl::Milliseconds(500);
constexpr absl::Duration kAfterRefusal = absl::Seconds(30);
// Keys that are taken, or freed, at a time: requests wait for the lock meanwhile.
constexpr size_t kSlice = 256;
constexpr size_t kMostScopes = size_t{1} << 16;

double SecondsNow() { return absl::ToDoubleSeconds(SteadyTime::Now().since_start()); }

}  // namespace

// One KvEvents call. Kept alive by gRPC until it is done.
class Fleet::Listening final : public grpc::ClientReadReactor<v1::KvEventsResponse>,
                               public std::enable_shared_from_this<Listening> {
 public:
  Listening(Fleet* fleet, ReplicaId replica, const std::shared_ptr<grpc::Channel>& channel,
            const std::string& authorization)
      : fleet_(*fleet), replica_(replica), stub_(v1::KvEventService::NewStub(channel)) {
    if (!authorization.empty()) {
      AddMetadata(context_, "authorization", authorization).IgnoreError();
    }
    request_.set_prompts(true);
  }

  void Start() {
    self_ = shared_from_this();
    stub_->async()->KvEvents(&context_, &request_, this);
    StartRead(&events_);
    StartCall();
  }
  void Cancel() { context_.TryCancel(); }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return;
    fleet_.OnEvents(replica_, this, events_);
    events_.Clear();
    StartRead(&events_);
  }
  void OnDone(const grpc::Status& status) override {
    const std::shared_ptr<Listening> self = std::move(self_);
    fleet_.OnSilence(replica_, this, FromGrpc(status));
  }

  Fleet& fleet_;
  const ReplicaId replica_;
  const std::unique_ptr<v1::KvEventService::Stub> stub_;
  grpc::ClientContext context_;
  v1::KvEventsRequest request_;
  v1::KvEventsResponse events_;
  std::shared_ptr<Listening> self_;
};

Fleet::~Fleet() = default;

ReplicaId Fleet::Add(const std::string& name, std::shared_ptr<grpc::Channel> channel) {
  absl::MutexLock lock(&mutex_);
  const ReplicaId replica = chooser_.Add(name);
  members_[replica] = {.name = name, .channel = std::move(channel)};
  return replica;
}

void Fleet::Remove(ReplicaId replica) {
  std::shared_ptr<Listening> listening;
  {
    absl::MutexLock lock(&mutex_);
    const auto member = members_.find(replica);
    if (member == members_.end()) return;
    listening = std::move(member->second.listening);
    members_.erase(member);
    chooser_.Remove(replica);
  }
  if (listening != nullptr) listening->Cancel();
}

ReplicaId Fleet::Choose(const v1::GenerateRequest& request, PrefixKey sharer, Route& route,
                        const std::function<bool(ReplicaId)>& may) {
  if (!route.keys.has_value()) route.keys = KeysOf(request);
  route.sharer = sharer;
  const double now = SecondsNow();
  absl::MutexLock lock(&mutex_);
  const auto scope = scopes_.find(sharer);
  const PrefixKey known_scope = scope == scopes_.end() ? 0 : scope->second;
  const auto another = [&](ReplicaId replica) { return replica != route.lost && may(replica); };
  route.choice = chooser_.Choose(*route.keys, known_scope, now, another);
  if (route.choice.replica < 0) route.choice = chooser_.Choose(*route.keys, known_scope, now, may);
  if (route.choice.known_tokens > 0) {
    ++figures_.num_by_prefix;
  } else {
    ++(route.keys->keys.empty() ? figures_.num_by_load : figures_.num_by_hash);
  }
  figures_.num_known_tokens += route.choice.known_tokens;
  return route.choice.replica;
}

void Fleet::OnStarted(const Route& route, const v1::Started& started) {
  if (!route.keys.has_value()) return;
  absl::MutexLock lock(&mutex_);
  chooser_.Begun(route.choice);
  if (!route.keys->token_ids) {
    chooser_.Learn(route.keys->num_bytes, started.num_prompt_tokens());
  }
  if (started.cache_scope() == 0) return;
  if (scopes_.size() >= kMostScopes) scopes_.clear();
  scopes_[route.sharer] = started.cache_scope();
}

void Fleet::OnLost(Route& route) {
  if (!route.keys.has_value()) return;
  route.lost = route.choice.replica;
  absl::MutexLock lock(&mutex_);
  chooser_.Begun(route.choice);
}

// ---- What orchestrators say ----

void Fleet::Tick() {
  std::vector<std::shared_ptr<Listening>> begun;
  const SteadyTime now = SteadyTime::Now();
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return;
    for (auto& [replica, member] : members_) {
      // One alone is chosen whatever it holds.
      if (members_.size() < 2) break;
      if (member.listening != nullptr || now < member.listen_again) continue;
      member.listening = std::make_shared<Listening>(this, replica, member.channel, authorization_);
      ++num_calls_;
      begun.push_back(member.listening);
    }
  }
  for (const auto& listening : begun) listening->Start();
  for (bool more = true; more;) {
    absl::MutexLock lock(&mutex_);
    more = chooser_.Sweep(kSlice);
  }
}

void Fleet::OnEvents(ReplicaId replica, const Listening* from, const v1::KvEventsResponse& events) {
  const v1::StoredPrompts& stored = events.stored_prompts();
  const auto keys =
      absl::MakeConstSpan(stored.keys().data(), static_cast<size_t>(stored.keys_size()));
  const auto positions = absl::MakeConstSpan(stored.num_positions().data(),
                                             static_cast<size_t>(stored.num_positions_size()));
  const auto dropped = absl::MakeConstSpan(events.removed_prompts().data(),
                                           static_cast<size_t>(events.removed_prompts_size()));
  const size_t most = std::max({keys.size(), dropped.size(), size_t{1}});
  for (size_t first = 0; first < most; first += kSlice) {
    absl::MutexLock lock(&mutex_);
    const auto member = members_.find(replica);
    if (member == members_.end() || member->second.listening.get() != from) return;
    member->second.is_heard = true;
    if (first == 0 && events.has_info()) {
      member->second.block_size = events.info().block_size();
      chooser_.Forget(replica);
    }
    if (first < dropped.size()) chooser_.Dropped(replica, dropped.subspan(first, kSlice));
    if (first < keys.size() && first < positions.size()) {
      chooser_.Stored(replica, keys.subspan(first, kSlice), positions.subspan(first, kSlice));
    }
    if (first > 0 || !events.has_load()) continue;
    const v1::KvLoad& load = events.load();
    chooser_.SetLoad(replica, {.serving = load.serving(),
                               .waiting_tokens = load.num_waiting_tokens(),
                               .held_tokens = load.num_held_tokens(),
                               .available_tokens = int64_t{load.num_available_blocks()} *
                                                   member->second.block_size});
  }
}

void Fleet::OnSilence(ReplicaId replica, const Listening* from, const absl::Status& status) {
  const bool refused = absl::IsUnimplemented(status) || absl::IsPermissionDenied(status) ||
                       absl::IsUnauthenticated(status);
  std::string name;
  {
    absl::MutexLock lock(&mutex_);
    const auto member = members_.find(replica);
    if (member != members_.end() && member->second.listening.get() == from) {
      name = member->second.name;
      member->second.listening = nullptr;
      member->second.is_heard = false;
      member->second.listen_again = SteadyTime::Now() + (refused ? kAfterRefusal : kAfterLoss);
      chooser_.Forget(replica);
      chooser_.ForgetLoad(replica);
    }
  }
  if (refused && !name.empty()) {
    Log(LogLevel::kWarning, "gateway", "kv-events-refused",
        {{"orchestrator", name},
         {"status", status.ToString()},
         {"effect", "requests go there by hashing of their beginnings"}});
  }
  absl::MutexLock lock(&mutex_);
  --num_calls_;
}

void Fleet::Shutdown() {
  std::vector<std::shared_ptr<Listening>> calls;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    for (auto& [replica, member] : members_) {
      if (member.listening != nullptr) calls.push_back(member.listening);
    }
  }
  for (const auto& call : calls) call->Cancel();
  calls.clear();
  absl::MutexLock lock(&mutex_);
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return num_calls_ == 0; };
  mutex_.Await(absl::Condition(&idle));
}

FleetFigures Fleet::figures() {
  absl::MutexLock lock(&mutex_);
  FleetFigures figures = figures_;
  figures.num_orchestrators = std::ssize(members_);
  figures.num_heard = std::count_if(members_.begin(), members_.end(),
                                    [](const auto& member) { return member.second.is_heard; });
  figures.num_prefixes = static_cast<int64_t>(chooser_.num_keys());
  return figures;
}

std::string FleetsText(const std::vector<ModelFleet>& fleets) {
  std::string text;
  const auto labels = [](const ModelFleet& fleet, absl::string_view by) {
    std::vector<std::string> parts;
    if (!fleet.model.empty()) {
      // Names of models may have any character.
      parts.push_back(absl::StrCat(
          "model=\"",
          absl::StrReplaceAll(fleet.model, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}}), "\""));
    }
    if (!by.empty()) parts.push_back(absl::StrCat("by=\"", by, "\""));
    return parts.empty() ? std::string() : absl::StrCat("{", absl::StrJoin(parts, ","), "}");
  };
  const auto head = [&text](absl::string_view name, absl::string_view type,
                            absl::string_view help) {
    absl::StrAppend(&text, "# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
  };
  const auto samples = [&](absl::string_view name, absl::string_view by,
                           int64_t FleetFigures::*value) {
    for (const ModelFleet& fleet : fleets) {
      absl::StrAppend(&text, name, labels(fleet, by), " ", fleet.figures.*value, "\n");
    }
  };
  const auto one = [&](absl::string_view name, absl::string_view type, absl::string_view help,
                       int64_t FleetFigures::*value) {
    head(name, type, help);
    samples(name, "", value);
  };
  one("sluice_gateway_orchestrators", "gauge", "Orchestrators that calls go to.",
      &FleetFigures::num_orchestrators);
  one("sluice_gateway_heard_orchestrators", "gauge", "Those that say what their caches hold.",
      &FleetFigures::num_heard);
  one("sluice_gateway_known_prefixes", "gauge",
      "Beginnings of prompts that some orchestrator holds.", &FleetFigures::num_prefixes);
  constexpr char kRouted[] = "sluice_gateway_routed_calls_total";
  head(kRouted, "counter",
       "Calls by how their orchestrator was chosen: by a known prefix, by hashing, or by load "
       "alone.");
  samples(kRouted, "prefix", &FleetFigures::num_by_prefix);
  samples(kRouted, "hash", &FleetFigures::num_by_hash);
  samples(kRouted, "load", &FleetFigures::num_by_load);
  one("sluice_gateway_known_prompt_tokens_total", "counter",
      "Prompt tokens that the chosen orchestrators were known to hold.",
      &FleetFigures::num_known_tokens);
  return text;
}

}  // namespace sluice::gateway
