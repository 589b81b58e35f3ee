#include "orchestrator/engine/beam_run.h"

#include <algorithm>

#include "kernels/check.h"

namespace sluice {
namespace {

BeamOptions OptionsOf(const EngineRequest& request, int32_t max_new_tokens) {
  BeamOptions options = request.beams->search;
  options.max_length = max_new_tokens;
  options.stop_tokens = request.stop_tokens;
  options.judges = !request.stop_strings.empty();
  return options;
}

}  // namespace

BeamRun::BeamRun(const EngineRequest& request, SequenceId first, int32_t max_new_tokens)
    : request_(request),
      options_(OptionsOf(request, max_new_tokens)),
      search_(options_),
      sequences_{first},
      rows_(1) {}

size_t BeamRun::IndexOf(SequenceId sequence) const {
  const auto found = std::find(sequences_.begin(), sequences_.end(), sequence);
  SLUICE_CHECK(found != sequences_.end());
  return found - sequences_.begin();
}

RowRequest BeamRun::RowFor(const Segment& segment, const Row& row,
                           absl::Span<const TokenId> tokens) const {
  const size_t index = IndexOf(segment.sequence);
  RowRequest request;
  request.sequence = segment.sequence;
  request.sequence_index = static_cast<int32_t>(index);
  request.position = segment.first_position + row.offset + 1 - request_.text_begin();
  request.task = &request_.sampling;
  request.num_logprobs = std::max(request_.beams->num_candidates, request_.num_logprobs);
  request.processed_logprobs = request_.processed_logprobs;
  request.perturbed = options_.stochastic;
  request.constraint = request_.constraint.get();
  request.num_prompt_tokens = static_cast<int32_t>(request_.prompt.size()) - request_.text_begin();
  request.stop_tokens = request_.stop_tokens;
  request.tokens = tokens.empty() ? tokens : tokens.subspan(request_.text_begin());
  if (tokens.size() > request_.prompt.size()) request.previous = tokens.back();
  return request;
}

void BeamRun::OnRow(SequenceId sequence, const RowResult& row) {
  std::optional<RowResult>& place = rows_[IndexOf(sequence)];
  if (place.has_value()) return;
  place = row;
  if (!row.error.empty()) {
    dead_end_ = absl::Status(row.error_code, row.error);
    place->top.clear();
  }
  if (++num_rows_ < sequences_.size()) return;
  std::vector<std::vector<BeamCandidate>> candidates(rows_.size());
  for (size_t i = 0; i < rows_.size(); ++i) {
    const std::vector<RankedToken>& top = rows_[i]->top;
    const auto count = std::min<size_t>(top.size(), request_.beams->num_candidates);
    for (size_t rank = 0; rank < count; ++rank) {
      candidates[i].push_back({.token = top[rank].token,
                               .logprob = top[rank].logprob,
                               .perturbed = top[rank].perturbed});
    }
  }
  search_.Rank(candidates);
}

std::vector<BeamRun::Question> BeamRun::Questions() const {
  std::vector<Question> questions;
  for (const int32_t index : search_.ToJudge()) {
    const BeamSearch::Expansion& expansion = search_.expansion(index);
    questions.push_back({.expansion = index,
                         .tokens = GeneratedTo(search_.live()[expansion.parent].node),
                         .token = expansion.token});
  }
  return questions;
}

// The best of a beam's continuations goes on in its sequence.
BeamMoves BeamRun::Advance(const std::function<SequenceId()>& new_id) {
  const int32_t num_nodes = search_.num_nodes();
  search_.Advance();
  KeepEvents(num_nodes);
  BeamMoves moves;
  std::vector<bool> goes_on(sequences_.size());
  std::vector<SequenceId> sequences;
  for (const LiveBeam& beam : search_.live()) {
    const SequenceId parent = sequences_[beam.parent];
    const TokenId token = search_.TokenOf(beam.node);
    if (!goes_on[beam.parent]) {
      goes_on[beam.parent] = true;
      moves.appends.emplace_back(parent, token);
      sequences.push_back(parent);
    } else {
      moves.forks.push_back(ForkFor(beam, new_id()));
      sequences.push_back(moves.forks.back().to);
    }
  }
  for (size_t i = 0; i < sequences_.size(); ++i) {
    if (!goes_on[i]) moves.ended.push_back(sequences_[i]);
  }
  sequences_ = std::move(sequences);
  rows_.assign(sequences_.size(), std::nullopt);
  num_rows_ = 0;
  return moves;
}

ForkSpec BeamRun::ForkFor(const LiveBeam& beam, SequenceId to) const {
  const int32_t num_generated = search_.LengthOf(beam.node) - 1;  // before the beam's last token
  return {.from = sequences_[beam.parent],
          .to = to,
          .num_tokens = static_cast<int32_t>(request_.prompt.size()) + num_generated,
          .continuation = {search_.TokenOf(beam.node)}};
}

// Alternatives are those of the row that chose the token.
void BeamRun::KeepEvents(int32_t first) {
  for (BeamNode node = first; node < search_.num_nodes(); ++node) {
    TokenEvent& event = events_.emplace_back();
    event.token = search_.TokenOf(node);
    event.logprob = search_.LogprobOf(node);
    const std::vector<RankedToken>& top = rows_[search_.BeamBefore(node)]->top;
    const auto count = std::min<ptrdiff_t>(request_.num_logprobs, std::ssize(top));
    event.top.assign(top.begin(), top.begin() + count);
  }
}

std::vector<TokenId> BeamRun::GeneratedTo(BeamNode node) const {
  std::vector<TokenId> tokens;
  for (const BeamNode step : search_.PathTo(node, 0)) tokens.push_back(search_.TokenOf(step));
  return tokens;
}

std::vector<TokenEvent> BeamRun::EventsTo(BeamNode node, int32_t from) const {
  std::vector<TokenEvent> events;
  for (const BeamNode step : search_.PathTo(node, from)) events.push_back(events_[step]);
  return events;
}

std::vector<TokenEvent> BeamRun::Settled(int32_t from) const {
  return EventsTo(search_.Common(), from);
}

std::vector<BeamRun::Result> BeamRun::Results() const {
  std::vector<Result> results;
  for (const FinishedBeam& beam : search_.Best()) {
    results.push_back({EventsTo(beam.node, 0), beam.sum, beam.score, beam.end});
  }
  return results;
}

void BeamRun::AddUsage(const SequenceUsage& usage) {
  usage_.computed_positions += usage.computed_positions;
  usage_.cached_positions += usage.cached_positions;
  usage_.cached_prompt_tokens = std::max(usage_.cached_prompt_tokens, usage.cached_prompt_tokens);
  usage_.recomputed += usage.recomputed;
  usage_.copied_blocks += usage.copied_blocks;
  usage_.evicted_blocks += usage.evicted_blocks;
  usage_.preemptions += usage.preemptions;
}

}  // namespace sluice
