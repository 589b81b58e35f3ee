// The texts of one Score call: has them tokenized, has the engine score them, and collects what comes.
// A text that begins as an earlier one does waits for that one, and then computes only what it adds.
//
// Thread-safe. Outlives its call where that is cancelled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "orchestrator/api/model_description.h"
#include "orchestrator/api/prompt.h"
#include "orchestrator/api/shared_prefixes.h"
#include "orchestrator/engine/engine.h"
#include "orchestrator/tracing/request_tracer.h"
#include "services/common/steady_time.h"
#include "sluice/v1/generation.pb.h"

namespace sluice {

class ScoreBatch : public std::enable_shared_from_this<ScoreBatch> {
 public:
  struct Context {
    const ModelDescription& model;
    const PromptResolver& prompts;
    Engine& engine;
    std::string tenant;
    WorkOwner owner;           // the same, with its weight
    std::string cache_domain;  // TenantBook::CacheDomain
    std::string adapter;       // as EngineRequest has it
    CallTrace trace;           // of the call; each text has a span in it
  };
  struct Options {
    int32_t top = 0;
    int32_t priority = 0;
    SteadyTime deadline;
  };
  // One for each text, in order, or why there are none. Called once, unless it is cancelled.
  using Callback = std::function<void(absl::StatusOr<std::vector<v1::ScoredText>>)>;

  ScoreBatch(Context context, const Options& options, std::vector<v1::ScoreInput> inputs,
             Callback callback);

  void Start() { Resolve(0); }
  // Nothing is told any more.
  void Cancel();

 private:
  // Gets the engine's events of one text.
  class TextSink;
  struct Text {
    std::vector<int32_t> tokens;
    std::vector<TokenEvent> scores;  // of tokens from the second one on
    SharedPrefix prefix;
    bool begun = false;
    bool done = false;
    std::optional<RequestId> submitted;
  };

  // Texts go to the tokenizer one after the other.
  void Resolve(size_t index);
  void OnResolved(size_t index, absl::StatusOr<ResolvedPrompt> prompt);
  // Has the engine score what waits for nothing.
  void SubmitReady() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Submit(size_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnScores(size_t index, TokenEvents scores);
  // A text is scored; or, with none, all have their tokens.
  void OnDone(std::optional<size_t> index);
  void End(absl::StatusOr<std::vector<v1::ScoredText>> result);
  std::vector<v1::ScoredText> Result() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Context context_;
  const Options options_;
  const std::vector<v1::ScoreInput> inputs_;
  const std::shared_ptr<Cancellation> caller_ = std::make_shared<Cancellation>();
  const std::shared_ptr<WorkMeter> meter_ = context_.engine.MeterFor(context_.tenant);
  const SteadyTime arrived_ = SteadyTime::Now();

  absl::Mutex mutex_;
  std::vector<Text> texts_ ABSL_GUARDED_BY(mutex_);
  Callback callback_ ABSL_GUARDED_BY(mutex_);  // null once it was called or cancelled
};

}  // namespace sluice
