#include "services/gateway/backend/backend.h"

#include <grpcpp/generic/generic_stub.h>

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "services/common/location_filter.h"
#include "services/common/status.h"
#include "services/gateway/backend/session.h"
#include "services/gateway/backend/single_call.h"
#include "services/messages/metadata.h"
#include "services/process/log.h"
#include "services/rpc/health_message.h"

namespace sluice::gateway {
namespace {

constexpr char kAuthorizationKey[] = "authorization";
constexpr char kTenantKey[] = "sluice-tenant";
constexpr char kNoAuthorization[] = "invalid";  // of no scheme: refused wherever tokens count

// What a unary call may take once it is made; scoring a long text is the slowest.
constexpr absl::Duration kUnaryTimeout = absl::Seconds(120);
constexpr absl::Duration kHealthTimeout = absl::Seconds(5);
// Of what is known of the model: when it is asked for again, and when nobody goes on with it.
constexpr absl::Duration kModelAge = absl::Seconds(5);
constexpr absl::Duration kOldestModel = absl::Seconds(30);
constexpr size_t kMostModels = 256;
// Who guesses tokens costs the orchestrator a call for each, and no more.
constexpr absl::Duration kRefusalAge = absl::Seconds(1);
constexpr size_t kMostRefusals = 256;
// Callers about whom an orchestrator is asked at a time: while none can be reached, each asks again
// and again.
constexpr size_t kMostAsking = 256;
// A larger request has a stream of its own: in a session those behind it would wait.
constexpr size_t kLargestInSession = size_t{256} << 10;
// After which an orchestrator of an older version is asked for sessions again.
constexpr absl::Duration kSessionsUnknown = absl::Seconds(30);
// How often it is looked which endpoints can be reached; which there are.
constexpr absl::Duration kWatchAgain = absl::Milliseconds(200);
constexpr absl::Duration kDiscoverAgain = absl::Seconds(1);

absl::Status NoOrchestrator() {
  return absl::UnavailableError("no orchestrator is known: none is listed");
}

// In place of a call that nobody can take.
class NoCall final : public Call {
 public:
  void SetReading(bool /*reading*/) override {}
  void Cancel() override {}
};

}  // namespace

Backend::Backend(std::vector<std::shared_ptr<grpc::Channel>> channels, BackendOptions options)
    : options_(std::move(options)),
      fleet_(options_.authorization),
      endpoints_(std::make_shared<const Endpoints>()) {
  std::vector<Orchestrator> orchestrators;
  if (options_.discover != nullptr) {
    orchestrators = options_.discover();
  } else {
    for (std::shared_ptr<grpc::Channel>& channel : channels) {
      orchestrators.push_back(
          {.name = absl::StrCat(orchestrators.size()), .channel = std::move(channel)});
    }
  }
  const bool changes = options_.discover != nullptr || orchestrators.size() > 1;
  SetEndpoints(std::move(orchestrators));
  if (changes) watch_ = std::thread([this] { Watch(); });
}

Backend::~Backend() = default;

void Backend::Shutdown() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  {
    const std::lock_guard lock(watch_mutex_);
    watch_stops_ = true;
  }
  watch_stopped_.notify_all();
  if (watch_.joinable()) watch_.join();
  fleet_.Shutdown();
  absl::MutexLock lock(&mutex_);
  for (grpc::ClientContext* context : calls_) context->TryCancel();
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return calls_.empty(); };
  mutex_.Await(absl::Condition(&idle));
}

// ---- Endpoints ----

std::shared_ptr<const Backend::Endpoints> Backend::endpoints() {
  absl::MutexLock lock(&mutex_);
  return endpoints_;
}

void Backend::SetEndpoints(std::vector<Orchestrator> orchestrators) {
  std::sort(orchestrators.begin(), orchestrators.end(),
            [](const Orchestrator& a, const Orchestrator& b) { return a.name < b.name; });
  const std::shared_ptr<const Endpoints> before = endpoints();
  auto now = std::make_shared<Endpoints>();
  for (Orchestrator& orchestrator : orchestrators) {
    if (!now->empty() && now->back()->name == orchestrator.name) continue;
    const auto same = std::find_if(before->begin(), before->end(), [&](const auto& endpoint) {
      return endpoint->name == orchestrator.name;
    });
    if (same != before->end()) {
      now->push_back(*same);
      continue;
    }
    auto endpoint = std::make_shared<Endpoint>();
    endpoint->name = orchestrator.name;
    endpoint->replica = fleet_.Add(orchestrator.name, orchestrator.channel);
    endpoint->stub = v1::GenerationService::NewStub(orchestrator.channel);
    endpoint->inspect_stub = v1::InspectService::NewStub(orchestrator.channel);
    endpoint->embed_stub = v1::EmbedService::NewStub(orchestrator.channel);
    endpoint->session_stub = v1::GenerationSessionService::NewStub(orchestrator.channel);
    endpoint->channel = std::move(orchestrator.channel);
    now->push_back(std::move(endpoint));
  }
  for (const auto& endpoint : *before) {
    if (std::find(now->begin(), now->end(), endpoint) != now->end()) continue;
    fleet_.Remove(endpoint->replica);
    Log(LogLevel::kInfo, "gateway", "orchestrator-gone", {{"orchestrator", endpoint->name}});
  }
  absl::MutexLock lock(&mutex_);
  endpoints_ = std::move(now);
}

void Backend::Watch() {
  SteadyTime asked = SteadyTime::Now();
  std::unique_lock lock(watch_mutex_);
  while (!watch_stops_) {
    lock.unlock();
    for (const auto& endpoint : *endpoints()) {
      endpoint->fails = endpoint->channel->GetState(true) == GRPC_CHANNEL_TRANSIENT_FAILURE;
    }
    fleet_.Tick();
    if (options_.discover != nullptr && SteadyTime::Now() - asked >= kDiscoverAgain) {
      SetEndpoints(options_.discover());
      asked = SteadyTime::Now();
    }
    lock.lock();
    watch_stopped_.wait_until(lock, (SteadyTime::Now() + kWatchAgain).ToChrono(),
                              [this] { return watch_stops_; });
  }
}

bool Backend::CallBegins(grpc::ClientContext* context) {
  absl::MutexLock lock(&mutex_);
  if (!stopping_) calls_.insert(context);
  return !stopping_;
}

void Backend::CallEnds(grpc::ClientContext* context) {
  absl::MutexLock lock(&mutex_);
  calls_.erase(context);
}

std::shared_ptr<Backend::Endpoint> Backend::PickEndpoint() {
  const std::shared_ptr<const Endpoints> all = endpoints();
  if (all->empty()) return nullptr;
  const size_t first = next_endpoint_++;
  for (size_t i = 0; i < all->size(); ++i) {
    const std::shared_ptr<Endpoint>& endpoint = (*all)[(first + i) % all->size()];
    if (endpoint->channel->GetState(true) != GRPC_CHANNEL_TRANSIENT_FAILURE) return endpoint;
  }
  return (*all)[first % all->size()];
}

std::shared_ptr<Backend::Endpoint> Backend::ChooseEndpoint(const Caller& caller,
                                                           const v1::GenerateRequest& request,
                                                           Route& route) {
  const std::shared_ptr<const Endpoints> all = endpoints();
  if (all->size() < 2) return all->empty() ? nullptr : all->front();
  PrefixKey sharer = KeyOfBytes(caller.authorization);
  sharer = KeyOfBytes(request.cache_salt(), KeyOfBytes(caller.tenant, sharer));
  std::vector<const std::shared_ptr<Endpoint>*> by_replica;
  for (const std::shared_ptr<Endpoint>& endpoint : *all) {
    const auto replica = static_cast<size_t>(endpoint->replica);
    if (replica >= by_replica.size()) by_replica.resize(replica + 1);
    by_replica[replica] = &endpoint;
  }
  const auto is_there = [&by_replica](ReplicaId replica) {
    return static_cast<size_t>(replica) < by_replica.size() && by_replica[replica] != nullptr;
  };
  ReplicaId chosen = fleet_.Choose(request, sharer, route, [&](ReplicaId replica) {
    return is_there(replica) && !(*by_replica[replica])->fails;
  });
  if (chosen < 0) chosen = fleet_.Choose(request, sharer, route, is_there);
  return chosen < 0 ? all->front() : *by_replica[chosen];
}

void Backend::OnLost(Route& route) {
  fleet_.OnLost(route);
  for (const std::shared_ptr<Endpoint>& endpoint : *endpoints()) {
    if (endpoint->replica == route.lost) endpoint->fails = true;  // until it is looked at again
  }
}

std::shared_ptr<Session> Backend::SessionOf(const std::shared_ptr<Endpoint>& endpoint,
                                            http::Loop& loop) {
  std::shared_ptr<Session> last;
  {
    absl::MutexLock lock(&mutex_);
    if (SteadyTime::Now() < endpoint->without_sessions_until) return nullptr;
    last = endpoint->sessions[&loop];
  }
  if (last != nullptr && last->takes_calls()) return last;
  auto session = Session::Open(
      *this, *endpoint->session_stub, loop, [this, weak = std::weak_ptr<Endpoint>(endpoint)] {
        const std::shared_ptr<Endpoint> endpoint = weak.lock();
        if (endpoint == nullptr) return;
        absl::MutexLock lock(&mutex_);
        endpoint->without_sessions_until = SteadyTime::Now() + kSessionsUnknown;
      });
  if (!session->takes_calls()) return nullptr;
  absl::MutexLock lock(&mutex_);
  return endpoint->sessions[&loop] = std::move(session);
}

std::shared_ptr<Call> Backend::StartCall(const Caller& caller, const v1::GenerateRequest& request,
                                         Route& route, std::weak_ptr<CallListener> listener) {
  const std::shared_ptr<Endpoint> endpoint = ChooseEndpoint(caller, request, route);
  if (endpoint == nullptr) {
    caller.loop->Post([listener = std::move(listener)] {
      if (const auto told = listener.lock()) told->OnEnd(NoOrchestrator());
    });
    return std::make_shared<NoCall>();
  }
  if (request.ByteSizeLong() <= kLargestInSession) {
    const std::shared_ptr<Session> session = SessionOf(endpoint, *caller.loop);
    if (session != nullptr) return session->Start(caller, request, std::move(listener));
  }
  return StartSingleCall(*this, *endpoint->stub, caller, request, std::move(listener));
}

void Backend::Prepare(grpc::ClientContext& context, const Caller& caller) {
  if (!caller.authorization.empty()) {
    // Left out, it would be the call of a stranger, whom an orchestrator may serve.
    if (!AddMetadata(context, kAuthorizationKey, caller.authorization).ok()) {
      context.AddMetadata(kAuthorizationKey, kNoAuthorization);
    }
  }
  if (!caller.tenant.empty()) context.AddMetadata(kTenantKey, caller.tenant);
  if (caller.trace.has_value()) {
    // Without its trace a call is as good.
    AddMetadata(context, kTraceParentKey, caller.trace->ToTraceParent()).IgnoreError();
    if (!caller.trace->state.empty()) {
      AddMetadata(context, kTraceStateKey, caller.trace->state).IgnoreError();
    }
  }
}

absl::Status Backend::ForClient(const Caller& caller, const absl::Status& status) {
  absl::Status told = LocationFilter().ForClient(status);
  if (told.message() != status.message()) {
    Log(LogLevel::kWarning, "gateway", "call-failed",
        {{"request", caller.request_id}, {"status", status.ToString()}});
  }
  return told;
}

template <class Request, class Response>
struct Backend::UnaryCall {
  // Makes the call at an endpoint.
  using Method = std::function<void(Endpoint&, grpc::ClientContext*, const Request*, Response*,
                                    std::function<void(grpc::Status)>)>;
  Backend& backend;
  const Caller caller;
  const Request request;
  const Method method;
  const Callback<Response> done;
  // Counted from the first failure.
  std::optional<SteadyTime> give_up = std::nullopt;
  Response response = {};

  static void Try(const std::shared_ptr<UnaryCall>& self) {
    const auto context = std::make_shared<grpc::ClientContext>();
    Prepare(*context, self->caller);
    context->set_deadline(absl::ToChronoTime(absl::Now() + kUnaryTimeout));
    if (!self->backend.CallBegins(context.get())) {
      return self->done(absl::UnavailableError("shutting down"));
    }
    const std::shared_ptr<Endpoint> endpoint = self->backend.PickEndpoint();
    if (endpoint == nullptr) {
      self->backend.CallEnds(context.get());
      return self->caller.loop->Post([self] { End(self, NoOrchestrator()); });
    }
    self->method(
        *endpoint, context.get(), &self->request, &self->response,
        [self, context](const grpc::Status& status) {
          self->caller.loop->Post([self, status = FromGrpc(status)] { End(self, status); });
          self->backend.CallEnds(context.get());
        });
  }

  static void End(const std::shared_ptr<UnaryCall>& self, const absl::Status& status) {
    // CANCELLED: by a server that shut down as the call reached it; nobody cancels here.
    const bool is_lost = absl::IsUnavailable(status) || absl::IsCancelled(status);
    const SteadyTime now = SteadyTime::Now();
    if (is_lost && !self->give_up.has_value()) {
      self->give_up = now + self->backend.options().connect_timeout;
    }
    if (is_lost && now < *self->give_up) {
      return self->caller.loop->After(kRetryPause, [self] { Try(self); });
    }
    if (!status.ok()) return self->done(ForClient(self->caller, status));
    self->done(std::move(self->response));
  }
};

template <class Async, class Request, class Response>
void Backend::Start(const Caller& caller, Request request,
                    void (Async::*method)(grpc::ClientContext*, const Request*, Response*,
                                          std::function<void(grpc::Status)>),
                    Callback<Response> done) {
  using Call = UnaryCall<Request, Response>;
  const auto make = [method](Endpoint& endpoint, grpc::ClientContext* context, const Request* asked,
                             Response* response, std::function<void(grpc::Status)> ended) {
    if constexpr (std::is_same_v<Async, class v1::EmbedService::Stub::async>) {
      (endpoint.embed_stub->async()->*method)(context, asked, response, std::move(ended));
    } else if constexpr (std::is_same_v<Async, class v1::InspectService::Stub::async>) {
      (endpoint.inspect_stub->async()->*method)(context, asked, response, std::move(ended));
    } else {
      (endpoint.stub->async()->*method)(context, asked, response, std::move(ended));
    }
  };
  Call::Try(
      std::shared_ptr<Call>(new Call{*this, caller, std::move(request), make, std::move(done)}));
}

struct Backend::HealthCall {
  std::unique_ptr<grpc::GenericStub> stub;
  grpc::ClientContext context;
  grpc::ByteBuffer request;
  grpc::ByteBuffer response;

  absl::Status Result(const grpc::Status& status) const {
    if (!status.ok()) return absl::UnavailableError(status.error_message());
    const absl::StatusOr<HealthState> state = HealthStateIn(response);
    if (!state.ok()) return absl::UnavailableError(state.status().message());
    if (*state == HealthState::kServing) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat("the orchestrator is ", Name(*state)));
  }
};

void Backend::CheckHealth(http::Loop* loop, std::function<void(absl::Status)> done) {
  {
    absl::MutexLock lock(&mutex_);
    checking_.push_back({loop, std::move(done)});
    if (checking_.size() > 1) return;  // the check under way answers this one too
  }
  const std::shared_ptr<Endpoint> endpoint = PickEndpoint();
  if (endpoint == nullptr) return EndCheck(NoOrchestrator());
  const auto call = std::make_shared<HealthCall>();
  call->stub = std::make_unique<grpc::GenericStub>(endpoint->channel);
  call->context.set_deadline(absl::ToChronoTime(absl::Now() + kHealthTimeout));
  call->request = *HealthCheckRequest("");
  if (!CallBegins(&call->context)) return EndCheck(absl::UnavailableError("shutting down"));
  call->stub->UnaryCall(&call->context, kHealthCheckMethod, grpc::StubOptions(), &call->request,
                        &call->response, [this, call](const grpc::Status& status) {
                          EndCheck(LocationFilter().ForClient(call->Result(status)));
                          CallEnds(&call->context);
                        });
}

void Backend::EndCheck(const absl::Status& health) {
  std::vector<Checking> checking;
  {
    absl::MutexLock lock(&mutex_);
    checking.swap(checking_);
  }
  for (const Checking& each : checking) {
    each.loop->Post([done = each.done, health] { done(health); });
  }
}

using Async = class v1::GenerationService::Stub::async;
using EmbedAsync = class v1::EmbedService::Stub::async;

void Backend::Score(const Caller& caller, v1::ScoreRequest request,
                    Callback<v1::ScoreResponse> done) {
  Start<Async, v1::ScoreRequest, v1::ScoreResponse>(caller, std::move(request), &Async::Score,
                                                    std::move(done));
}

void Backend::Embed(const Caller& caller, v1::EmbedRequest request,
                    Callback<v1::EmbedResponse> done) {
  Start<EmbedAsync, v1::EmbedRequest, v1::EmbedResponse>(caller, std::move(request),
                                                         &EmbedAsync::Embed, std::move(done));
}

void Backend::Rerank(const Caller& caller, v1::RerankRequest request,
                     Callback<v1::RerankResponse> done) {
  Start<EmbedAsync, v1::RerankRequest, v1::RerankResponse>(caller, std::move(request),
                                                           &EmbedAsync::Rerank, std::move(done));
}

void Backend::Inspect(const Caller& caller, v1::InspectRequest request,
                      Callback<v1::InspectResponse> done) {
  using InspectAsync = class v1::InspectService::Stub::async;
  Start<InspectAsync, v1::InspectRequest, v1::InspectResponse>(
      caller, std::move(request), &InspectAsync::Inspect, std::move(done));
}

void Backend::Tokenize(const Caller& caller, v1::TokenizeRequest request,
                       Callback<v1::TokenizeResponse> done) {
  Start<Async, v1::TokenizeRequest, v1::TokenizeResponse>(caller, std::move(request),
                                                          &Async::Tokenize, std::move(done));
}

void Backend::Detokenize(const Caller& caller, v1::DetokenizeRequest request,
                         Callback<v1::DetokenizeResponse> done) {
  Start<Async, v1::DetokenizeRequest, v1::DetokenizeResponse>(caller, std::move(request),
                                                              &Async::Detokenize, std::move(done));
}

void Backend::ListAdapters(const Caller& caller, Callback<v1::ListAdaptersResponse> done) {
  Start<Async, v1::ListAdaptersRequest, v1::ListAdaptersResponse>(
      caller, {}, &Async::ListAdapters,
      [done = std::move(done)](absl::StatusOr<v1::ListAdaptersResponse> adapters) {
        if (absl::IsUnimplemented(adapters.status())) adapters = v1::ListAdaptersResponse();
        done(std::move(adapters));
      });
}

void Backend::LoadAdapter(const Caller& caller, v1::LoadAdapterRequest request,
                          Callback<v1::LoadAdapterResponse> done) {
  Start<Async, v1::LoadAdapterRequest, v1::LoadAdapterResponse>(
      caller, std::move(request), &Async::LoadAdapter, std::move(done));
}

void Backend::UnloadAdapter(const Caller& caller, v1::UnloadAdapterRequest request,
                            Callback<v1::UnloadAdapterResponse> done) {
  Start<Async, v1::UnloadAdapterRequest, v1::UnloadAdapterResponse>(
      caller, std::move(request), &Async::UnloadAdapter, std::move(done));
}

void Backend::GetVocabulary(const Caller& caller, v1::GetVocabularyRequest request,
                            Callback<v1::GetVocabularyResponse> done) {
  Start<Async, v1::GetVocabularyRequest, v1::GetVocabularyResponse>(
      caller, std::move(request), &Async::GetVocabulary, std::move(done));
}

void Backend::ApplyChatTemplate(const Caller& caller, v1::ApplyChatTemplateRequest request,
                                Callback<v1::ApplyChatTemplateResponse> done) {
  Start<Async, v1::ApplyChatTemplateRequest, v1::ApplyChatTemplateResponse>(
      caller, std::move(request), &Async::ApplyChatTemplate, std::move(done));
}

void Backend::GetStatus(const Caller& caller, v1::GetStatusRequest request,
                        Callback<v1::GetStatusResponse> done) {
  Start<Async, v1::GetStatusRequest, v1::GetStatusResponse>(caller, std::move(request),
                                                            &Async::GetStatus, std::move(done));
}

void Backend::GetModel(const Caller& caller, Callback<v1::GetModelResponse> done) {
  std::optional<v1::GetModelResponse> known;
  absl::Status refusal;
  bool asks = true;
  {
    absl::MutexLock lock(&mutex_);
    const auto refused = refusals_.find(caller.authorization);
    if (refused != refusals_.end() && SteadyTime::Now() < refused->second.until) {
      refusal = refused->second.status;
    }
    const auto found = models_.find(caller.authorization);
    const absl::Duration age =
        found == models_.end() ? kOldestModel : SteadyTime::Now() - found->second.since;
    if (age < kOldestModel) {
      known = found->second.model;
      asks = age >= kModelAge && !std::exchange(found->second.is_asked_for, true);
    }
  }
  if (!refusal.ok()) return done(refusal);
  if (!known.has_value()) return AskForModel(caller, std::move(done));
  if (asks) AskForModel(caller, [](const absl::StatusOr<v1::GetModelResponse>&) {});
  done(*std::move(known));
}

void Backend::AskForModel(const Caller& caller, Callback<v1::GetModelResponse> done) {
  const std::string& authorization = caller.authorization;
  bool is_full = false;
  {
    absl::MutexLock lock(&mutex_);
    const auto [asking, is_first] = asking_.try_emplace(authorization);
    is_full = asking_.size() > kMostAsking;
    if (is_full) {
      asking_.erase(asking);
    } else {
      asking->second.push_back({caller.loop, done});
      if (!is_first) return;
    }
  }
  if (is_full) return done(absl::UnavailableError("too many callers wait for an orchestrator"));
  Start<Async, v1::GetModelRequest, v1::GetModelResponse>(
      caller, {}, &Async::GetModel,
      [this, authorization, loop = caller.loop](absl::StatusOr<v1::GetModelResponse> model) {
        for (const Asking& asking : KeepModel(authorization, model)) {
          if (asking.loop == loop) {
            asking.done(model);
          } else {
            asking.loop->Post([done = asking.done, model] { done(model); });
          }
        }
      });
}

std::vector<Backend::Asking> Backend::KeepModel(const std::string& authorization,
                                                const absl::StatusOr<v1::GetModelResponse>& model) {
  absl::MutexLock lock(&mutex_);
  auto node = asking_.extract(authorization);
  std::vector<Asking> asking;
  if (!node.empty()) asking = std::move(node.mapped());
  if (model.ok()) {
    refusals_.erase(authorization);
    if (models_.size() >= kMostModels) models_.clear();
    models_[authorization] = {.model = *model, .since = SteadyTime::Now()};
    return asking;
  }
  models_.erase(authorization);
  if (absl::IsUnauthenticated(model.status())) {
    if (refusals_.size() >= kMostRefusals) refusals_.clear();
    refusals_[authorization] = {model.status(), SteadyTime::Now() + kRefusalAge};
  }
  return asking;
}

v1::ApplyChatTemplateRequest TemplateRequest(const v1::Chat& chat) {
  v1::ApplyChatTemplateRequest request;
  *request.mutable_messages() = chat.messages();
  request.set_tools_json(chat.tools_json());
  request.set_template_name(chat.template_name());
  request.set_variables_json(chat.variables_json());
  if (chat.has_add_generation_prompt()) {
    request.set_add_generation_prompt(chat.add_generation_prompt());
  }
  request.set_continue_final_message(chat.continue_final_message());
  request.set_tokenize(true);
  return request;
}

}  // namespace sluice::gateway
