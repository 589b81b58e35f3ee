#include "clients/cli/request_flags.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "clients/cli/sampling_flags.h"
#include "clients/cli/text_input.h"

namespace sluice {
namespace {

// With C escapes.
absl::Status AddText(const std::string& text, std::vector<std::string>* into) {
  std::string unescaped;
  std::string error;
  if (!absl::CUnescape(text, &unescaped, &error)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" has a faulty escape (write \\\\ for a backslash): ", error));
  }
  into->push_back(std::move(unescaped));
  return CheckUtf8(into->back());
}

template <typename Ids>
absl::Status SetTokenIds(const std::string& text, Ids* into) {
  absl::StatusOr<std::vector<int32_t>> ids = ParseTokenIds(text);
  if (!ids.ok()) return ids.status();
  *into = *std::move(ids);
  return absl::OkStatus();
}

void SetStop(const RequestFlags& flags, v1::StopOptions* stop) {
  for (const std::string& text : flags.stop_strings) stop->add_stop_strings(text);
  stop->mutable_stop_token_ids()->Assign(flags.stop_token_ids.begin(), flags.stop_token_ids.end());
  stop->set_ignore_eos(flags.ignore_eos);
}

// One value of a field, in the words of a flag: a bias of {5: -1} is 5=-1.
std::string ValueText(const google::protobuf::Message& message,
                      const google::protobuf::FieldDescriptor* field, int index) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintFieldValueToString(message, field, index, &text);
  if (!field->is_map()) return text;
  absl::StrReplaceAll({{"key: ", ""}, {" value: ", "="}}, &text);
  return std::string(absl::StripTrailingAsciiWhitespace(text));
}

void AppendOptions(const google::protobuf::Message& message, std::vector<std::string>* into) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const google::protobuf::FieldDescriptor* field : fields) {
    const bool is_group = field->message_type() != nullptr && !field->is_repeated();
    if (is_group) {
      AppendOptions(reflection.GetMessage(message, field), into);
      continue;
    }
    std::vector<std::string> values;
    const int size = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    values.reserve(size);
    for (int i = 0; i < size; ++i) {
      values.push_back(ValueText(message, field, field->is_repeated() ? i : -1));
    }
    into->push_back(absl::StrCat(field->name(), "=", absl::StrJoin(values, ",")));
  }
}

}  // namespace

std::string OptionsText(const v1::GenerateRequest& request) {
  std::vector<std::string> options;
  AppendOptions(request, &options);
  return absl::StrJoin(options, " ");
}

void AddPromptFlags(FlagSet& flags, RequestFlags* into) {
  flags.Section("Prompt (exactly one)");
  flags.Add("prompt", "TEXT", "Text to continue, UTF-8; PROMPT without a flag means the same.",
            &into->prompt);
  flags.Add("prompt_file", "FILE",
            "The same from a file, but for a line break at its end; - or PROMPT as -, or no prompt "
            "at all in a pipe: from stdin.",
            &into->prompt_file);
  flags.AddParsed("token_ids", "1,2,3",
                  "Token ids to continue; nothing is added to them. The only kind of prompt for a "
                  "model without a tokenizer.",
                  [into](const std::string& text) { return SetTokenIds(text, &into->token_ids); });
  flags.Add(
      "source", "TEXT",
      "Of encoder-decoders (T5, BART, Marian): the text to read, UTF-8. A prompt is then what "
      "the model's text begins with, and may be left out. Without a source the prompt is it.",
      &into->source);
  flags.AddParsed("source_ids", "1,2,3", "The same as token ids; nothing is added to them.",
                  [into](const std::string& text) { return SetTokenIds(text, &into->source_ids); });
  flags.Section("Output");
  flags.Add("n", "N",
            "Sequences to write from the prompt, 1 to 16. In text, the first one is streamed and "
            "the others follow it, each below a line with its number. Default 1.",
            &into->n);
  flags.Add("best_of", "N",
            "Draws so many sequences and writes the --n with the largest mean log-probability of a "
            "token, the best first; up to 16.",
            &into->best_of);
  flags.Add("logprobs", "K",
            "With --json: the log-probability of every token and of its K most probable "
            "alternatives, 0 to 20.",
            &into->logprobs);
  flags.AddSwitch("processed_logprobs",
                  "With --logprobs: of the distribution that the token was drawn from, after all "
                  "options, instead of the model's own.",
                  &into->processed_logprobs);
  flags.Add(
      "prompt_logprobs", "K",
      "With --json: the same of the prompt's tokens from the second one on, which come first: "
      "\"prompt_token_ids\" and \"prompt_logprobs\".",
      &into->prompt_logprobs);
  flags.AddSwitch("json",
                  "One JSON object per event: {\"sequence\": 0, \"text\": \"..\", \"token_ids\": "
                  "[..]}, with --logprobs also \"logprobs\": [{\"logprob\": .., \"top\": "
                  "[..]}]; the last one is {\"finished\": true, \"finish_reason\": .., \"usage\": "
                  "{..}, \"seed\": ..}, with "
                  "\"length_limit\" where the reason is length; of a search, \"scores\" and "
                  "\"sum_logprobs\" of all texts.",
                  &into->json);
  AddBeamFlags(flags, &into->beams);
}

void AddSamplingFlags(FlagSet& flags, RequestFlags* into) {
  AddConstraintFlags(flags, &into->constraint);
  flags.Section(
      "Choosing tokens (what is not given comes from the model's generation_config.json)");
  flags.Add("max_tokens", "N", "Most tokens to write per sequence, at least 1.", &into->max_tokens);
  AddSamplingParameters(flags, &into->sampling);
  flags.AddParsed("bad_words", "TEXT",
                  "The text's tokens are not written in this order; again for further ones.",
                  [into](const std::string& text) { return AddText(text, &into->bad_words); });
  flags.AddParsed("dry_breakers", "TEXT",
                  "DRY's runs end at this text; again for further ones. C escapes as of --stop.",
                  [into](const std::string& text) { return AddText(text, &into->dry_breakers); });
  flags.AddParsed("stop", "TEXT",
                  "Ends before this text; give the flag again for further ones. C escapes are "
                  "understood: \\n, \\t, \\\\, \\\", \\x41.",
                  [into](const std::string& text) { return AddText(text, &into->stop_strings); });
  flags.AddParsed(
      "stop_token_ids", "1,2,3", "Ends with one of these tokens.",
      [into](const std::string& text) { return SetTokenIds(text, &into->stop_token_ids); });
  flags.AddSwitch("ignore_eos", "Goes on after the model's end-of-sequence token.",
                  &into->ignore_eos);
  flags.Section("Call");
  flags.Add("adapter", "NAME", "The adapter to compute with: one of --adapters. Default: none.",
            &into->adapter);
  flags.Add("priority", "N", "Larger goes first. Default 0.", &into->priority);
  flags.AddSwitch("decline_drafts",
                  "Every token takes a step of its own. The text is the same in any case.",
                  &into->decline_drafts);
  flags.Add(
      "max_draft_tokens", "N",
      "Most tokens computed at a time before the model has chosen, 1 to 32. Default: what the "
      "server finds best.",
      &into->max_draft_tokens);
  flags.Add("timeout", "SECONDS", "Gives up after this time (30, 0.5, 1m30s). Default: never.",
            &into->timeout);
}

v1::GenerateRequest WithoutPrompt(const RequestFlags& flags) {
  v1::GenerateRequest request;
  *request.mutable_sampling() = flags.sampling;
  SetStop(flags, request.mutable_stop());
  SetConstraint(flags.constraint, request);
  if (flags.max_tokens) request.set_max_tokens(*flags.max_tokens);
  if (flags.n) request.set_n(*flags.n);
  if (flags.best_of) request.set_best_of(*flags.best_of);
  for (const std::string& word : flags.bad_words) request.add_bad_words(word);
  for (const std::string& breaker : flags.dry_breakers) request.add_dry_breakers(breaker);
  if (flags.prompt_logprobs) request.set_prompt_logprobs(*flags.prompt_logprobs);
  if (flags.logprobs) request.set_logprobs(*flags.logprobs);
  if (flags.processed_logprobs) request.set_logprobs_mode(v1::LOGPROBS_MODE_PROCESSED);
  request.set_adapter(flags.adapter.value_or(""));
  request.set_priority(flags.priority.value_or(0));
  if (flags.decline_drafts) request.mutable_drafts()->set_decline(true);
  if (flags.max_draft_tokens) {
    request.mutable_drafts()->set_max_tokens(*flags.max_draft_tokens);
  }
  return request;
}

absl::StatusOr<v1::GenerateRequest> ToRequest(const RequestFlags& flags,
                                              const std::optional<std::string>& positional) {
  const int prompts = int{positional.has_value()} + int{flags.prompt.has_value()} +
                      int{flags.prompt_file.has_value()} + int{flags.token_ids.has_value()};
  const bool has_source = flags.source.has_value() || flags.source_ids.has_value();
  if (flags.source.has_value() && flags.source_ids.has_value()) {
    return absl::InvalidArgumentError(
        "more than one source: give one of --source TEXT and --source_ids 1,2,3");
  }
  if (prompts != 1 && !(prompts == 0 && has_source)) {
    return absl::InvalidArgumentError(
        absl::StrCat(prompts == 0 ? "no prompt" : "more than one prompt",
                     ": give one of PROMPT, --prompt TEXT, --prompt_file FILE and --token_ids "
                     "1,2,3"));
  }
  for (const auto& [given, name] :
       {std::pair(flags.logprobs.has_value(), "--logprobs"),
        std::pair(flags.prompt_logprobs.has_value(), "--prompt_logprobs")}) {
    if (!given || flags.json) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name, " needs --json: text has no place for them"));
  }
  v1::GenerateRequest request = WithoutPrompt(flags);
  if (absl::Status status = SetBeams(flags.beams, request); !status.ok()) return status;
  if (flags.source.has_value()) {
    if (const absl::Status status = CheckUtf8(*flags.source); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--source is ", status.message()));
    }
    request.set_source_text(*flags.source);
  }
  if (flags.source_ids.has_value()) {
    request.mutable_source_token_ids()->mutable_token_ids()->Assign(flags.source_ids->begin(),
                                                                    flags.source_ids->end());
  }
  if (prompts == 0) return request;
  if (flags.token_ids.has_value()) {
    request.mutable_token_ids()->mutable_token_ids()->Assign(flags.token_ids->begin(),
                                                             flags.token_ids->end());
    return request;
  }
  const std::string& text = positional.has_value() ? *positional : *flags.prompt;
  if (const absl::Status status = CheckUtf8(text); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("the prompt is ", status.message()));
  }
  request.set_text(text);
  return request;
}

}  // namespace sluice
