#include "orchestrator/orchestrator_server.h"

#include <utility>

#include "services/model/identity.h"
#include "services/model/model_config.h"

namespace sluice {
namespace {

// Largest request accepted: a prompt of the longest text the tokenizer takes.
constexpr int kMaxReceiveBytes = 64 << 20;

ModelDescription Describe(const ModelConfig& config, const std::string& name,
                          const std::string& weights) {
  ModelDescription model;
  model.name = name;
  model.architecture = config.model_type;
  model.vocabulary_size = config.vocab_size;
  model.max_positions = config.max_positions;
  model.num_layers = config.num_layers;
  model.hidden_size = config.hidden_size;
  model.weights = weights;
  model.eos_token_ids.assign(config.eos_token_ids.begin(), config.eos_token_ids.end());
  const GenerationDefaults& defaults = config.generation;
  if (defaults.temperature.has_value())
    model.temperature = static_cast<float>(*defaults.temperature);
  if (defaults.do_sample.has_value() && !*defaults.do_sample) model.temperature = 0;
  if (defaults.top_k.has_value()) model.top_k = *defaults.top_k;
  if (defaults.top_p.has_value()) model.top_p = static_cast<float>(*defaults.top_p);
  model.max_length = defaults.max_length;
  return model;
}

std::string WeightsName(WeightType weights, const std::string& folder, const ModelConfig& config) {
  if (weights != WeightType::kAuto) return Name(weights);
  const absl::StatusOr<WeightSource> source = WeightSource::Open(folder, config);
  if (!source.ok()) return "as stored";
  const absl::StatusOr<WeightFormat> format = source->Resolve(weights);
  return format.ok() ? TypeName(*format) : "as stored";
}

}  // namespace

struct OrchestratorServer::Health {
  absl::Mutex mutex;
  bool serving ABSL_GUARDED_BY(mutex) = false;
  Server* server ABSL_GUARDED_BY(mutex) = nullptr;

  void Set(bool is_serving) {
    absl::MutexLock lock(&mutex);
    serving = is_serving;
    if (server != nullptr) server->SetServing(serving);
  }
  void SetServer(Server* started) {
    absl::MutexLock lock(&mutex);
    server = started;
    if (server != nullptr) server->SetServing(serving);
  }
};

absl::StatusOr<std::unique_ptr<OrchestratorServer>> OrchestratorServer::Start(
    const OrchestratorServerOptions& options, Dialer* dialer) {
  const absl::StatusOr<ModelIdentity> identity = IdentifyModel(options.model, options.overrides);
  if (!identity.ok()) return identity.status();
  const absl::StatusOr<ModelConfig> config = LoadModelConfig(options.model, options.overrides);
  if (!config.ok()) return config.status();
  absl::StatusOr<std::shared_ptr<grpc::Channel>> tokenizer = dialer->Dial(options.tokenizer);
  if (!tokenizer.ok()) return tokenizer.status();
  SchedulerOptions scheduler;
  scheduler.max_tokens_per_step = options.max_step_tokens;
  scheduler.max_sequences_per_step = options.max_step_sequences;
  scheduler.max_queued_sequences = options.max_queued_sequences;
  scheduler.max_positions = config->max_positions;
  if (config->rotary() && config->rope.depends_on_length()) {
    scheduler.longest_like = [rope = config->rope](int32_t length) {
      return rope.LongestLike(length);
    };
  }
  const absl::Status valid = Validate(scheduler);
  if (!valid.ok()) return valid;

  auto result = std::unique_ptr<OrchestratorServer>(new OrchestratorServer());
  result->health_ = std::make_shared<Health>();
  result->tokenizer_ = std::make_unique<TokenizerClient>(*tokenizer);
  result->text_ = std::make_unique<TextStreams>(*tokenizer);
  EngineOptions engine;
  engine.scheduler = scheduler;
  engine.on_serving_changed = [health = result->health_](bool serving) { health->Set(serving); };
  result->engine_ =
      std::make_unique<Engine>(std::move(engine),
                               ReplicaOptions{.topology = options.topology,
                                              .model_fingerprint = identity->fingerprint,
                                              .rank_transport = options.rank_transport},
                               dialer, result->text_.get());
  result->service_ = std::make_unique<GenerationService>(
      Describe(*config, identity->name, WeightsName(options.weights, options.model, *config)),
      result->engine_.get(), result->tokenizer_.get(), options.tokenizer);
  absl::StatusOr<std::unique_ptr<Server>> server =
      Server::Start({.address = options.address,
                     .tls = options.tls,
                     .services = {result->service_.get()},
                     .max_receive_bytes = kMaxReceiveBytes});
  if (!server.ok()) return server.status();
  result->server_ = *std::move(server);
  result->health_->SetServer(result->server_.get());
  return result;
}

OrchestratorServer::~OrchestratorServer() {
  if (health_ != nullptr) health_->SetServer(nullptr);
  // Calls end before what they use: the server first, then the engine, which may still tell calls
  // and text streams.
  server_.reset();
  engine_.reset();
}

}  // namespace sluice
