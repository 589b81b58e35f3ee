// Several texts, each of which the engine makes numbers of: has them tokenized, has the engine compute
// them, a limited number at a time, and collects what comes. What Embed and Rerank calls share.
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
#include "orchestrator/api/model_description.h"
#include "orchestrator/api/prompt.h"
#include "orchestrator/engine/engine.h"
#include "orchestrator/tracing/request_tracer.h"
#include "services/common/steady_time.h"
#include "sluice/v1/embed.pb.h"

namespace sluice {

class EmbedBatch : public std::enable_shared_from_this<EmbedBatch> {
 public:
  struct Context {
    const ModelDescription& model;
    const PromptResolver& prompts;
    Engine& engine;
    std::string tenant;
    WorkOwner owner;           // the same, with its weight
    std::string cache_domain;  // TenantBook::CacheDomain
    CallTrace trace;           // of the call; each text has a span in it
  };
  struct Text {
    v1::EmbedInput input;
    std::string prompt;  // goes before it
  };
  // Tokens of a generating model that answer a text. Its one number is the probability of `yes` where
  // the next token is one of the two.
  struct YesOrNo {
    int32_t yes = 0;
    int32_t no = 0;
  };
  struct Options {
    std::string request_id;
    int32_t truncate_tokens = 0;  // 0: longer texts are refused
    int32_t priority = 0;
    SteadyTime deadline;
    std::optional<YesOrNo> yes_or_no;  // none: embeddings, of a model that makes them
    std::string list = "inputs";       // the texts' name in messages
  };
  struct Result {
    std::vector<float> numbers;
    int32_t num_tokens = 0;
  };
  // One for each text, in order, or why there are none. Called once, unless it is cancelled.
  using Callback = std::function<void(absl::StatusOr<std::vector<Result>>)>;

  EmbedBatch(Context context, Options options, std::vector<Text> texts, Callback callback);

  void Start() { Continue(); }
  // Nothing is reported any more.
  void Cancel();

 private:
  // Receives the engine's events of one text.
  class TextSink;
  struct Progress {
    Result result;
    std::optional<RequestId> submitted;
    bool done = false;
  };

  // Has the next text tokenized, unless enough are under way.
  void Continue();
  void OnResolved(size_t index, absl::StatusOr<ResolvedPrompt> prompt);
  absl::Status CheckFits(const std::vector<int32_t>& tokens) const;
  void Submit(size_t index, ResolvedPrompt prompt);
  // Fills in what a text is asked for.
  void Ask(EngineRequest& request) const;
  void OnChunk(size_t index, ChunkEvent chunk);
  void OnDone(size_t index);
  void End(absl::StatusOr<std::vector<Result>> result);
  std::vector<Result> TakeResults() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Context context_;
  const Options options_;
  const std::vector<Text> texts_;
  const std::shared_ptr<Cancellation> caller_ = std::make_shared<Cancellation>();
  const std::shared_ptr<WorkMeter> meter_ = context_.engine.MeterFor(context_.tenant);
  const SteadyTime arrived_ = SteadyTime::Now();

  absl::Mutex mutex_;
  std::vector<Progress> progress_ ABSL_GUARDED_BY(mutex_);  // of each text
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;                 // to be tokenized
  size_t num_under_way_ ABSL_GUARDED_BY(mutex_) = 0;
  bool resolving_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t num_tokens_ ABSL_GUARDED_BY(mutex_) = 0;
  Callback callback_ ABSL_GUARDED_BY(mutex_);  // null once it was called or cancelled
};

}  // namespace sluice
