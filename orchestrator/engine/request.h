// What a client asks of the engine, and what it hears back. Plain values, free of protos.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "orchestrator/beams/beam_search.h"
#include "orchestrator/engine/ledger.h"
#include "orchestrator/pipeline/rows.h"
#include "orchestrator/scheduler/sequence.h"
#include "services/common/steady_time.h"
#include "services/routing/prompt_keys.h"
#include "services/telemetry/span.h"

namespace sluice {

// A search in place of draws; `num_sequences` are returned.
struct BeamSettings {
  BeamOptions search;          // but for what the request says of length and ends
  int32_t num_candidates = 1;  // of every live beam's next token, at most the vocabulary
};

struct EngineRequest {
  std::string name;      // the client's request_id, for logs
  std::string trace_id;  // of the distributed trace it is a part of, for logs; may be empty
  std::shared_ptr<const Span> span;  // its part of that, as it began; null: no tracing

  std::vector<TokenId> prompt;  // at least one, each in the vocabulary
  // Scores the prompt instead of continuing it; `sampling`, `n` and the stop conditions play no
  // role then.
  bool score = false;
  // Makes an embedding of the prompt, of these of its rows, instead of continuing it; `sampling` and
  // the like as with `score`.
  PooledRows pooled = PooledRows::kNone;
  bool in_one_piece = false;                 // SequenceSpec's
  int32_t second_type_from = kNoSecondType;  // SequenceSpec's
  // Of encoder-decoders: the prompt is the source's tokens, any that fill it up to FilledSource(), and
  // what the text begins with. 0: there is no source.
  int32_t source_positions = 0;
  // Positions of the text at most, its first tokens included; of encoder-decoders.
  int32_t max_written = 0;
  // Of these, the first so many rows are asked for by another request with the same beginning.
  int32_t num_positions_scored_by_sibling = 0;
  // Scores the prompt, with so many alternatives per token, and continues it.
  std::optional<int32_t> prompt_logprobs;

  SamplingOptions sampling;
  std::shared_ptr<const ConstraintSpec> constraint;  // of every sequence's text; null: none
  int32_t num_sequences = 1;
  std::optional<BeamSettings> beams;
  // Not set: as many as context and KV cache leave, at most `default_length` positions in all where
  // that is set.
  std::optional<int32_t> max_new_tokens;
  std::optional<int32_t> default_length;
  std::vector<TokenId> stop_tokens;  // EOS ids included, unless ignored
  std::vector<std::string> stop_strings;
  bool include_stop_string = false;
  std::vector<std::string> kept_special_tokens;  // whose text is not left out
  bool wants_text = true;                        // false where there is no tokenizer
  int32_t num_logprobs = 0;                      // alternatives per token
  bool processed_logprobs = false;
  int32_t priority = 0;
  std::string tenant;  // whom it is served for
  // Processor time that was spent on it before: templates, tokenizing, compiling. The tenant has been
  // billed for it (Engine::MeterFor).
  absl::Duration work;
  // Keys and values are shared with requests of the same one; TenantBook::CacheDomain of the
  // client's.
  std::string cache_salt;
  // Of what the prompt was made of, as the client sent it; null: nobody asks for it.
  std::shared_ptr<const PromptKeys> prompt_keys;
  std::string adapter;           // as SequenceSpec has it
  bool use_prefix_cache = true;  // false: computes everything and leaves nothing to others
  int32_t max_drafts = 0;        // the longest draft of a step; 0: none
  // What is expected to be generated, from the first new token on; null: nothing is.
  std::shared_ptr<const std::vector<TokenId>> expected_tokens;
  std::optional<SteadyTime> arrived;
  std::optional<SteadyTime> deadline;
  // Per sequence, the tokens that an earlier call delivered; empty or `num_sequences` entries.
  std::vector<std::vector<TokenId>> resumed;

  // Where the text begins in `prompt`.
  int32_t text_begin() const { return FilledSource(source_positions); }
  // Tokens of source and text, those that fill the source left out.
  int32_t num_prompt_tokens() const {
    return static_cast<int32_t>(prompt.size()) - (text_begin() - source_positions);
  }
};

// Its ledger before anything has become of it.
RequestLedger LedgerOf(const EngineRequest& request);

// A token that was chosen or scored.
struct TokenEvent {
  TokenId token = 0;
  float logprob = 0;
  std::vector<RankedToken> top;  // falling
};

// Most events have one: they are made without allocating.
using TokenEvents = absl::InlinedVector<TokenEvent, 1>;

struct ChunkEvent {
  int32_t sequence_index = 0;
  std::string text;
  TokenEvents tokens;
  std::vector<TokenEvent> prompt_tokens;  // of sequence 0: the prompt's next ones, scored
  std::vector<float> embedding;           // of sequence 0's prompt
};

enum class EndReason { kStopToken, kStopString, kLength, kScored, kEmbedded };

struct SequenceEnd {
  EndReason reason = EndReason::kLength;
  std::string stop_string;
  std::optional<TokenId> stop_token;
  int32_t num_tokens = 0;  // delivered, resumed ones included
  // Of beams, in double: the sum of its log-probabilities, and what it is ranked by.
  std::optional<double> sum_logprob;
  std::optional<double> score;
};

struct RequestEnd {
  std::vector<SequenceEnd> sequences;
  int32_t num_prompt_tokens = 0;
  int32_t num_shared_prompt_tokens = 0;
  int32_t num_cached_prompt_tokens = 0;
  int32_t num_discarded_tokens = 0;  // generated for sequences that are not returned
  int64_t num_drafted_tokens = 0;
  int64_t num_accepted_drafts = 0;
};

// Where a request's events go. Called from one thread; must not block. OnFinished or OnFailed comes
// last, once.
class RequestSink {
 public:
  virtual ~RequestSink() = default;

  virtual void OnChunk(ChunkEvent chunk) = 0;
  virtual void OnFinished(RequestEnd end) = 0;
  virtual void OnFailed(absl::Status status) = 0;
};

}  // namespace sluice
