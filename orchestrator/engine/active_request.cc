#include "orchestrator/engine/active_request.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "kernels/sampling_options/sampling_options.h"

namespace sluice {
namespace {

const char* NameOf(EndReason reason) {
  switch (reason) {
    case EndReason::kStopToken:
      return "stop_token";
    case EndReason::kStopString:
      return "stop_string";
    case EndReason::kLength:
      return "length";
    case EndReason::kScored:
      return "scored";
    case EndReason::kEmbedded:
      return "embedded";
  }
  return "?";
}

// Tokens of the prompt that the text end sees, enough for what happens at the seam.
constexpr size_t kContextTokens = 8;

}  // namespace

ActiveRequest::ActiveRequest(RequestId id, EngineRequest request, std::vector<SequenceId> ids,
                             std::shared_ptr<RequestSink> sink, TextStreams* text)
    : request_(std::move(request)),
      stop_tokens_(request_.stop_tokens.begin(), request_.stop_tokens.end()),
      id_(id),
      ids_(std::move(ids)),
      choosing_row_(ChoosingRow()),
      reads_tokens_(request_.beams.has_value() || request_.constraint != nullptr ||
                    HasSequenceParameters(request_.sampling)),
      sink_(std::move(sink)),
      text_(text),
      outputs_(ids_.size()) {
  record_.times.arrived = request_.arrived;
  record_.work = request_.work;
  for (size_t index = 0; index < ids_.size(); ++index) {
    std::vector<TokenId> resumed;
    if (!request_.resumed.empty()) resumed = request_.resumed[index];
    Output& output = outputs_[index];
    output.num_delivered = static_cast<int32_t>(resumed.size());
    if (!resumed.empty()) output.last_token = resumed.back();
    if (text_ != nullptr) text_->Open(ids_[index], TextOptionsFor(std::move(resumed)));
  }
}

TextOptions ActiveRequest::TextOptionsFor(std::vector<TokenId> generated) const {
  // A token that stops has no text, and completes no stop string.
  if (!generated.empty() && stop_tokens_.contains(generated.back())) generated.pop_back();
  TextOptions options;
  options.stop_strings = request_.stop_strings;
  options.include_stop_string = request_.include_stop_string;
  options.min_tokens = request_.sampling.min_tokens;
  options.kept_special_tokens = request_.kept_special_tokens;
  const size_t context =
      std::min(kContextTokens, request_.prompt.size() - static_cast<size_t>(request_.text_begin()));
  options.context_tokens.assign(request_.prompt.end() - static_cast<ptrdiff_t>(context),
                                request_.prompt.end());
  options.resumed_tokens = std::move(generated);
  return options;
}

ActiveRequest::~ActiveRequest() {
  if (text_ == nullptr) return;
  for (SequenceId id : ids_) text_->Drop(id);
}

// Every position of a source sees all others, so what is kept of one is of no use to another that only
// begins alike.
std::string ActiveRequest::SourceSalt() const {
  const auto* const tokens = reinterpret_cast<const char*>(request_.prompt.data());
  return absl::StrCat("\nsource ", request_.source_positions, "\n",
                      absl::string_view(tokens, request_.source_positions * sizeof(TokenId)));
}

SequenceSpec ActiveRequest::SpecOf(int index, int32_t max_new_tokens) const {
  SequenceSpec spec;
  spec.id = ids_[index];
  spec.request = id_;
  spec.prompt = request_.prompt;
  if (!request_.resumed.empty()) spec.resumed_tokens = request_.resumed[index];
  spec.max_new_tokens = max_new_tokens;
  spec.stop_tokens = request_.stop_tokens;
  spec.priority = request_.priority;
  spec.tenant = request_.tenant;
  spec.cache_salt = request_.cache_salt;
  spec.adapter = request_.adapter;
  spec.use_prefix_cache = request_.use_prefix_cache;
  const bool scores_prompt = request_.prompt_logprobs.has_value() && spec.resumed_tokens.empty();
  spec.score_prompt = request_.score || (scores_prompt && index == 0);
  spec.num_positions_scored_by_sibling =
      request_.text_begin() + request_.num_positions_scored_by_sibling;
  spec.pooled = request_.pooled;
  spec.in_one_piece = request_.in_one_piece;
  spec.second_type_from = request_.second_type_from;
  spec.source_positions = request_.source_positions;
  if (request_.source_positions > 0) spec.cache_salt += SourceSalt();
  const bool generates = !request_.score && request_.pooled == PooledRows::kNone;
  spec.max_drafts = generates ? request_.max_drafts : 0;
  spec.expected_tokens = request_.expected_tokens;
  if (index > 0) spec.prompt_of = ids_.front();
  if (request_.beams.has_value()) {
    // The search knows what ends a beam, and begins again where it is resumed.
    spec.externally_sampled = true;
    spec.stop_tokens.clear();
    spec.resumed_tokens.clear();
    spec.max_drafts = 0;
  }
  return spec;
}

void ActiveRequest::StartBeams(SequenceId first, int32_t max_new_tokens) {
  beams_ = std::make_unique<BeamRun>(request_, first, max_new_tokens);
}

RowRequest ActiveRequest::RowFor(int index, const Segment& segment, const Row& row,
                                 absl::Span<const TokenId> tokens) const {
  if (row.kind == RowKind::kScore) return ScoringRow(index, segment, row);
  if (row.kind == RowKind::kPool) {
    RowRequest request;
    request.sequence = segment.sequence;
    request.position = segment.first_position + row.offset + 1 - request_.text_begin();
    request.task = PoolTarget{.is_last = &row == &segment.rows.back()};
    return request;
  }
  if (beams_ != nullptr) return beams_->RowFor(segment, row, tokens);
  RowRequest request = choosing_row_;
  request.sequence = segment.sequence;
  request.sequence_index = index;
  request.position = segment.first_position + row.offset + 1 - request_.text_begin();
  const auto num_tokens = static_cast<int32_t>(segment.tokens.size());
  if (row.offset >= num_tokens - segment.num_drafts) request.draft = segment.tokens[row.offset];
  request.tokens = tokens.empty() ? tokens : tokens.subspan(request_.text_begin());
  return request;
}

RowRequest ActiveRequest::ChoosingRow() const {
  RowRequest request;
  request.task = &request_.sampling;
  request.num_logprobs = request_.num_logprobs;
  request.processed_logprobs = request_.processed_logprobs;
  request.num_prompt_tokens = static_cast<int32_t>(request_.prompt.size()) - request_.text_begin();
  request.stop_tokens = request_.stop_tokens;
  request.constraint = request_.constraint.get();
  if (request_.constraint != nullptr) request.max_forced = request_.max_drafts;
  return request;
}

RowRequest ActiveRequest::ScoringRow(int index, const Segment& segment, const Row& row) const {
  RowRequest request;
  request.sequence = segment.sequence;
  request.sequence_index = index;
  request.position = segment.first_position + row.offset + 1 - request_.text_begin();
  request.task = ScoreTarget{row.target};
  request.num_logprobs = request_.prompt_logprobs.value_or(request_.num_logprobs);
  return request;
}

RowRequest ActiveRequest::DraftRowFor(int index) const {
  RowRequest request;
  request.sequence_index = index;
  request.task = &request_.sampling;
  request.constraint = request_.constraint.get();
  request.num_prompt_tokens = static_cast<int32_t>(request_.prompt.size()) - request_.text_begin();
  request.stop_tokens = request_.stop_tokens;
  return request;
}

void ActiveRequest::OnPromptToken(TokenEvent token) { prompt_tokens_.push_back(std::move(token)); }

void ActiveRequest::OnEmbedding(std::vector<float> embedding) {
  if (over_) return;
  ChunkEvent chunk;
  chunk.embedding = std::move(embedding);
  sink_->OnChunk(std::move(chunk));
}

void ActiveRequest::FlushPrompt() {
  if (over_ || prompt_tokens_.empty()) return;
  ChunkEvent chunk;
  chunk.prompt_tokens = std::exchange(prompt_tokens_, {});
  sink_->OnChunk(std::move(chunk));
}

// ---- Beams ----

void ActiveRequest::OnBeamsMoved() {
  if (over_) return;
  if (beams_->over()) return OnBeamsOver();
  for (size_t i = 0; i < outputs_.size(); ++i) {
    for (TokenEvent& event : beams_->Settled(outputs_[i].num_known())) {
      OnToken(static_cast<int>(i), std::move(event));
    }
  }
}

void ActiveRequest::OnBeamsOver() {
  std::vector<BeamRun::Result> results = beams_->Results();
  const absl::Status status = results.empty() ? beams_->dead_end() : CheckResumed(results);
  if (!status.ok()) return Fail(status);
  for (size_t i = results.size(); i < outputs_.size() && text_ != nullptr; ++i) {
    text_->Drop(ids_[i]);
  }
  outputs_.resize(results.size());
  for (size_t i = 0; i < results.size(); ++i) OnBeamOver(static_cast<int>(i), results[i]);
}

void ActiveRequest::OnBeamOver(int index, BeamRun::Result& result) {
  Output& output = outputs_[index];
  output.sum_logprob = result.sum;
  output.score = result.score;
  FinishedSequence finished;
  finished.reason = result.end == BeamEnd::kLength ? FinishReason::kLength : FinishReason::kStop;
  if (index == 0) finished.usage = beams_->usage();
  finished.usage.prompt_tokens = request_.num_prompt_tokens();
  finished.usage.generated_tokens = static_cast<int32_t>(result.tokens.size());
  for (size_t i = output.num_known(); i < result.tokens.size(); ++i) {
    OnToken(index, std::move(result.tokens[i]));
  }
  if (result.end == BeamEnd::kStopString) {
    SetUsage(index, finished.usage);  // its text end finds the string, too
  } else {
    OnSequenceFinished(index, finished);
  }
}

// The search gives what it gave before, so that these are the beginnings of its results.
absl::Status ActiveRequest::CheckResumed(const std::vector<BeamRun::Result>& results) const {
  for (size_t i = 0; i < request_.resumed.size(); ++i) {
    const std::vector<TokenId>& resumed = request_.resumed[i];
    const bool fits =
        i < results.size() && resumed.size() <= results[i].tokens.size() &&
        std::equal(resumed.begin(), resumed.end(), results[i].tokens.begin(),
                   [](TokenId token, const TokenEvent& event) { return token == event.token; });
    if (fits || resumed.empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("resume[", i, "].token_ids are not what this search returns"));
  }
  return absl::OkStatus();
}

void ActiveRequest::OnToken(int index, TokenEvent token) {
  Output& output = outputs_[index];
  if (over_ || output.end.has_value()) return;  // a stop string was found meanwhile
  const TokenId id = token.token;
  output.last_token = id;
  if (text_ == nullptr) {
    ++output.num_delivered;
    ChunkEvent chunk;
    chunk.sequence_index = index;
    chunk.tokens.push_back(std::move(token));
    return sink_->OnChunk(std::move(chunk));
  }
  output.pending.push_back(std::move(token));
  if (stop_tokens_.empty() || !stop_tokens_.contains(id)) text_->Append(ids_[index], {id});
}

void ActiveRequest::OnSequenceFinished(int index, const FinishedSequence& finished) {
  Output& output = outputs_[index];
  if (over_ || output.end.has_value()) return;
  SetUsage(index, finished.usage);
  SequenceEnd end;
  end.reason = request_.pooled != PooledRows::kNone     ? EndReason::kEmbedded
               : request_.score                         ? EndReason::kScored
               : finished.reason == FinishReason::kStop ? EndReason::kStopToken
                                                        : EndReason::kLength;
  if (end.reason == EndReason::kStopToken) end.stop_token = output.last_token;
  if (text_ == nullptr) {
    End(index, std::move(end));
  } else {
    output.scheduler_end = std::move(end);
    text_->Finish(ids_[index]);
  }
}

void ActiveRequest::SetUsage(int index, const SequenceUsage& usage) {
  outputs_[index].usage = usage;
}

RequestLedger ActiveRequest::Ledger() const {
  RequestLedger ledger = LedgerOf(request_);
  ledger.phase = over_ ? RequestPhase::kEnded : RequestPhase::kWaiting;
  record_.CopyTo(ledger);
  for (const Output& output : outputs_) {
    const bool ended = output.end.has_value() || output.scheduler_end.has_value();
    ledger.sequences.push_back(
        {.phase = ended ? RequestPhase::kEnded : RequestPhase::kWaiting, .usage = output.usage});
    if (!output.end.has_value()) continue;
    absl::StrAppend(&ledger.detail, ledger.detail.empty() ? "" : ",", NameOf(output.end->reason));
  }
  if (!over_) {
    ledger.detail.clear();
  } else if (failure_.ok()) {
    ledger.outcome = "ok";
  } else {
    ledger.outcome = absl::AsciiStrToLower(absl::StatusCodeToString(failure_.code()));
    ledger.detail = std::string(failure_.message());
  }
  return ledger;
}

void ActiveRequest::OnPiece(int index, absl::StatusOr<TextPiece> piece) {
  if (over_ || index >= std::ssize(outputs_) || outputs_[index].end.has_value()) return;
  Output& output = outputs_[index];
  if (!piece.ok()) {
    Fail(piece.status());
    return;
  }
  // Of no fewer tokens than the piece before.
  const int64_t num_tokens = std::max<int64_t>(piece->num_tokens, output.num_text_tokens);
  const auto num_consumed = static_cast<size_t>(num_tokens - output.num_text_tokens);
  output.num_text_tokens = num_tokens;
  const bool ends = piece->finished && output.scheduler_end.has_value();
  // With the last piece comes what has no text: the token that stopped the sequence.
  Deliver(index, std::move(piece->text),
          ends && !piece->stop_string_index.has_value() ? output.pending.size() : num_consumed);
  if (piece->stop_string_index.has_value()) {
    SequenceEnd end;
    end.reason = EndReason::kStopString;
    end.stop_string = request_.stop_strings[*piece->stop_string_index];
    End(index, std::move(end));
  } else if (ends) {
    End(index, *std::move(output.scheduler_end));
  }
}

void ActiveRequest::Deliver(int index, std::string text, size_t count) {
  Output& output = outputs_[index];
  ChunkEvent chunk;
  chunk.sequence_index = index;
  chunk.text = std::move(text);
  for (size_t i = 0; i < count && !output.pending.empty(); ++i) {
    chunk.tokens.push_back(std::move(output.pending.front()));
    output.pending.pop_front();
    ++output.num_delivered;
  }
  if (!chunk.text.empty() || !chunk.tokens.empty()) sink_->OnChunk(std::move(chunk));
}

void ActiveRequest::End(int index, SequenceEnd end) {
  end.num_tokens = outputs_[index].num_delivered;
  end.sum_logprob = outputs_[index].sum_logprob;
  end.score = outputs_[index].score;
  outputs_[index].end = std::move(end);
  RequestEnd result;
  for (const Output& output : outputs_) {
    if (!output.end.has_value()) return;
    result.sequences.push_back(*output.end);
    result.num_shared_prompt_tokens += static_cast<int32_t>(output.usage.shared_positions);
    result.num_cached_prompt_tokens =
        std::max(result.num_cached_prompt_tokens, output.usage.cached_prompt_tokens);
    result.num_drafted_tokens += output.usage.drafted_tokens;
    result.num_accepted_drafts += output.usage.accepted_drafts;
  }
  result.num_prompt_tokens = request_.num_prompt_tokens();
  over_ = true;
  sink_->OnFinished(std::move(result));
}

void ActiveRequest::Fail(const absl::Status& status) {
  if (over_) return;
  over_ = true;
  failure_ = status;
  sink_->OnFailed(status);
}

int32_t FewestTokens(const EngineRequest& request, int32_t max_new_tokens) {
  const bool can_stop = !request.stop_tokens.empty() || !request.stop_strings.empty() ||
                        request.constraint != nullptr || !request.max_new_tokens.has_value();
  int32_t fewest = can_stop ? std::min(std::max(request.sampling.min_tokens, 1), max_new_tokens)
                            : max_new_tokens;
  if (!request.resumed.empty()) fewest -= static_cast<int32_t>(request.resumed[0].size());
  return std::max(fewest, 0);
}

}  // namespace sluice
