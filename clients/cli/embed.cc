// `sluice embed`: the embedding of a text, or of each of many, or a classifier's scores.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "clients/cli/commands.h"
#include "clients/cli/connection.h"
#include "clients/cli/json.h"
#include "clients/cli/outcome.h"
#include "clients/cli/prompt_input.h"
#include "clients/cli/text_input.h"

namespace sluice {
namespace {

constexpr int kMostEmbedInputs = 256;  // of one call

struct EmbedFlags {
  // Exactly one of these.
  std::optional<std::string> text;
  std::optional<std::string> lines;  // a file with a text in each line; "-": stdin
  std::vector<std::vector<int32_t>> token_ids;

  std::optional<std::string> prompt_name;
  std::optional<int32_t> dimensions;
  std::optional<int32_t> truncate_tokens;
  std::optional<int32_t> priority;
  absl::Duration timeout = absl::Minutes(10);
  bool json = false;
};

// "1,2,3;4,5": the ids of two texts.
absl::Status ParseTexts(const std::string& text, std::vector<std::vector<int32_t>>* texts) {
  for (const absl::string_view part : absl::StrSplit(text, ';')) {
    absl::StatusOr<std::vector<int32_t>> ids = ParseTokenIds(std::string(part));
    if (!ids.ok()) return ids.status();
    texts->push_back(*std::move(ids));
  }
  return absl::OkStatus();
}

void AddEmbedFlags(FlagSet& flags, EmbedFlags* into) {
  flags.Section("Texts (exactly one)");
  flags.Add("text", "TEXT", "Text to embed, UTF-8.", &into->text);
  flags.Add("lines", "FILE",
            "File with a text in each line, embedded one by one; empty lines are left out. - for "
            "stdin.",
            &into->lines);
  flags.AddParsed("token_ids", "1,2,3[;4,5..]",
                  "Token ids of a text, or of several; nothing is added to them.",
                  [into](const std::string& text) { return ParseTexts(text, &into->token_ids); });
  flags.Section("Embedding");
  flags.Add("prompt_name", "NAME",
            "Which of the model's prompts goes before each text, such as query. Default: what the "
            "model's files say.",
            &into->prompt_name);
  flags.Add("dimensions", "N", "The first N numbers alone.", &into->dimensions);
  flags.Add("truncate_tokens", "N", "Cuts longer texts instead of refusing them.",
            &into->truncate_tokens);
  flags.Section("Output");
  flags.AddSwitch("json",
                  "An object for each text: {\"embedding\":[..]}, of a classifier "
                  "{\"scores\":{\"LABEL\":..}}.",
                  &into->json);
  flags.Section("Call");
  flags.Add("priority", "N", "Larger goes first. Default 0.", &into->priority);
  flags.Add("timeout", "SECONDS", "Gives up after this time. Default 10m.", &into->timeout);
}

absl::Status CheckEmbedFlags(const EmbedFlags& flags) {
  const int inputs =
      int{flags.text.has_value()} + int{flags.lines.has_value()} + int{!flags.token_ids.empty()};
  if (inputs != 1) {
    return absl::InvalidArgumentError(
        "give exactly one of --text TEXT, --lines FILE and --token_ids 1,2,3");
  }
  if (!flags.text.has_value()) return absl::OkStatus();
  const absl::Status status = CheckUtf8(*flags.text);
  if (status.ok()) return status;
  return absl::InvalidArgumentError(absl::StrCat("--text is ", status.message()));
}

v1::EmbedRequest EmptyEmbedRequest(const EmbedFlags& flags) {
  v1::EmbedRequest request;
  if (flags.prompt_name.has_value()) request.set_prompt_name(*flags.prompt_name);
  if (flags.dimensions.has_value()) request.set_dimensions(*flags.dimensions);
  if (flags.truncate_tokens.has_value()) request.set_truncate_tokens(*flags.truncate_tokens);
  request.set_priority(flags.priority.value_or(0));
  return request;
}

absl::StatusOr<std::vector<v1::EmbedInput>> InputsOf(const EmbedFlags& flags,
                                                     Environment& environment) {
  std::vector<v1::EmbedInput> inputs;
  for (const std::vector<int32_t>& ids : flags.token_ids) {
    inputs.emplace_back().mutable_token_ids()->mutable_token_ids()->Assign(ids.begin(), ids.end());
  }
  if (flags.text.has_value()) inputs.emplace_back().set_text(*flags.text);
  if (!flags.lines.has_value()) return inputs;
  const absl::StatusOr<std::string> text = ReadInput(*flags.lines, environment);
  if (!text.ok()) return text.status();
  if (const absl::Status status = CheckUtf8(*text); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(*flags.lines, " is ", status.message()));
  }
  for (const absl::string_view line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    inputs.emplace_back().set_text(std::string(line));
  }
  if (inputs.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(*flags.lines, " has no line with a text"));
  }
  return inputs;
}

std::string EmbeddingJson(const v1::Embedding& embedding, const v1::GetModelResponse& model) {
  Json result;
  if (model.labels().empty()) {
    result["embedding"] = Json::array();
    for (const float x : embedding.values()) result["embedding"].push_back(JsonOf(x));
  } else {
    for (int i = 0; i < embedding.values_size() && i < model.labels_size(); ++i) {
      result["scores"][model.labels(i)] = JsonOf(embedding.values(i));
    }
  }
  return DumpLine(result);
}

std::string EmbeddingText(const v1::Embedding& embedding, const v1::GetModelResponse& model) {
  if (!model.labels().empty()) {
    std::string text = absl::StrFormat("%d tokens", embedding.num_tokens());
    for (int i = 0; i < embedding.values_size() && i < model.labels_size(); ++i) {
      absl::StrAppendFormat(&text, "  %s %.6f", model.labels(i), embedding.values(i));
    }
    return text;
  }
  constexpr int kShown = 4;
  double squares = 0;
  for (const float x : embedding.values()) squares += double{x} * x;
  std::string text =
      absl::StrFormat("%d tokens  %d numbers of length %.6f ", embedding.num_tokens(),
                      embedding.values_size(), std::sqrt(squares));
  for (int i = 0; i < std::min(kShown, embedding.values_size()); ++i) {
    absl::StrAppendFormat(&text, " %.6f", embedding.values(i));
  }
  if (embedding.values_size() > kShown) absl::StrAppend(&text, " ...");
  return text;
}

int EmbedAll(Client& client, const EmbedFlags& flags, const std::vector<v1::EmbedInput>& inputs,
             Environment& environment) {
  const absl::StatusOr<v1::GetModelResponse> model = client.GetModel();
  if (!model.ok()) return Fail(model.status(), environment);
  for (size_t begin = 0; begin < inputs.size(); begin += kMostEmbedInputs) {
    v1::EmbedRequest request = EmptyEmbedRequest(flags);
    const size_t end = std::min(begin + kMostEmbedInputs, inputs.size());
    for (size_t i = begin; i < end; ++i) *request.add_inputs() = inputs[i];
    const absl::StatusOr<v1::EmbedResponse> embedded = client.Embed(request, flags.timeout);
    if (!embedded.ok()) return Fail(embedded.status(), environment);
    for (const v1::Embedding& embedding : embedded->embeddings()) {
      environment.out << (flags.json ? EmbeddingJson(embedding, *model)
                                     : EmbeddingText(embedding, *model))
                      << "\n";
    }
  }
  return Succeed(environment);
}

}  // namespace

int EmbedCommand(absl::Span<const std::string> arguments, Environment& environment) {
  EmbedFlags embed_flags;
  EndpointFlags endpoint_flags;
  ModelFlags model_flags;
  FlagSet flags("embed", "[flags]",
                "Prints what an embedding model makes of texts, a line for each: its numbers, or "
                "the scores of a classifier. Models: BERT, RoBERTa, XLM-R, DistilBERT, ModernBERT, "
                "EmbeddingGemma, and decoders in folders of sentence-transformers.");
  AddEmbedFlags(flags, &embed_flags);
  AddModelFlags(flags, &model_flags);
  AddEndpointFlags(flags, "Default: a pipeline in this process.", &endpoint_flags);
  if (const std::optional<int> exit = ParseOrExit(flags, arguments, environment)) return *exit;
  absl::Status usage = CheckEmbedFlags(embed_flags);
  usage.Update(CheckOneTarget(endpoint_flags, model_flags));
  if (!usage.ok()) return FailUsage(flags.command(), usage, environment);

  // What is to be embedded is read before anything is started.
  const absl::StatusOr<std::vector<v1::EmbedInput>> inputs = InputsOf(embed_flags, environment);
  if (!inputs.ok()) return Fail(inputs.status(), environment);
  const absl::StatusOr<std::unique_ptr<Client>> client =
      ConnectOrStart(endpoint_flags, model_flags, environment);
  if (!client.ok()) return Fail(client.status(), environment);
  return EmbedAll(**client, embed_flags, *inputs, environment);
}

}  // namespace sluice
