#include "services/gateway/openapi/descriptions.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "kernels/sampling_options/sampling_check.h"
#include "kernels/sampling_options/sampling_options.h"
#include "services/gateway/json/object_reader.h"

namespace sluice::gateway {
namespace {

struct Described {
  absl::string_view name;
  const char* text;
};

// A path before the last name that it ends with.
constexpr Described kDescriptions[] = {
    {"add_generation_prompt", "Whether the assistant's turn is begun. Default true."},
    {"add_special_tokens", "Whether tokens such as a beginning of sequence are put around a text."},
    {"bad_words", "Texts that are not written."},
    {"base_model_name", "Without effect: the model that is served is the base."},
    {"beam_width", "Beams that a search keeps; it makes the request a search."},
    {"best_of",
     "Texts that are drawn, of which the n most probable are returned; of a search, its width."},
    {"cache_salt", "The prefix cache is shared with requests of the same salt alone."},
    {"chat_template_kwargs", "Further variables of the chat template."},
    {"completion_window",
     "Time for the batch, in hours or days, such as 24h or 7d, up to 30d; lines that have not run "
     "by "
     "then end with batch_expired. Default 24h."},
    {"continue_final_message", "The model goes on with the last message instead of answering it."},
    {"decline_drafts", "Disables speculative decoding for this request."},
    {"detokenize", "Answers are texts: true alone."},
    {"dimensions", "The first so many numbers of each embedding alone."},
    {"documents", "Texts, or objects with a `text`, that are judged."},
    {"early_stopping", "Stop condition of beam search."},
    {"echo", "Returns the prompt before the generated text."},
    {"enable_thinking", "A variable of chat templates: whether the model reasons first."},
    {"encoding_format", "How numbers are written: as a list, or as the bytes of 32-bit floats."},
    {"endpoint", "The path that each line asks for, as its `url`."},
    {"guided_choice", "The text is one of these."},
    {"guided_grammar", "The text matches this grammar."},
    {"guided_json", "The text is JSON that is valid under this schema."},
    {"guided_regex", "The text matches this regular expression."},
    {"ignore_eos", "The text goes on after the model has ended it."},
    {"include", "What the answer has besides; nothing of it is made here."},
    {"include_stop_str_in_output", "The stop string stays in the text."},
    {"input", "The conversation: a text, or items. Of embeddings and classes: texts, as `prompt`."},
    {"input_file_id", "The file of lines, of purpose batch."},
    {"input_schema", "JSON schema of the tool's arguments."},
    {"instruction", "Of Qwen3-Reranker: what is asked of each document."},
    {"instructions", "A system message before the input."},
    {"length_penalty", "How a search ranks texts of different lengths."},
    {"load_inplace", "Takes the place of an adapter of this name. Default false."},
    {"lora_int_id", "Without effect: adapters have names."},
    {"lora_name", "What `model` calls the adapter: letters, digits and ._-:/ of ASCII."},
    {"lora_path", "Its PEFT folder, as every process of the server finds it."},
    {"logprobs",
     "Completions: number of alternatives for each token. Chats: true to return "
     "log-probabilities."},
    {"logprobs_mode", "Log-probabilities of the model, or after the options of sampling."},
    {"max_completion_tokens",
     "Most tokens to generate. Default: as many as the context has room for."},
    {"max_draft_tokens", "The longest draft."},
    {"max_output_tokens", "Most tokens to generate."},
    {"max_tokens", "Most tokens to generate."},
    {"max_tokens_per_doc", "As `truncate_prompt_tokens` (Cohere's name)."},
    {"messages", "The conversation."},
    {"messages[].content", "A text, or parts of type text."},
    {"messages[].name", "Handed to the chat template."},
    {"messages[].reasoning", "What the model thought, by another name."},
    {"messages[].reasoning_content",
     "What the model thought before it answered, as it was returned."},
    {"messages[].refusal", "Used as the content of an assistant message that has none."},
    {"messages[].role", "Who speaks."},
    {"messages[].tool_call_id", "The call whose result this message is."},
    {"messages[].tool_calls", "Calls of tools that the model made."},
    {"metadata", "Up to 16 texts that are returned with the object."},
    {"modalities", "[\"text\"] alone."},
    {"model", "The model's name; the one that is served where it is not given."},
    {"n", "Texts from one prompt."},
    {"parallel_tool_calls", "Whether the model may call several tools at once."},
    {"prediction", "What much of the answer is expected to be: it is drafted."},
    {"priority",
     "Smaller values are scheduled first, within what the tenant is granted (as in vLLM)."},
    {"prompt", "A text. Completions and scores also accept token ids, or several of either."},
    {"prompt_logprobs", "Log-probabilities of the prompt's tokens, with so many alternatives."},
    {"prompt_name", "Which of the model's prompts goes before each text, such as query."},
    {"query", "What the documents are to answer."},
    {"reasoning", "How much the model reasons: `effort`, a variable of the chat template."},
    {"reasoning_effort", "A variable of chat templates: how much the model reasons."},
    {"response_format", "The text is JSON, or keeps a JSON schema."},
    {"return_documents", "Whether results repeat their documents."},
    {"return_token_ids", "Choices have `token_ids`; the prompt's are `prompt_token_ids`."},
    {"service_tier", "Priority class: flex is below the default, priority above it."},
    {"skip_special_tokens", "Special tokens are left out of texts: true alone."},
    {"stochastic_beams", "A search draws its texts without replacement."},
    {"stop", "The text ends before one of these."},
    {"stop_sequences", "The text ends before one of these."},
    {"stop_token_ids", "The text ends with one of these tokens."},
    {"store", "Nothing is stored here: false alone."},
    {"background", "Nothing is stored here: false alone."},
    {"stream", "The answer comes as server-sent events."},
    {"stream_options", "Of a streamed answer."},
    {"structured_outputs",
     "What the text keeps, as vLLM has it: one of `json`, `regex`, `choice`, `grammar`."},
    {"suffix", "An empty text alone: the model does not fill in a middle."},
    {"system", "A system message before the conversation."},
    {"text", "The format of the text: `format` as `response_format`, and `verbosity`."},
    {"text_1", "A text, or as many as `text_2` has."},
    {"text_2", "Texts that are compared with the first one, or each with its own."},
    {"thinking", "Whether the model reasons first."},
    {"output_config",
     "`effort`, how much the model reasons, and `format`, a JSON schema of the text."},
    {"output_format", "A JSON schema that the text keeps."},
    {"tokens", "Token ids."},
    {"tool_choice", "Whether the model may, must or must not call tools, and which."},
    {"tools", "Tools that the model may call."},
    {"top_logprobs", "Alternatives at each position; needs `logprobs` in chats."},
    {"top_n", "How many of the best documents are returned; all by default."},
    {"truncate_prompt_tokens",
     "The prompt's last tokens that are kept; -1: as many as there is room for. Of texts to embed "
     "the first ones."},
    {"truncation", "Without effect: an input that is too long is refused."},
    {"use_beam_search", "The most probable texts instead of drawn ones."},
    {"metadata", "Returned as it came."},
    {"mcp_servers", "An empty list alone."},
};

const SamplingParameter* FindSampling(absl::string_view name) {
  for (const SamplingParameter& parameter : kSamplingParameters) {
    if (name == parameter.name) return &parameter;
  }
  return nullptr;
}

absl::string_view LastName(absl::string_view parameter) {
  const size_t dot = parameter.rfind('.');
  return dot == absl::string_view::npos ? parameter : parameter.substr(dot + 1);
}

// Whether a bound is the parameter's own rather than its type's.
bool IsOwn(int64_t bound) { return bound > -kMaxInt32 && bound < kMaxInt32; }

}  // namespace

std::string DescriptionOf(absl::string_view parameter) {
  for (const absl::string_view name : {parameter, LastName(parameter)}) {
    for (const Described& described : kDescriptions) {
      if (name == described.name) return described.text;
    }
  }
  const SamplingParameter* sampling = FindSampling(parameter);
  return sampling != nullptr ? sampling->help : "";
}

std::string AcceptedText(absl::string_view parameter, const ParameterNote& note) {
  if (const SamplingParameter* sampling = FindSampling(parameter)) {
    return sluice::AcceptedText(*sampling);
  }
  if (!note.accepted.empty()) return note.accepted;
  if (!note.min.has_value() || !note.max.has_value()) return "";
  if (IsOwn(*note.min) && IsOwn(*note.max)) return absl::StrCat(*note.min, " to ", *note.max);
  return IsOwn(*note.min) ? absl::StrCat(*note.min, " or more") : "";
}

}  // namespace sluice::gateway
