// The public gRPC API of one or several orchestrators, as callbacks on the caller's loop. A Generate
// call goes to the one that fleet.h chooses, others in turns. A call whose connection is lost is made
// again, on another endpoint where there is one. Orchestrators may come and go. Thread-safe.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/common/steady_time.h"
#include "services/common/trace_context.h"
#include "services/gateway/backend/call.h"
#include "services/gateway/backend/fleet.h"
#include "services/gateway/backend/meter.h"
#include "services/gateway/http/loop.h"
#include "sluice/v1/embed.grpc.pb.h"
#include "sluice/v1/generation.grpc.pb.h"
#include "sluice/v1/generation_session.grpc.pb.h"
#include "sluice/v1/inspect.grpc.pb.h"

namespace sluice::gateway {

struct Orchestrator {
  std::string name;  // unique; where hashing sends requests depends on it
  std::shared_ptr<grpc::Channel> channel;
};

struct BackendOptions {
  // How long a new call looks for an orchestrator that can be reached.
  absl::Duration connect_timeout = absl::Seconds(5);
  // How long an open stream does, whose orchestrator was lost.
  absl::Duration resume_timeout = absl::Seconds(60);
  // Of the gateway itself, as a value of `authorization`: for asking orchestrators what their caches
  // hold. May be empty.
  std::string authorization = {};
  // Which orchestrators there are now, those of unchanged names with the same channels. Asked once a
  // second from a thread of its own, where it may block. Empty: those that the backend was made with.
  std::function<std::vector<Orchestrator>()> discover = nullptr;
};

// Before a call that found no orchestrator is made again.
constexpr absl::Duration kRetryPause = absl::Milliseconds(50);

// On whose behalf a call is made, and where its callbacks run.
struct Caller {
  http::Loop* loop = nullptr;
  // The value of the client's Authorization header, passed on as it is; may be empty.
  std::string authorization;
  // What the call is made as a part of, passed on as it is.
  std::optional<TraceContext> trace;
  std::string request_id;  // for the log
  // As http::Request has them; empty: none.
  std::string tenant = {};
  std::string cache_scope = {};
};

class Session;

class Backend {
 public:
  template <class Response>
  using Callback = std::function<void(absl::StatusOr<Response>)>;

  // Where `options.discover` is set it is asked for orchestrators first, and `channels` are not used.
  Backend(std::vector<std::shared_ptr<grpc::Channel>> channels, BackendOptions options);
  // REQUIRES: Shutdown() was called, and the callers' loops have ended.
  ~Backend();

  // Cancels the calls under way and waits for their end; no call is made from then on.
  void Shutdown();

  // What the server answers, or its status with the details that retry_info.h knows;
  // UNAVAILABLE where no endpoint can be reached.
  void Score(const Caller& caller, v1::ScoreRequest request, Callback<v1::ScoreResponse> done);
  void Inspect(const Caller& caller, v1::InspectRequest request,
               Callback<v1::InspectResponse> done);
  void Embed(const Caller& caller, v1::EmbedRequest request, Callback<v1::EmbedResponse> done);
  void Rerank(const Caller& caller, v1::RerankRequest request, Callback<v1::RerankResponse> done);
  void Tokenize(const Caller& caller, v1::TokenizeRequest request,
                Callback<v1::TokenizeResponse> done);
  void Detokenize(const Caller& caller, v1::DetokenizeRequest request,
                  Callback<v1::DetokenizeResponse> done);
  void GetVocabulary(const Caller& caller, v1::GetVocabularyRequest request,
                     Callback<v1::GetVocabularyResponse> done);
  void ApplyChatTemplate(const Caller& caller, v1::ApplyChatTemplateRequest request,
                         Callback<v1::ApplyChatTemplateResponse> done);
  void GetStatus(const Caller& caller, v1::GetStatusRequest request,
                 Callback<v1::GetStatusResponse> done);
  // None where the orchestrator is too old to know of adapters.
  void ListAdapters(const Caller& caller, Callback<v1::ListAdaptersResponse> done);
  void LoadAdapter(const Caller& caller, v1::LoadAdapterRequest request,
                   Callback<v1::LoadAdapterResponse> done);
  void UnloadAdapter(const Caller& caller, v1::UnloadAdapterRequest request,
                     Callback<v1::UnloadAdapterResponse> done);
  // Whether an orchestrator serves, asked without credentials: grpc.health.v1 needs no token. OK,
  // or UNAVAILABLE and why not, on `loop`.
  void CheckHealth(http::Loop* loop, std::function<void(absl::Status)> done);
  // May be some seconds old, as a caller with the same authorization was told: a model is asked
  // about with every request, and rarely changes. What is older is asked for again, once for all,
  // while they go on with what is known; after half a minute they wait. A refusal is a second old
  // at most.
  void GetModel(const Caller& caller, Callback<v1::GetModelResponse> done);
  // The same as the orchestrator says it now, for what is answered with nothing else of its: it
  // knows of a token that was revoked. Asked once for all who wait for the same; UNAVAILABLE where
  // too many callers wait.
  void AskForModel(const Caller& caller, Callback<v1::GetModelResponse> done);

  const BackendOptions& options() const { return options_; }
  Meter& meter() { return meter_; }

  // Makes a Generate call to the endpoint that the fleet chooses among those that can be reached, as
  // far as that is known. Null where the backend is shut down. On the caller's loop.
  std::shared_ptr<Call> StartCall(const Caller& caller, const v1::GenerateRequest& request,
                                  Route& route, std::weak_ptr<CallListener> listener);
  // Of what a call to a route's endpoint has come to.
  void OnStarted(const Route& route, const v1::Started& started) {
    fleet_.OnStarted(route, started);
  }
  void OnLost(Route& route);

  FleetFigures fleet_figures() { return fleet_.figures(); }

  // What the caller is told of an error, which may name addresses of this host's network: those are
  // logged instead.
  static absl::Status ForClient(const Caller& caller, const absl::Status& status);

  // For calls, which tell gRPC themselves what they are.
  static void Prepare(grpc::ClientContext& context, const Caller& caller);
  // Every call under way, for Shutdown(); CallBegins is false where none may begin any more.
  bool CallBegins(grpc::ClientContext* context);
  void CallEnds(grpc::ClientContext* context);

 private:
  struct Endpoint {
    std::string name;
    ReplicaId replica = -1;
    std::shared_ptr<grpc::Channel> channel;
    // As it was last seen, or a call to it ended.
    std::atomic<bool> fails = false;
    std::unique_ptr<v1::GenerationService::Stub> stub;
    std::unique_ptr<v1::EmbedService::Stub> embed_stub;
    std::unique_ptr<v1::GenerationSessionService::Stub> session_stub;
    std::unique_ptr<v1::InspectService::Stub> inspect_stub;
    // Guarded by mutex_: one for each loop, and until when the server counts as one that knows of
    // none.
    std::map<http::Loop*, std::shared_ptr<Session>> sessions;
    SteadyTime without_sessions_until;
  };

  struct KnownModel {
    v1::GetModelResponse model;
    SteadyTime since;
    bool is_asked_for = false;  // again
  };
  struct Refusal {
    absl::Status status;
    SteadyTime until;
  };
  // Whoever waits for what an orchestrator says of a caller.
  struct Asking {
    http::Loop* loop;
    Callback<v1::GetModelResponse> done;
  };
  // Returns those who have waited for it.
  std::vector<Asking> KeepModel(const std::string& authorization,
                                const absl::StatusOr<v1::GetModelResponse>& model);

  // Whoever waits for the check of health that is under way.
  struct Checking {
    http::Loop* loop;
    std::function<void(absl::Status)> done;
  };
  void EndCheck(const absl::Status& health);

  struct HealthCall;
  using Endpoints = std::vector<std::shared_ptr<Endpoint>>;  // by name
  std::shared_ptr<const Endpoints> endpoints();
  // Replaces the endpoints: those of unchanged names stay as they are.
  void SetEndpoints(std::vector<Orchestrator> orchestrators);
  // In turns; null where there is none.
  std::shared_ptr<Endpoint> PickEndpoint();
  // For a Generate call; null where there is none.
  std::shared_ptr<Endpoint> ChooseEndpoint(const Caller& caller, const v1::GenerateRequest& request,
                                           Route& route);
  // One that takes calls; null where the server knows of none, or the backend is shut down.
  std::shared_ptr<Session> SessionOf(const std::shared_ptr<Endpoint>& endpoint, http::Loop& loop);
  // What the thread beside does until it is stopped.
  void Watch();

  // One unary call, made until it reaches a server.
  template <class Request, class Response>
  struct UnaryCall;
  // `method` of GenerationService's, EmbedService's or InspectService's Stub::async.
  template <class Async, class Request, class Response>
  void Start(const Caller& caller, Request request,
             void (Async::*method)(grpc::ClientContext*, const Request*, Response*,
                                   std::function<void(grpc::Status)>),
             Callback<Response> done);

  const BackendOptions options_;
  Meter meter_;
  Fleet fleet_;
  std::atomic<size_t> next_endpoint_{0};

  absl::Mutex mutex_;
  std::shared_ptr<const Endpoints> endpoints_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<grpc::ClientContext*> calls_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, KnownModel> models_ ABSL_GUARDED_BY(mutex_);  // by authorization
  std::vector<Checking> checking_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::vector<Asking>> asking_ ABSL_GUARDED_BY(mutex_);  // by authorization
  // Callers who were refused, by authorization, and until when they need not be asked about.
  std::map<std::string, Refusal> refusals_ ABSL_GUARDED_BY(mutex_);

  std::mutex watch_mutex_;  // guards the next
  bool watch_stops_ = false;
  std::condition_variable watch_stopped_;
  std::thread watch_;  // last: it uses what is above
};

// Asks for the tokens of the prompt that a conversation becomes.
v1::ApplyChatTemplateRequest TemplateRequest(const v1::Chat& chat);

}  // namespace sluice::gateway
