#include "services/gateway/openai/generation_parameters.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "services/gateway/api/sampling_parameters.h"
#include "services/gateway/openai/beams.h"
#include "services/gateway/openai/constraint.h"
#include "services/gateway/openai/ignored_fields.h"

namespace sluice::gateway::openai {
namespace {

using nlohmann::json;

constexpr char kNotYet[] = "this server does not support it";

// The words are vLLM's, which ends them in "_logprobs".
void ReadLogprobsMode(ObjectReader& reader, v1::GenerateRequest& request) {
  const std::string mode = reader.String("logprobs_mode").value_or("");
  if (mode == "raw" || mode == "raw_logprobs") {
    request.set_logprobs_mode(v1::LOGPROBS_MODE_RAW);
  } else if (mode == "processed" || mode == "processed_logprobs") {
    request.set_logprobs_mode(v1::LOGPROBS_MODE_PROCESSED);
  } else if (!mode.empty()) {
    reader.Fail("logprobs_mode", "invalid_value",
                absl::StrCat("Invalid value: '", mode,
                             "'. Supported values are: 'raw_logprobs', 'processed_logprobs'."));
  }
}

void ReadStop(ObjectReader& reader, v1::StopOptions& stop) {
  if (const json* value = reader.Any("stop"); value != nullptr) {
    if (value->is_string()) {
      if (!value->get_ref<const std::string&>().empty()) {
        stop.add_stop_strings(value->get<std::string>());
      }
    } else if (!value->is_array()) {
      reader.Fail("stop", "invalid_type", "'stop' must be a string or an array of strings.");
    } else {
      for (const json& text : *value) {
        if (!text.is_string()) {
          return reader.Fail("stop", "invalid_type", "'stop' must hold strings alone.");
        }
        stop.add_stop_strings(text.get<std::string>());
      }
    }
  }
  if (const auto ids = reader.Integers("stop_token_ids")) {
    stop.mutable_stop_token_ids()->Assign(ids->begin(), ids->end());
  }
  stop.set_ignore_eos(reader.Bool("ignore_eos").value_or(false));
  stop.set_include_stop_string(reader.Bool("include_stop_str_in_output").value_or(false));
}

StreamOptions ReadStream(ObjectReader& reader) {
  StreamOptions result;
  result.stream = reader.Bool("stream").value_or(false);
  const json* options = reader.Object("stream_options");
  if (options == nullptr) return result;
  if (!result.stream) {
    reader.Fail("stream_options", "invalid_value",
                "The 'stream_options' parameter is only allowed when 'stream' is enabled.");
  }
  ObjectReader fields(*options, "stream_options");
  result.include_usage = fields.Bool("include_usage").value_or(false);
  // Padding against the guessing of tokens by lengths on the wire; no padding is asked for by
  // false.
  if (fields.Bool("include_obfuscation").value_or(false)) {
    fields.Refuse({"include_obfuscation"}, kNotYet);
  }
  reader.Fail(fields.Finish());
  return result;
}

// Classes of service are priorities of scheduling.
std::string ReadPriority(ObjectReader& reader, v1::GenerateRequest& request) {
  const std::string tier = reader.String("service_tier").value_or("");
  if (tier == "priority") {
    request.set_priority(1);
  } else if (tier == "flex") {
    request.set_priority(-1);
  } else if (!tier.empty() && tier != "auto" && tier != "default") {
    reader.Fail("service_tier", "invalid_value",
                absl::StrCat("Invalid value: '", tier,
                             "'. Supported values are: 'auto', 'default', 'flex', 'priority'."));
  }
  // vLLM's priorities fall: smaller goes first.
  if (const auto value = reader.Integer("priority", -kMaxInt32, kMaxInt32)) {
    if (request.priority() != 0) {
      reader.Fail("priority", "invalid_value",
                  absl::StrCat("'priority' and 'service_tier' ", tier,
                               " contradict each other: both say when the request's turn is."));
    }
    request.set_priority(static_cast<int32_t>(-*value));
  }
  return tier == "auto" ? "default" : tier;
}

}  // namespace

GenerationParameters ReadGenerationParameters(ObjectReader& reader, absl::string_view text,
                                              v1::GenerateRequest& request) {
  GenerationParameters result;
  result.model = reader.String("model").value_or("");
  ReadSamplingParameters(reader, *request.mutable_sampling());
  result.bad_words = ReadBadWords(reader);
  result.constraint = ReadConstraint(reader, text, request);
  ReadLogprobsMode(reader, request);
  ReadStop(reader, *request.mutable_stop());
  result.stream = ReadStream(reader);
  result.service_tier = ReadPriority(reader, request);
  if (const auto n = reader.Integer("n", 1, 16)) request.set_n(static_cast<int32_t>(*n));
  ReadBeams(reader, request);
  ReadPromptLogprobs(reader, result.stream.stream, request);
  if (const auto salt = reader.String("cache_salt")) request.set_cache_salt(*salt);
  if (reader.Bool("decline_drafts").value_or(false)) request.mutable_drafts()->set_decline(true);
  if (const auto most = reader.Integer("max_draft_tokens", 1, 32)) {
    request.mutable_drafts()->set_max_tokens(static_cast<int32_t>(*most));
  }
  result.return_token_ids = reader.Bool("return_token_ids").value_or(false);
  // vLLM's switches, at what they are set to there and cannot be otherwise here.
  if (!reader.Bool("skip_special_tokens").value_or(true)) {
    reader.Refuse({"skip_special_tokens"}, "special tokens are left out of texts");
  }
  if (!reader.Bool("detokenize").value_or(true)) {
    reader.Refuse({"detokenize"}, "answers are texts; 'return_token_ids' adds the ids");
  }
  reader.PassOver(kIgnoredParameters);
  return result;
}

}  // namespace sluice::gateway::openai
