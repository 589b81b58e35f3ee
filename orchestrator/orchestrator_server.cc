#include "orchestrator/orchestrator_server.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "orchestrator/metrics/engine_metrics.h"
#include "orchestrator/pipeline/process_check.h"
#include "services/common/status.h"
#include "services/listener/connection_guard.h"
#include "services/model/digest/model_digest.h"
#include "services/model/digest/vocabulary_check.h"
#include "services/model/identity.h"
#include "services/model/model_config.h"
#include "services/model/sampling_defaults.h"
#include "services/options/adapter_list.h"
#include "services/process/log.h"
#include "services/telemetry/span_metrics.h"

namespace sluice {
namespace {

// Above the default queue limit, so that excess requests get RESOURCE_EXHAUSTED instead of waiting
// in HTTP/2.
constexpr int kMaxStreams = 2048;

// Of --max_model_len, else the model's.
absl::StatusOr<int32_t> ContextOf(const ModelConfig& config, const OptionValues& values) {
  if (!values.IsGiven("max_model_len")) return config.max_positions;
  const int wanted = values.Get<int>("max_model_len");
  if (wanted <= config.max_positions) return wanted;
  return absl::InvalidArgumentError(absl::StrCat("--max_model_len is ", wanted, "; accepted: 2 to ",
                                                 config.max_positions, ", the model's context"));
}

ModelDescription Describe(const ModelConfig& config, int32_t max_positions, int32_t max_step_tokens,
                          const SamplingOptions& sampling, const std::string& name,
                          const std::string& weights) {
  ModelDescription model;
  model.name = name;
  model.architecture = config.model_type;
  model.vocabulary_size = config.vocab_size;
  model.max_positions = max_positions;
  model.num_layers = config.num_layers();
  model.hidden_size = config.hidden_size;
  model.weights = weights;
  model.eos_token_ids.assign(config.eos_token_ids.begin(), config.eos_token_ids.end());
  model.generates = config.has_head;
  model.embedder = config.embedder;
  model.num_token_types = config.num_token_types;
  static_assert(kSourceUnit == SourceSpec::kUnit);
  model.source = config.source;
  if (config.source.has_value()) {
    model.max_source_tokens =
        std::min(config.source->max_positions, max_step_tokens / kSourceUnit * kSourceUnit);
  }
  if (config.embedder.has_value()) {
    const bool last_row_alone =
        !config.embedder->needs_all_rows() && config.embedder->poolings[0] == Pooling::kLast;
    model.embeds_in_one_piece = config.is_encoder() || !last_row_alone;
    model.max_text_tokens =
        model.embeds_in_one_piece ? std::min(max_positions, max_step_tokens) : max_positions;
  }
  model.sampling = sampling;
  model.max_length = config.generation.max_length;
  return model;
}

// Vocabularies are padded to round numbers on purpose, by less than this.
constexpr int kMostPadding = 1024;

// Both serve what they have in common, and some mean it so.
void WarnOfOtherVocabulary(const v1::GetTokenizerInfoResponse& info, int model_vocabulary) {
  if (!info.has_tokenizer()) return;
  const int tokenizer_vocabulary = info.vocabulary_size();
  const char* effect = nullptr;
  if (tokenizer_vocabulary > model_vocabulary) {
    effect = "texts with tokens that the model does not have are refused";
  } else if (model_vocabulary - tokenizer_vocabulary > kMostPadding) {
    effect = "the model may write tokens that have no text";
  } else {
    return;
  }
  Log(LogLevel::kWarning, "orchestrator", "tokenizer-of-another-size",
      {{"tokenizer_tokens", tokenizer_vocabulary},
       {"model_tokens", model_vocabulary},
       {"effect", effect}});
}

std::string WeightsName(WeightType weights, const std::string& folder, const ModelConfig& config) {
  if (weights != WeightType::kAuto) return Name(weights);
  const absl::StatusOr<WeightSource> source = WeightSource::Open(folder, config);
  if (!source.ok()) return "as stored";
  const absl::StatusOr<WeightFormat> format = source->Resolve(weights);
  return format.ok() ? TypeName(*format) : "as stored";
}

// By which stages know whose they are: the same for the next process that serves at this address,
// another for every other. An address that does not say so much gets the process's number.
std::string NameOf(const std::string& address) {
  std::array<char, 256> host = {};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  std::string name = absl::StrCat(host.data(), "/", address);
  const bool shared = absl::EndsWith(address, ":0") || absl::StartsWith(address, "inproc:");
  return shared ? absl::StrCat(name, "/", getpid()) : name;
}

// Those of --adapters.
absl::StatusOr<std::unique_ptr<AdapterRegistry>> OpenAdapters(
    const OrchestratorServerOptions& options, const ModelConfig& config, const std::string& name) {
  const std::string list = options.values.Get<std::string>("adapters");
  const bool asked = !list.empty() || !options.values.Get<std::string>("adapter_folder").empty();
  auto registry = AdapterRegistry::Create(options.model, config, name);
  // An orchestrator may have a folder without weights, which say what adapters' modules are called.
  if (!registry.ok() && !asked) return std::unique_ptr<AdapterRegistry>();
  if (!registry.ok()) return registry.status();
  const auto adapters = ParseAdapterList(list);
  if (!adapters.ok()) return Annotate(adapters.status(), "--adapters");
  for (const auto& [adapter, folder] : *adapters) {
    const absl::Status loaded = (*registry)->Load(adapter, folder, /*replace=*/false);
    if (!loaded.ok()) return Annotate(loaded, absl::StrCat("--adapters: ", adapter));
  }
  return registry;
}

std::function<int32_t(int32_t)> RopeLengthClassOf(const ModelConfig& config) {
  if (!config.depends_on_length()) return nullptr;
  return [config](int32_t length) { return config.RopeLengthClass(length); };
}

// Puts the draft model's context into `engine`. INVALID_ARGUMENT where it has other tokens; errors
// of reading its configuration.
absl::StatusOr<std::optional<ReplicaOptions>> ReplicaOfDraftModel(
    const OrchestratorServerOptions& options, int vocabulary_size, EngineOptions& engine) {
  if (!options.draft_model.has_value()) return std::optional<ReplicaOptions>();
  const DraftModelPlace& place = *options.draft_model;
  const absl::StatusOr<ModelIdentity> identity = IdentifyModel(place.model);
  if (!identity.ok()) return identity.status();
  const absl::StatusOr<ModelConfig> config = LoadModelConfig(place.model);
  if (!config.ok()) return config.status();
  const absl::Status same =
      CheckSameVocabulary({.folder = options.model, .size = vocabulary_size},
                          {.folder = place.model, .size = config->vocab_size});
  if (!same.ok()) return same;
  if (config->source.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--draft_model is an encoder-decoder, model_type \"", config->model_type,
                     "\"; accepted: decoders"));
  }
  engine.draft_max_positions = config->max_positions;
  engine.draft_rope_length_class = RopeLengthClassOf(*config);
  return ReplicaOptions{.orchestrator = NameOf(options.address),
                        .topology = {.embedding = place.embedding,
                                     .shards = {{place.shard}},
                                     .sampler = place.sampler},
                        .model_fingerprint = identity->fingerprint,
                        .max_step_tokens = options.max_step_tokens,
                        .vocabulary_size = static_cast<int32_t>(config->vocab_size)};
}

// An orchestrator that has lost its processes asks all of them again and again, which takes 2 s
// while one does not answer. One that holds requests may be its successor.
absl::Duration YieldTime(const OrchestratorServerOptions& options) {
  return options.hold_time > absl::ZeroDuration() ? absl::Seconds(4) : absl::ZeroDuration();
}

// What clients are not told of (ClientErrors).
std::vector<std::string> LocationsOf(const OrchestratorServerOptions& options) {
  std::vector<std::string> locations = {options.model, options.tokenizer,
                                        options.topology.embedding, options.topology.sampler,
                                        NameOf(options.address)};
  for (const std::vector<std::string>& stage : options.topology.shards) {
    locations.insert(locations.end(), stage.begin(), stage.end());
  }
  if (options.draft_model.has_value()) {
    const DraftModelPlace& draft = *options.draft_model;
    locations.insert(locations.end(), {draft.model, draft.embedding, draft.shard, draft.sampler});
  }
  return locations;
}

PublicListener ListenerOf(const OrchestratorServerOptions& options) {
  PublicListener listener = options.listener;
  listener.tokens = !options.tokens.empty();
  return listener;
}

// Null where nothing computes Inspect calls.
std::unique_ptr<InspectorRunner> MakeInspectorRunner(const OrchestratorServerOptions& options) {
  const int threads = options.values.Get<int>("inspect_threads");
  if (options.inspector.empty() || threads == 0) return nullptr;
  return std::make_unique<InspectorRunner>(
      InspectorRunnerOptions{.program = options.inspector,
                             .model = options.model,
                             .rope_scaling = options.overrides.rope_scaling,
                             .weights = Name(options.weights),
                             .num_threads = threads});
}

// Null where callers need prove nothing: on this host, or where that was asked for.
absl::StatusOr<std::unique_ptr<Authenticator>> MakeAuthenticator(
    const OrchestratorServerOptions& options) {
  const PublicListener& listener = options.listener;
  AuthenticatorOptions authenticator;
  if (!options.tokens.empty()) {
    absl::StatusOr<std::unique_ptr<TokenFile>> tokens =
        TokenFile::Open(options.tokens, [](const absl::Status& fault) {
          Log(LogLevel::kError, "orchestrator", "tokens-not-read", {{"cause", fault.ToString()}});
        });
    if (!tokens.ok()) return tokens.status();
    authenticator.tokens = *std::move(tokens);
  }
  authenticator.certificates = !listener.tls.authority.empty();
  if (listener.clients_by_role) authenticator.client_domain = listener.tls.domain;
  const bool proof = authenticator.tokens != nullptr ||
                     (authenticator.certificates && !IsOwnersAddress(options.address));
  if (!proof) return std::unique_ptr<Authenticator>();
  return std::make_unique<Authenticator>(std::move(authenticator));
}

}  // namespace

struct OrchestratorServer::Health {
  absl::Mutex mutex;
  bool engine_serves ABSL_GUARDED_BY(mutex) = false;
  bool engine_holds ABSL_GUARDED_BY(mutex) = false;
  bool holds_for_tokenizer = false;  // constant once it is shared
  bool tokenizer_answers ABSL_GUARDED_BY(mutex) = false;
  Server* server ABSL_GUARDED_BY(mutex) = nullptr;

  void SetEngine(bool serves) {
    absl::MutexLock lock(&mutex);
    engine_serves = serves;
    Tell();
  }
  void SetEngineHolds(bool holds) {
    absl::MutexLock lock(&mutex);
    engine_holds = holds;
    Tell();
  }
  void SetTokenizer(bool answers) {
    absl::MutexLock lock(&mutex);
    tokenizer_answers = answers;
    Tell();
  }
  bool TokenizerAnswers() {
    absl::MutexLock lock(&mutex);
    return tokenizer_answers;
  }
  void SetServer(Server* started) {
    absl::MutexLock lock(&mutex);
    server = started;
    Tell();
  }

 private:
  void Tell() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (server == nullptr) return;
    server->SetServing(engine_serves && tokenizer_answers);
    // Requests wait for the tokenizer, too.
    server->SetHolding(engine_holds || (engine_serves && holds_for_tokenizer));
  }
};

absl::StatusOr<std::unique_ptr<OrchestratorServer>> OrchestratorServer::Start(
    const OrchestratorServerOptions& options, Dialer* dialer) {
  if (!options.owners_socket.empty() && !IsOwnersAddress(options.owners_socket)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--owners_socket is ", options.owners_socket, "; accepted: unix:/PATH"));
  }
  const absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> credentials =
      PublicServerCredentials(options.address, ListenerOf(options));
  if (!credentials.ok()) return credentials.status();
  absl::StatusOr<std::unique_ptr<Authenticator>> authenticator = MakeAuthenticator(options);
  if (!authenticator.ok()) return authenticator.status();
  absl::StatusOr<ModelIdentity> identity = IdentifyModel(options.model, options.overrides);
  if (!identity.ok()) return identity.status();
  const std::string served_name = options.values.Get<std::string>("served_model_name");
  if (!served_name.empty()) identity->name = served_name;
  const absl::StatusOr<ModelConfig> config = LoadModelConfig(options.model, options.overrides);
  if (!config.ok()) return config.status();
  const absl::StatusOr<SamplingOptions> sampling = LoadSamplingDefaults(options.model);
  if (!sampling.ok()) return sampling.status();
  const absl::StatusOr<std::string> tokenizer_digest = TokenizerDigest(options.model);
  if (!tokenizer_digest.ok()) return tokenizer_digest.status();
  absl::StatusOr<std::shared_ptr<grpc::Channel>> tokenizer =
      dialer->Dial(options.tokenizer, Role::kTokenizer);
  if (!tokenizer.ok()) return tokenizer.status();
  absl::StatusOr<std::shared_ptr<grpc::Channel>> sampler =
      dialer->Dial(options.topology.sampler, Role::kSampler);
  if (!sampler.ok()) return sampler.status();
  SchedulerOptions scheduler;
  scheduler.max_tokens_per_step = options.max_step_tokens;
  scheduler.max_sequences_per_step = options.max_step_sequences;
  scheduler.max_queued_sequences = options.max_queued_sequences;
  const absl::StatusOr<int32_t> context = ContextOf(*config, options.values);
  if (!context.ok()) return context.status();
  scheduler.max_positions = *context;
  scheduler.rope_length_class = RopeLengthClassOf(*config);
  scheduler.model_fingerprint = identity->fingerprint;
  const auto tenants = std::make_shared<TenantBook>(options.tenants);
  if (const absl::Status loaded = tenants->Load(); !loaded.ok()) return loaded;
  scheduler.tenant_policies = [tenants] { return tenants->policies(); };
  scheduler.num_adapter_slots = options.values.Get<int>("max_loaded_adapters");
  absl::StatusOr<std::unique_ptr<AdapterRegistry>> adapters =
      OpenAdapters(options, *config, identity->name);
  if (!adapters.ok()) return adapters.status();
  const absl::Status valid = Validate(scheduler);
  if (!valid.ok()) return valid;
  EngineOptions engine;
  const absl::StatusOr<std::optional<ReplicaOptions>> draft_model =
      ReplicaOfDraftModel(options, config->vocab_size, engine);
  if (!draft_model.ok()) return draft_model.status();

  auto result = std::unique_ptr<OrchestratorServer>(new OrchestratorServer());
  result->vllm_metric_names_ = options.vllm_metric_names;
  result->request_metrics_ = RequestMetrics::Make(
      *result->registry_, [] { return absl::Now(); }, identity->name);
  result->health_ = std::make_shared<Health>();
  result->health_->holds_for_tokenizer = options.hold_time > absl::ZeroDuration();
  result->tenants_ = tenants;
  result->adapters_ = *std::move(adapters);
  if (std::string watched = options.values.Get<std::string>("adapter_folder"); !watched.empty()) {
    result->adapter_folder_ =
        std::make_unique<AdapterFolderWatch>(std::move(watched), result->adapters_.get());
  }
  result->tokenizer_ = std::make_unique<TokenizerClient>(
      *tokenizer, TokenizerClient::Options{.hang_timeout = options.hang_timeout,
                                           .connect_time = options.hold_time,
                                           .digest = *tokenizer_digest,
                                           .answers = [health = result->health_] {
                                             return health->TokenizerAnswers();
                                           }});
  result->tokenizer_watch_ = std::make_unique<TokenizerWatch>(
      *tokenizer,
      TokenizerWatch::Options{
          .address = options.tokenizer,
          .on_changed = [health = result->health_](bool answers) { health->SetTokenizer(answers); },
          .check = [digest = *tokenizer_digest](
                       const auto& info) { return CheckTokenizer(info, digest); },
          .on_info = [vocabulary = config->vocab_size](
                         const auto& info) { WarnOfOtherVocabulary(info, vocabulary); },
          .patience = std::max(TokenizerWatch::Options().patience, options.hold_time)});
  result->progress_ = WatchProgress("orchestrator", options.hang_timeout);
  result->constraints_ = ConstraintPreparer::Make(
      {.vocabulary_size = static_cast<int32_t>(config->vocab_size),
       .end_token_ids = {config->eos_token_ids.begin(), config->eos_token_ids.end()}},
      result->tokenizer_.get(), *sampler);
  engine.scheduler = scheduler;
  engine.hang_timeout = options.hang_timeout;
  engine.hold_time = options.hold_time;
  engine.max_request_work = options.max_request_work;
  engine.on_holding_changed = [health = result->health_](bool holds) {
    health->SetEngineHolds(holds);
  };
  engine.tokenizer_digest = *tokenizer_digest;
  engine.speculation = {.mode = options.draft, .policy = options.draft_policy};
  result->tracer_ = options.tracer;
  result->request_tracer_ = std::make_unique<RequestTracer>(options.tracer, identity->name);
  result->observers_ = std::make_unique<EngineObservers>(
      std::vector<EngineObserver*>{&result->step_metrics_, result->request_tracer_.get()});
  engine.observer = result->observers_.get();
  engine.kv_events = &result->kv_event_publisher_;
  engine.on_serving_changed = [health = result->health_](bool serves) {
    health->SetEngine(serves);
  };
  result->engine_ = std::make_unique<Engine>(
      std::move(engine),
      ReplicaOptions{.orchestrator = NameOf(options.address),
                     .topology = options.topology,
                     .model_fingerprint = identity->fingerprint,
                     .rank_transport = options.rank_transport,
                     .max_step_tokens = options.max_step_tokens,
                     .yield_time = YieldTime(options),
                     .vocabulary_size = static_cast<int32_t>(config->vocab_size)},
      dialer, *tokenizer, result->progress_.get(), *draft_model);
  result->authenticator_ = *std::move(authenticator);
  result->guard_ = MakeConnectionGuard(kMaxStreams);
  const ListenerLimits& limits = result->guard_->limits();
  const ModelDescription model =
      Describe(*config, *context, options.max_step_tokens, *sampling, identity->name,
               WeightsName(options.weights, options.model, *config));
  result->service_ = std::make_unique<GenerationService>(
      model, result->engine_.get(), result->constraints_.get(), result->tokenizer_.get(),
      result->tokenizer_watch_.get(), options.tokenizer, tenants.get(),
      result->authenticator_.get(), result->request_metrics_.get(), result->request_tracer_.get(),
      result->guard_.get(), ClientErrors(LocationsOf(options)), result->adapters_.get());
  result->sessions_ = std::make_unique<SessionService>(result->service_.get());
  result->inspector_ = MakeInspectorRunner(options);
  result->inspect_ = std::make_unique<InspectService>(
      model,
      InspectService::Parts{.engine = *result->engine_,
                            .tokenizer = *result->tokenizer_,
                            .watch = *result->tokenizer_watch_,
                            .tenants = *tenants,
                            .authenticator = result->authenticator_.get(),
                            .guard = result->guard_.get(),
                            .runner = result->inspector_.get()},
      ClientErrors(LocationsOf(options)));
  result->embeds_ = std::make_unique<EmbedService>(result->service_.get());
  result->kv_events_ = std::make_unique<KvEventService>(
      result->engine_.get(), tenants.get(), result->authenticator_.get(), result->guard_.get());
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(
      {.address = options.address,
       .credentials = *credentials,
       .owners_socket = options.owners_socket,
       .services = {result->service_.get(), result->sessions_.get(), result->embeds_.get(),
                    result->inspect_.get(), result->kv_events_.get()},
       .names = {v1::GenerationService::service_full_name(),
                 v1::GenerationSessionService::service_full_name(),
                 v1::EmbedService::service_full_name()},
       .max_receive_bytes = limits.message_bytes,
       .max_streams_per_connection = kMaxStreams,
       .memory_quota_bytes = 2 * limits.held_bytes,
       .guard = result->guard_.get(),
       .services_admit = true,
       .trusts_admitted = false,
       .progress = result->progress_.get(),
       .on_shutdown = [sessions = result->sessions_.get(), kv_events = result->kv_events_.get()] {
         sessions->Drain();
         kv_events->Drain();
       }});
  if (!server.ok()) return server.status();
  result->server_ = *std::move(server);
  result->health_->SetServer(result->server_.get());
  return result;
}

std::vector<std::shared_ptr<prometheus::Collectable>> OrchestratorServer::metrics() {
  const auto look = [this] { return engine_->status(); };
  std::vector<std::shared_ptr<prometheus::Collectable>> sources = {
      registry_, std::make_shared<EngineMetrics>(look, vllm_metric_names_)};
  if (tracer_ != nullptr) {
    sources.push_back(
        std::make_shared<SpanMetrics>([tracer = tracer_] { return tracer->counts(); }));
  }
  return sources;
}

bool OrchestratorServer::Reload() {
  const absl::Status status = tenants_->Load();
  Log(status.ok() ? LogLevel::kInfo : LogLevel::kWarning, "orchestrator", "tenants-read",
      {{"status", status.ToString()}});
  return true;
}

OrchestratorServer::~OrchestratorServer() {
  if (health_ != nullptr) health_->SetServer(nullptr);
  // No call waits for tokenizer or sampler any longer, which the server would wait for in turn.
  if (tokenizer_watch_ != nullptr) tokenizer_watch_->Stop();
  if (constraints_ != nullptr) constraints_->Stop();
  if (inspector_ != nullptr) inspector_->Stop();
  // Calls end before what they use: the server first, then the engine, which may still tell calls.
  server_.reset();
  engine_.reset();
}

}  // namespace sluice
