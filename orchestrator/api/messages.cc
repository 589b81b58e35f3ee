#include "orchestrator/api/messages.h"

#include <utility>

namespace sluice {
namespace {

v1::FinishReason ToProto(EndReason reason) {
  switch (reason) {
    case EndReason::kStopToken:
      return v1::FINISH_REASON_STOP_TOKEN;
    case EndReason::kStopString:
      return v1::FINISH_REASON_STOP_STRING;
    case EndReason::kLength:
      return v1::FINISH_REASON_LENGTH;
    case EndReason::kScored:
    case EndReason::kEmbedded:
      break;  // Score has no Finished
  }
  return v1::FINISH_REASON_UNSPECIFIED;
}

// What a sequence that reached `num_positions`, its prompt included, had no room beyond.
v1::LengthLimit LimitAt(int64_t num_positions, const v1::GenerateRequest& asked,
                        const ModelDescription& model) {
  if (asked.has_max_tokens()) return v1::LENGTH_LIMIT_MAX_TOKENS;
  if (num_positions >= model.max_positions) return v1::LENGTH_LIMIT_CONTEXT;
  if (model.max_length.has_value() && num_positions >= *model.max_length) {
    return v1::LENGTH_LIMIT_MODEL_DEFAULT;
  }
  return v1::LENGTH_LIMIT_KV_CACHE;
}

}  // namespace

v1::PositionLogprobs ToProto(const TokenEvent& token) {
  v1::PositionLogprobs logprobs;
  logprobs.set_logprob(token.logprob);
  for (const RankedToken& ranked : token.top) {
    v1::TokenLogprob& top = *logprobs.add_top();
    top.set_token_id(ranked.token);
    top.set_logprob(ranked.logprob);
  }
  return logprobs;
}

v1::Chunk ToProto(ChunkEvent chunk, bool with_logprobs) {
  v1::Chunk result;
  result.set_sequence(chunk.sequence_index);
  result.set_text(std::move(chunk.text));
  for (const TokenEvent& token : chunk.tokens) {
    result.add_token_ids(token.token);
    if (with_logprobs) *result.add_logprobs() = ToProto(token);
  }
  for (const TokenEvent& token : chunk.prompt_tokens) {
    result.add_prompt_token_ids(token.token);
    *result.add_prompt_logprobs() = ToProto(token);
  }
  return result;
}

v1::Finished ToProto(const RequestEnd& end, const v1::GenerateRequest& asked,
                     const ModelDescription& model) {
  v1::Finished finished;
  int32_t num_generated = 0;
  for (const SequenceEnd& sequence : end.sequences) {
    v1::FinishedSequence& message = *finished.add_sequences();
    message.set_sequence(finished.sequences_size() - 1);
    message.set_reason(ToProto(sequence.reason));
    message.set_stop_string(sequence.stop_string);
    if (sequence.stop_token.has_value()) message.set_stop_token_id(*sequence.stop_token);
    message.set_num_tokens(sequence.num_tokens);
    if (sequence.reason == EndReason::kLength) {
      message.set_length_limit(LimitAt(end.num_prompt_tokens + sequence.num_tokens, asked, model));
    }
    if (sequence.sum_logprob.has_value()) message.set_sum_logprob(*sequence.sum_logprob);
    if (sequence.score.has_value()) message.set_score(*sequence.score);
    num_generated += sequence.num_tokens;
  }
  v1::Usage& usage = *finished.mutable_usage();
  usage.set_num_prompt_tokens(end.num_prompt_tokens);
  usage.set_num_generated_tokens(num_generated + end.num_discarded_tokens);
  usage.set_num_shared_prompt_tokens(end.num_shared_prompt_tokens);
  usage.set_num_cached_prompt_tokens(end.num_cached_prompt_tokens);
  usage.set_num_drafted_tokens(end.num_drafted_tokens);
  usage.set_num_accepted_draft_tokens(end.num_accepted_drafts);
  return finished;
}

}  // namespace sluice
