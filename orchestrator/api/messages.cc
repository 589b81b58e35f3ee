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
      break;  // Score has no Finished
  }
  return v1::FINISH_REASON_UNSPECIFIED;
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
  return result;
}

v1::Finished ToProto(const RequestEnd& end) {
  v1::Finished finished;
  int32_t num_generated = 0;
  for (const SequenceEnd& sequence : end.sequences) {
    v1::FinishedSequence& message = *finished.add_sequences();
    message.set_sequence(finished.sequences_size() - 1);
    message.set_reason(ToProto(sequence.reason));
    message.set_stop_string(sequence.stop_string);
    if (sequence.stop_token.has_value()) message.set_stop_token_id(*sequence.stop_token);
    message.set_num_tokens(sequence.num_tokens);
    num_generated += sequence.num_tokens;
  }
  v1::Usage& usage = *finished.mutable_usage();
  usage.set_num_prompt_tokens(end.num_prompt_tokens);
  usage.set_num_generated_tokens(num_generated);
  usage.set_num_shared_prompt_tokens(end.num_shared_prompt_tokens);
  usage.set_num_cached_prompt_tokens(end.num_cached_prompt_tokens);
  return finished;
}

}  // namespace sluice
