// Several texts of one call: has them tokenized one after the other, has the engine compute them, and
// ends once with all results or with the first failure. What is asked of the engine for a text, and
// when, is up to those that derive from it.
//
// Thread-safe. Outlives its call where that is cancelled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "orchestrator/api/prompt.h"
#include "orchestrator/api/text_call.h"
#include "orchestrator/engine/engine.h"
#include "services/common/steady_time.h"

namespace sluice {

class TextBatch : public std::enable_shared_from_this<TextBatch> {
 public:
  struct Options {
    std::string name;  // of its requests, in logs
    int32_t priority = 0;
    std::string adapter;  // of all texts, as EngineRequest has it
    SteadyTime deadline;
    std::string list = "inputs";  // the texts' name in messages
  };

  virtual ~TextBatch() = default;

  // Has the first texts tokenized. To be called once.
  virtual void Start() = 0;
  // Nothing is reported any more.
  void Cancel();

 protected:
  TextBatch(const TextCallContext& context, Options options, size_t num_texts);

  // ---- For those that derive from it ----

  const ModelDescription& model() const { return model_; }
  const PromptResolver& prompts() const { return prompts_; }
  const Options& options() const { return options_; }
  // For what the tokenizer is asked.
  RequestContext OfCaller() const;
  // Passes what text `index` became to CheckFits and then OnTokens; ends the batch, naming the text,
  // where there is a failure.
  PromptResolver::Callback Resolved(size_t index);
  // A request for text `index`, without its prompt and what is asked for it.
  EngineRequest NewRequest(size_t index) const;
  void Submit(size_t index, EngineRequest request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool is_over() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return over_; }
  // Reports, unless it is over.
  void End(const absl::Status& status);

  // ---- What they do ----

  virtual absl::Status CheckFits(const std::vector<int32_t>& tokens) const = 0;
  virtual void OnTokens(size_t index, ResolvedPrompt prompt) = 0;
  virtual void OnChunk(size_t index, ChunkEvent chunk) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;
  // The engine has finished a text.
  virtual void OnDone(size_t index) = 0;
  // Called once, unless it is cancelled: with OK when End was.
  virtual void Report(const absl::Status& status) = 0;

  absl::Mutex mutex_;

 private:
  // Receives the engine's events of one text.
  class TextSink;

  const ModelDescription& model_;
  const PromptResolver& prompts_;
  Engine& engine_;
  const std::string tenant_;
  const WorkOwner owner_;           // the same, with its weight
  const std::string cache_domain_;  // TenantBook::CacheDomain
  const CallTrace trace_;           // of the call; each text has a span in it
  const Options options_;
  const size_t num_texts_;
  const std::shared_ptr<Cancellation> caller_ = std::make_shared<Cancellation>();
  const std::shared_ptr<WorkMeter> meter_ = engine_.MeterFor(tenant_);
  const SteadyTime arrived_ = SteadyTime::Now();

  // Of each text, while the engine computes it.
  std::vector<std::optional<RequestId>> submitted_ ABSL_GUARDED_BY(mutex_);
  bool over_ ABSL_GUARDED_BY(mutex_) = false;  // reported or cancelled
};

}  // namespace sluice
