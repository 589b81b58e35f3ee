// A request that the engine is working on: which of its tokens have come, which the client has
// seen, how its sequences end. Lives on the engine's loop.
//
// A token is delivered together with the text it made certain: it waits here while the tokenizer
// looks at it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "orchestrator/engine/beam_run.h"
#include "orchestrator/engine/ledger.h"
#include "orchestrator/engine/request.h"
#include "orchestrator/engine/request_record.h"
#include "orchestrator/scheduler/scheduler.h"
#include "orchestrator/text/text_streams.h"

namespace sluice {

class ActiveRequest {
 public:
  // `ids` names the sequences in the scheduler and in `text`, which is borrowed and null where the
  // request wants none.
  ActiveRequest(RequestId id, EngineRequest request, std::vector<SequenceId> ids,
                std::shared_ptr<RequestSink> sink, TextStreams* text);
  // Drops what text is still being made.
  ~ActiveRequest();

  RequestId id() const { return id_; }
  const EngineRequest& request() const { return request_; }
  // Of what is returned: its sequences in the scheduler, unless that is searched for by beams, and
  // its texts.
  const std::vector<SequenceId>& ids() const { return ids_; }

  // Its search, once it has begun; null where it has none.
  BeamRun* beams() { return beams_.get(); }
  const BeamRun* beams() const { return beams_.get(); }
  void StartBeams(SequenceId first, int32_t max_new_tokens);

  // How text is made of what it generates, once these tokens have been.
  TextOptions TextOptionsFor(std::vector<TokenId> generated) const;
  // What the scheduler is to know of sequence `index`.
  SequenceSpec SpecOf(int index, int32_t max_new_tokens) const;
  std::string SourceSalt() const;
  // Rows of its sequences need their tokens: for options that depend on them, or for beams.
  bool reads_tokens() const { return reads_tokens_; }
  // What is asked of the sampler for a row of sequence `index`, which has `tokens` in the
  // scheduler; they may be empty unless reads_tokens(). Borrows from this request and from `tokens`.
  RowRequest RowFor(int index, const Segment& segment, const Row& row,
                    absl::Span<const TokenId> tokens) const;
  // As RequestTable's.
  RowRequest DraftRowFor(int index) const;

  // A token of the prompt was scored, which the request asks for beside what follows it.
  void OnPromptToken(TokenEvent token);
  // Its embedding has come.
  void OnEmbedding(std::vector<float> embedding);
  // Tells what has been scored.
  void FlushPrompt();

  // The search has come further: hands on what is settled, and all of it once it is over.
  void OnBeamsMoved();

  // A token of sequence `index` was accepted.
  void OnToken(int index, TokenEvent token);
  // The scheduler ended sequence `index` for reason kStop or kLength.
  void OnSequenceFinished(int index, const FinishedSequence& finished);
  // Sequence `index` has left the scheduler, having used this.
  void SetUsage(int index, const SequenceUsage& usage);
  // Text came.
  void OnPiece(int index, absl::StatusOr<TextPiece> piece);

  // Ends the request with a status.
  void Fail(const absl::Status& status);

  // Everything has been told to the sink.
  bool over() const { return over_; }

  // Its ledger, but for sequences that are in the scheduler, of which that knows more.
  RequestLedger Ledger() const;
  RequestRecord& record() { return record_; }

 private:
  struct Output {
    // Generated tokens that this request knows of, resumed ones included.
    int32_t num_known() const { return num_delivered + static_cast<int32_t>(pending.size()); }

    int64_t num_text_tokens = 0;  // delivered, as the text end counts
    int32_t num_delivered = 0;    // resumed ones included
    TokenId last_token = 0;       // generated; meaningful where num_known() > 0
    std::optional<SequenceEnd> end;
    std::optional<SequenceEnd> scheduler_end;
    std::deque<TokenEvent> pending;            // accepted, not yet delivered
    SequenceUsage usage;                       // once it has left the scheduler
    std::optional<double> sum_logprob, score;  // of beams
  };

  void OnBeamsOver();
  void OnBeamOver(int index, BeamRun::Result& result);
  absl::Status CheckResumed(const std::vector<BeamRun::Result>& results) const;
  // Sends what is pending, up to `count` tokens, with `text`.
  void Deliver(int index, std::string text, size_t count);
  void End(int index, SequenceEnd end);

  // What is the same in all rows that choose a token.
  RowRequest ChoosingRow() const;
  RowRequest ScoringRow(int index, const Segment& segment, const Row& row) const;

  const EngineRequest request_;
  const absl::flat_hash_set<TokenId> stop_tokens_;
  // Every step looks at what follows: it lies together.
  const RequestId id_;
  const std::vector<SequenceId> ids_;
  const RowRequest choosing_row_;  // borrows from request_
  const bool reads_tokens_;
  const std::shared_ptr<RequestSink> sink_;
  TextStreams* const text_;
  std::vector<Output> outputs_;
  std::unique_ptr<BeamRun> beams_;
  std::vector<TokenEvent> prompt_tokens_;  // scored, not yet delivered
  RequestRecord record_;
  bool over_ = false;
  absl::Status failure_;  // OK where it did not fail
};

// So many tokens each sequence of a request generates at least, where it may have `max_new_tokens`.
int32_t FewestTokens(const EngineRequest& request, int32_t max_new_tokens);

}  // namespace sluice
