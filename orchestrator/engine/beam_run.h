// A request's beam search as the engine runs it: which sequence of the scheduler every live beam
// is, what rows of them ask of the sampler, and what a step of the search means for the sequences.
// Its state is a function of the candidates that have come: nothing is lost with a replica, and rows
// that are computed again say the same.
//
// Lives on the engine's loop.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "orchestrator/beams/beam_search.h"
#include "orchestrator/engine/request.h"
#include "orchestrator/scheduler/sequence.h"
#include "orchestrator/scheduler/step.h"

namespace sluice {

// What a step of the search does to sequences, to be carried out in this order.
struct BeamMoves {
  std::vector<ForkSpec> forks;
  std::vector<std::pair<SequenceId, TokenId>> appends;
  std::vector<SequenceId> ended;
};

class BeamRun {
 public:
  // The prompt is sequence `first` of the scheduler. Borrows the request, which has `beams`.
  BeamRun(const EngineRequest& request, SequenceId first, int32_t max_new_tokens);

  // Of every live beam, best first.
  const std::vector<SequenceId>& sequences() const { return sequences_; }

  // What is asked of the sampler for a row of a live beam, whose sequence has `tokens` in the
  // scheduler. Borrows from the request and `tokens`.
  RowRequest RowFor(const Segment& segment, const Row& row, absl::Span<const TokenId> tokens) const;

  // What the row of a live beam says may come next. A row that failed because nothing may is a beam
  // that can't go on.
  void OnRow(SequenceId sequence, const RowResult& row);
  // Every live beam has its candidates, and the search has begun to rank them.
  bool ranked() const { return num_rows_ == sequences_.size() && !over(); }

  // A text in which the sampler's side of the search can't see whether it has come to a stop string.
  struct Question {
    int32_t expansion = 0;
    std::vector<TokenId> tokens;  // generated before the expansion's token
    TokenId token = 0;
  };
  // Texts to be judged before Advance(); once all are, there may be more.
  std::vector<Question> Questions() const;
  void Answer(int32_t expansion, bool ends) { search_.Judge(expansion, ends); }
  // By the names under which they were asked.
  const std::vector<SequenceId>& open_questions() const { return open_questions_; }
  void AddOpenQuestion(SequenceId id) { open_questions_.push_back(id); }
  void RemoveOpenQuestion(SequenceId id) { std::erase(open_questions_, id); }

  // Takes the step. `new_id` names sequences. REQUIRES: ranked(), and there are no questions.
  BeamMoves Advance(const std::function<SequenceId()>& new_id);

  bool over() const { return search_.over(); }
  // Why there is nothing to return, where that is so once it is over: FAILED_PRECONDITION.
  const absl::Status& dead_end() const { return dead_end_; }

  // The tokens from the `from`-th on that all that is returned has in common.
  std::vector<TokenEvent> Settled(int32_t from) const;
  // What is returned, best first. REQUIRES: over().
  struct Result {
    std::vector<TokenEvent> tokens;
    double sum = 0;
    double score = 0;
    BeamEnd end = BeamEnd::kLength;
  };
  std::vector<Result> Results() const;

  // Of its sequences that have ended.
  void AddUsage(const SequenceUsage& usage);
  const SequenceUsage& usage() const { return usage_; }

 private:
  size_t IndexOf(SequenceId sequence) const;
  // The tokens that the search has chosen up to `node`.
  std::vector<TokenId> GeneratedTo(BeamNode node) const;
  std::vector<TokenEvent> EventsTo(BeamNode node, int32_t from) const;
  // Keeps what the rows said of the tokens that the search took since there were `first` nodes.
  void KeepEvents(int32_t first);
  // Of a live beam whose parent's sequence goes on with another one.
  ForkSpec ForkFor(const LiveBeam& beam, SequenceId to) const;

  const EngineRequest& request_;
  const BeamOptions options_;
  BeamSearch search_;
  std::vector<SequenceId> sequences_;
  std::vector<std::optional<RowResult>> rows_;
  size_t num_rows_ = 0;
  std::vector<TokenEvent> events_;  // by node
  std::vector<SequenceId> open_questions_;
  absl::Status dead_end_ = absl::FailedPreconditionError("every beam has come to a dead end");
  SequenceUsage usage_;
};

}  // namespace sluice
