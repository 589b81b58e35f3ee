#include "orchestrator/api/request_check.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/sampling_options/sampling_check.h"
#include "orchestrator/api/beam_check.h"
#include "orchestrator/api/constraint_check.h"
#include "orchestrator/api/refusal.h"
#include "services/messages/num_returned.h"
#include "services/messages/sampling_message.h"

namespace sluice {
namespace {

constexpr int kMaxRequestIdBytes = 128;
constexpr int kMaxCacheSaltBytes = 128;
constexpr int kMaxSequences = 16;
constexpr int kMaxLogprobs = 20;
constexpr int kMaxDrafts = 32;
constexpr int kMaxStopStrings = 64;
constexpr int kMaxStopStringBytes = 1024;
constexpr int kMaxStopTokenIds = 1024;
constexpr int kMaxScoreInputs = 128;
constexpr int kMaxBadWords = 512;
constexpr int kMaxBadWordBytes = 256;
constexpr int kMaxDryBreakers = 128;
constexpr int kMaxDryBreakerBytes = 64;
constexpr int kMaxKeptSpecialTokens = 64;
constexpr int kMaxKeptSpecialTokenBytes = 128;

absl::Status CheckStop(const v1::StopOptions& stop, const ModelDescription& model) {
  if (stop.stop_strings_size() > kMaxStopStrings) {
    return Refuse("the number of stop.stop_strings", stop.stop_strings_size(),
                  absl::StrCat("up to ", kMaxStopStrings));
  }
  for (const std::string& text : stop.stop_strings()) {
    if (text.empty() || text.size() > kMaxStopStringBytes) {
      return Refuse("the length of a string in stop.stop_strings", text.size(),
                    absl::StrCat("1 to ", kMaxStopStringBytes, " bytes"));
    }
  }
  if (stop.stop_token_ids_size() > kMaxStopTokenIds) {
    return Refuse("the number of stop.stop_token_ids", stop.stop_token_ids_size(),
                  absl::StrCat("up to ", kMaxStopTokenIds));
  }
  return CheckTokenIds(stop.stop_token_ids(), model, "stop.stop_token_ids");
}

// No more than a sequence can have.
absl::Status CheckTokenList(absl::Span<const int32_t> token_ids, const ModelDescription& model,
                            const char* field) {
  if (std::ssize(token_ids) > model.max_positions) {
    return Refuse(absl::StrCat("the number of ", field), token_ids.size(),
                  absl::StrCat("up to ", model.max_positions, ", the model's context"));
  }
  return CheckTokenIds(token_ids, model, field);
}

absl::Status CheckResume(const v1::GenerateRequest& request, const ModelDescription& model) {
  if (request.resume().empty()) return absl::OkStatus();
  const int n = NumReturned(request);
  if (request.resume_size() > n) {
    return Refuse(
        "the number of entries in resume", request.resume_size(),
        absl::StrCat("up to ", request.has_beams() ? "beams.num_return" : "n", ", which is ", n));
  }
  if (!request.sampling().has_seed()) {
    return absl::InvalidArgumentError(
        "resume needs sampling.seed: that of the call that is resumed");
  }
  for (const v1::ResumedSequence& sequence : request.resume()) {
    const absl::Status status = CheckTokenList(sequence.token_ids(), model, "resume.token_ids");
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Of a request or of one text to score; `prefix` goes before the field's name.
template <class Request>
absl::Status CheckSource(const Request& request, const std::string& prefix,
                         const ModelDescription& model) {
  if (request.source_case() == Request::SOURCE_NOT_SET) return absl::OkStatus();
  if (!model.source.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(prefix, "a source is for encoder-decoders; accepted for model_type \"",
                     model.architecture, "\": a prompt alone"));
  }
  if (request.has_source_text()) {
    return request.source_text().empty()
               ? absl::InvalidArgumentError(absl::StrCat(prefix, "source_text is empty"))
               : absl::OkStatus();
  }
  if (request.source_token_ids().token_ids().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(prefix, "source_token_ids are empty"));
  }
  return CheckTokenList(request.source_token_ids().token_ids(), model, "source_token_ids");
}

absl::Status CheckPrompt(const v1::GenerateRequest& request, const ModelDescription& model) {
  switch (request.prompt_case()) {
    case v1::GenerateRequest::kText:
      if (request.text().empty()) return absl::InvalidArgumentError("the prompt's text is empty");
      return absl::OkStatus();
    case v1::GenerateRequest::kTokenIds:
      if (request.token_ids().token_ids().empty()) {
        return absl::InvalidArgumentError("the prompt's token_ids are empty");
      }
      return CheckTokenList(request.token_ids().token_ids(), model, "token_ids");
    case v1::GenerateRequest::kChat:
      if (request.chat().messages().empty()) {
        return absl::InvalidArgumentError("the prompt's chat has no messages");
      }
      if (request.source_case() != v1::GenerateRequest::SOURCE_NOT_SET) {
        return absl::InvalidArgumentError(
            "a chat is no text behind a source; set text or token_ids");
      }
      return absl::OkStatus();
    case v1::GenerateRequest::PROMPT_NOT_SET:
      if (request.source_case() != v1::GenerateRequest::SOURCE_NOT_SET) return absl::OkStatus();
      return absl::InvalidArgumentError("no prompt: set text, token_ids or chat");
  }
  return absl::InvalidArgumentError("no prompt: set text, token_ids or chat");
}

absl::Status CheckRequestId(const std::string& id) {
  if (id.size() <= kMaxRequestIdBytes) return absl::OkStatus();
  return Refuse("the length of request_id", id.size(),
                absl::StrCat("up to ", kMaxRequestIdBytes, " bytes"));
}

absl::Status CheckCacheSalt(const std::string& salt) {
  if (salt.size() <= kMaxCacheSaltBytes) return absl::OkStatus();
  return Refuse("the length of cache_salt", salt.size(),
                absl::StrCat("up to ", kMaxCacheSaltBytes, " bytes"));
}

absl::Status CheckConstraintOf(const v1::GenerateRequest& request) {
  if (!request.has_constraint()) return absl::OkStatus();
  absl::Status status = CheckConstraint(request.constraint(), "constraint");
  if (!status.ok()) return status;
  if (!request.stop().ignore_eos()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "stop.ignore_eos and constraint contradict each other: nothing may follow a text that is "
      "whole");
}

absl::Status CheckTexts(const google::protobuf::RepeatedPtrField<std::string>& texts,
                        const char* field, int most, size_t most_bytes) {
  if (texts.size() > most) {
    return Refuse(absl::StrCat("the number of ", field), texts.size(),
                  absl::StrCat("up to ", most));
  }
  for (const std::string& text : texts) {
    if (text.empty() || text.size() > most_bytes) {
      return Refuse(absl::StrCat("the length of a text in ", field), text.size(),
                    absl::StrCat("1 to ", most_bytes, " bytes"));
    }
  }
  return absl::OkStatus();
}

// Of the request itself, or of one of its inputs.
absl::Status CheckScoreInput(const auto& input, const std::string& prefix,
                             const ModelDescription& model) {
  if (absl::Status source = CheckSource(input, prefix, model); !source.ok()) return source;
  if (model.source.has_value() && !input.has_source_text() && !input.has_source_token_ids()) {
    return absl::InvalidArgumentError(
        absl::StrCat(prefix, "no source: set source_text or source_token_ids"));
  }
  if (input.has_text() && input.text().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(prefix, "the text is empty"));
  }
  if (input.has_token_ids() && input.token_ids().token_ids().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(prefix, "token_ids are empty"));
  }
  if (!input.has_text() && !input.has_token_ids()) {
    return absl::InvalidArgumentError(
        absl::StrCat(prefix, "nothing to score: set text or token_ids"));
  }
  return absl::OkStatus();
}

absl::Status CheckCounts(const v1::GenerateRequest& request) {
  if (request.has_n() && (request.n() < 1 || request.n() > kMaxSequences)) {
    return Refuse("n", request.n(), absl::StrCat("1 to ", kMaxSequences));
  }
  const int n = NumReturned(request);
  if (request.has_best_of() && (request.best_of() < n || request.best_of() > kMaxSequences)) {
    return Refuse("best_of", request.best_of(),
                  absl::StrCat("n, which is ", n, ", to ", kMaxSequences));
  }
  return absl::OkStatus();
}

absl::Status CheckLogprobs(const v1::GenerateRequest& request) {
  if (!v1::LogprobsMode_IsValid(request.logprobs_mode())) {
    return Refuse("logprobs_mode", static_cast<int>(request.logprobs_mode()),
                  "raw (1) or processed (2)");
  }
  if (request.logprobs_mode() != v1::LOGPROBS_MODE_UNSPECIFIED && !request.has_logprobs() &&
      !request.has_best_of()) {
    return absl::InvalidArgumentError("logprobs_mode needs logprobs: how many alternatives");
  }
  if (request.logprobs() < 0 || request.logprobs() > kMaxLogprobs) {
    return Refuse("logprobs", request.logprobs(), absl::StrCat("0 to ", kMaxLogprobs));
  }
  if (request.prompt_logprobs() < 0 || request.prompt_logprobs() > kMaxLogprobs) {
    return Refuse("prompt_logprobs", request.prompt_logprobs(),
                  absl::StrCat("0 to ", kMaxLogprobs));
  }
  return absl::OkStatus();
}

absl::Status CheckDrafts(const v1::DraftOptions& drafts, const ModelDescription& model) {
  if (drafts.decline() && (drafts.has_max_tokens() || !drafts.expected_token_ids().empty())) {
    return absl::InvalidArgumentError(
        "drafts.decline contradicts drafts.max_tokens and drafts.expected_token_ids");
  }
  if (drafts.has_max_tokens() && (drafts.max_tokens() < 1 || drafts.max_tokens() > kMaxDrafts)) {
    return Refuse("drafts.max_tokens", drafts.max_tokens(), absl::StrCat("1 to ", kMaxDrafts));
  }
  return CheckTokenList(drafts.expected_token_ids(), model, "drafts.expected_token_ids");
}

void SetDrafts(const v1::DraftOptions& drafts, EngineRequest& request) {
  if (drafts.decline()) return;
  request.max_drafts = drafts.has_max_tokens() ? drafts.max_tokens() : kMaxDrafts;
  if (drafts.expected_token_ids().empty()) return;
  request.expected_tokens = std::make_shared<const std::vector<TokenId>>(
      drafts.expected_token_ids().begin(), drafts.expected_token_ids().end());
}

}  // namespace

absl::Status CheckKnownFields(const google::protobuf::Message& message) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  const google::protobuf::UnknownFieldSet& unknown = reflection.GetUnknownFields(message);
  if (unknown.field_count() > 0) {
    return absl::InvalidArgumentError(absl::StrCat("field number ", unknown.field(0).number(),
                                                   " of ", message.GetDescriptor()->full_name(),
                                                   " is unknown to this server"));
  }
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const google::protobuf::FieldDescriptor* field : fields) {
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const absl::Status status =
          CheckKnownFields(field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                                                : reflection.GetMessage(message, field));
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTokenIds(absl::Span<const int32_t> token_ids, const ModelDescription& model,
                           const char* field) {
  for (size_t i = 0; i < token_ids.size(); ++i) {
    if (token_ids[i] < 0 || token_ids[i] >= model.vocabulary_size) {
      return Refuse(absl::StrCat(field, "[", i, "]"), token_ids[i],
                    absl::StrCat("0 to ", model.vocabulary_size - 1, ", the model's vocabulary"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSampling(const v1::SamplingOptions& sampling, const ModelDescription& model) {
  return CheckSamplingOptions(Merged(model.sampling, sampling), model.vocabulary_size, "sampling.");
}

absl::Status CheckGenerate(const v1::GenerateRequest& request, const ModelDescription& model) {
  absl::Status status = CheckKnownFields(request);
  if (status.ok()) status = CheckRequestId(request.request_id());
  if (status.ok()) status = CheckCacheSalt(request.cache_salt());
  if (status.ok()) status = CheckSource(request, "", model);
  if (status.ok()) status = CheckPrompt(request, model);
  if (status.ok()) status = CheckSampling(request.sampling(), model);
  if (status.ok()) status = CheckStop(request.stop(), model);
  if (status.ok()) {
    status = CheckTexts(request.bad_words(), "bad_words", kMaxBadWords, kMaxBadWordBytes);
  }
  if (status.ok()) {
    status = CheckTexts(request.kept_special_tokens(), "kept_special_tokens", kMaxKeptSpecialTokens,
                        kMaxKeptSpecialTokenBytes);
  }
  if (status.ok()) {
    status =
        CheckTexts(request.dry_breakers(), "dry_breakers", kMaxDryBreakers, kMaxDryBreakerBytes);
  }
  if (status.ok()) status = CheckCounts(request);
  if (status.ok()) status = CheckLogprobs(request);
  if (status.ok()) status = CheckConstraintOf(request);
  if (status.ok() && request.has_beams()) status = CheckBeams(request, model);
  if (status.ok()) status = CheckResume(request, model);
  if (status.ok()) status = CheckDrafts(request.drafts(), model);
  if (!status.ok()) return status;
  if (request.has_max_tokens() &&
      (request.max_tokens() < 1 || request.max_tokens() > model.max_positions)) {
    return Refuse("max_tokens", request.max_tokens(),
                  absl::StrCat("1 to ", model.max_positions, ", less what the prompt takes"));
  }
  if (request.sampling().has_min_tokens() && request.has_max_tokens() &&
      request.sampling().min_tokens() > request.max_tokens()) {
    return Refuse("sampling.min_tokens", request.sampling().min_tokens(),
                  absl::StrCat("up to max_tokens, which is ", request.max_tokens()));
  }
  return absl::OkStatus();
}

absl::Status CheckLength(const v1::GenerateRequest& request, int64_t num_tokens,
                         const ModelDescription& model) {
  // Of encoder-decoders, what is written has a context of its own.
  const int64_t context =
      model.source.has_value() ? model.source->max_written : model.max_positions;
  const int64_t left = context - num_tokens;
  if (left < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the prompt has ", num_tokens, " tokens, which leaves no room in the context of ", context,
        " positions; accepted: up to ", context - 1));
  }
  if (!request.has_max_tokens() || request.max_tokens() <= left) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the prompt has ", num_tokens, " tokens and max_tokens is ",
                   request.max_tokens(), ", together more than the context of ", context,
                   " positions; accepted: max_tokens of 1 to ", left));
}

absl::Status CheckSourceLength(int64_t num_tokens, const ModelDescription& model) {
  if (num_tokens <= model.max_source_tokens) return absl::OkStatus();
  const bool by_steps = model.max_source_tokens < model.source->max_positions;
  return absl::InvalidArgumentError(absl::StrCat(
      "the source has ", num_tokens, " tokens; accepted: up to ", model.max_source_tokens,
      by_steps ? ", what one step has room for (--max_step_tokens)" : ", the model's context"));
}

absl::Status CheckScoreLength(int64_t num_tokens, const ModelDescription& model) {
  const int64_t context =
      model.source.has_value() ? model.source->max_written : model.max_positions;
  if (num_tokens <= context) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("there are ", num_tokens,
                                                 " tokens to score, more than the context of ",
                                                 context, " positions; accepted: up to ", context));
}

absl::Status CheckScore(const v1::ScoreRequest& request, const ModelDescription& model) {
  const absl::Status status = CheckKnownFields(request);
  if (!status.ok()) return status;
  if (request.top() < 0 || request.top() > kMaxLogprobs) {
    return Refuse("top", request.top(), absl::StrCat("0 to ", kMaxLogprobs));
  }
  if (request.inputs().empty()) return CheckScoreInput(request, "", model);
  if (request.source_case() != v1::ScoreRequest::SOURCE_NOT_SET) {
    return absl::InvalidArgumentError("inputs have sources of their own: set theirs");
  }
  if (request.input_case() != v1::ScoreRequest::INPUT_NOT_SET) {
    return absl::InvalidArgumentError(
        "inputs contradict text and token_ids: set one text or a list of them");
  }
  if (request.inputs_size() > kMaxScoreInputs) {
    return Refuse("the number of inputs", request.inputs_size(),
                  absl::StrCat("up to ", kMaxScoreInputs));
  }
  for (int i = 0; i < request.inputs_size(); ++i) {
    const absl::Status input =
        CheckScoreInput(request.inputs(i), absl::StrCat("inputs[", i, "]: "), model);
    if (!input.ok()) return input;
  }
  return absl::OkStatus();
}

EngineRequest EngineRequestFrom(const v1::GenerateRequest& request, const ModelDescription& model,
                                std::vector<int32_t> prompt, uint64_t random_seed) {
  EngineRequest result;
  result.name = request.request_id();
  result.prompt = std::move(prompt);
  result.sampling = Merged(model.sampling, request.sampling());
  if (!request.sampling().has_seed()) result.sampling.seed = random_seed;
  result.num_sequences = std::max(NumReturned(request), request.best_of());
  if (request.has_prompt_logprobs()) result.prompt_logprobs = request.prompt_logprobs();
  if (request.has_max_tokens()) result.max_new_tokens = request.max_tokens();
  result.default_length = model.max_length;
  const v1::StopOptions& stop = request.stop();
  result.stop_tokens.assign(stop.stop_token_ids().begin(), stop.stop_token_ids().end());
  if (!stop.ignore_eos()) {
    result.stop_tokens.insert(result.stop_tokens.end(), model.eos_token_ids.begin(),
                              model.eos_token_ids.end());
  }
  result.stop_strings.assign(stop.stop_strings().begin(), stop.stop_strings().end());
  result.include_stop_string = stop.include_stop_string();
  result.kept_special_tokens.assign(request.kept_special_tokens().begin(),
                                    request.kept_special_tokens().end());
  result.num_logprobs = request.logprobs();
  result.processed_logprobs = request.logprobs_mode() == v1::LOGPROBS_MODE_PROCESSED;
  result.priority = request.priority();
  result.use_prefix_cache = !request.decline_prefix_cache();
  SetDrafts(request.drafts(), result);
  for (const v1::ResumedSequence& sequence : request.resume()) {
    result.resumed.emplace_back(sequence.token_ids().begin(), sequence.token_ids().end());
  }
  // Which of them are returned is known once all are drawn, again where the call is resumed.
  if (request.best_of() > NumReturned(request)) result.resumed.clear();
  if (!result.resumed.empty()) result.resumed.resize(result.num_sequences);
  if (request.has_beams()) SetBeams(request, model, result);
  return result;
}

}  // namespace sluice
