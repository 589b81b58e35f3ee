// `sluice score`: the log-probability of every token of a text, or of each of many.
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

constexpr int kMostInputs = 128;  // of one call

struct ScoreFlags {
  // Exactly one of these four.
  std::optional<std::string> text;
  std::optional<std::string> file;   // "-": stdin
  std::optional<std::string> lines;  // the same, a text in each line
  std::optional<std::vector<int32_t>> token_ids;

  std::optional<std::string> adapter;
  // Of encoder-decoders, at most one.
  std::optional<std::string> source;
  std::optional<std::vector<int32_t>> source_ids;

  std::optional<int32_t> top;  // only with `json`
  std::optional<int32_t> priority;
  absl::Duration timeout = absl::Minutes(10);
  bool json = false;
};

void AddScoreFlags(FlagSet& flags, ScoreFlags* into) {
  flags.Section("Text (exactly one)");
  flags.Add("text", "TEXT", "Text to score, UTF-8.", &into->text);
  flags.Add("file", "FILE", "File with the text; - for stdin.", &into->file);
  flags.Add("lines", "FILE",
            "File with a text in each line, scored one by one; empty lines are left out. - for "
            "stdin.",
            &into->lines);
  flags.AddParsed("token_ids", "1,2,3", "Token ids to score; nothing is added to them.",
                  [into](const std::string& text) {
                    absl::StatusOr<std::vector<int32_t>> ids = ParseTokenIds(text);
                    if (!ids.ok()) return ids.status();
                    into->token_ids = *std::move(ids);
                    return absl::OkStatus();
                  });
  flags.Section("Of encoder-decoders (T5, BART, Marian), which need one of them");
  flags.Add("source", "TEXT", "The text that is read before the one to score, UTF-8.",
            &into->source);
  flags.AddParsed(
      "source_ids", "1,2,3",
      "The same as token ids; nothing is added to them. --token_ids are then those of the "
      "model's text, from the one that it begins with on.",
      [into](const std::string& text) {
        absl::StatusOr<std::vector<int32_t>> ids = ParseTokenIds(text);
        if (!ids.ok()) return ids.status();
        into->source_ids = *std::move(ids);
        return absl::OkStatus();
      });
  flags.Section("Output");
  flags.Add("top", "K", "With --json: the K most probable tokens at every position, 0 to 20.",
            &into->top);
  flags.AddSwitch(
      "json",
      "One object: {\"token_ids\":[..],\"logprobs\":[null,-1.2,..],\"mean_nll\":..,"
      "\"perplexity\":..,\"sum_logprob\":..}, with --top also \"top\":[null,[{\"token_id\":..,"
      "\"logprob\":..},..],..]. Entry i belongs to token i; the first has nothing "
      "before it. With --lines, an object for each.",
      &into->json);
  flags.Section("Call");
  flags.Add("adapter", "NAME", "The adapter to score with: one of --adapters. Default: none.",
            &into->adapter);
  flags.Add("priority", "N", "Larger goes first. Default 0.", &into->priority);
  flags.Add("timeout", "SECONDS", "Gives up after this time. Default 10m.", &into->timeout);
}

absl::Status CheckFlags(const ScoreFlags& flags) {
  const int inputs = int{flags.text.has_value()} + int{flags.file.has_value()} +
                     int{flags.lines.has_value()} + int{flags.token_ids.has_value()};
  if (inputs != 1) {
    return absl::InvalidArgumentError(
        "give exactly one of --text TEXT, --file FILE, --lines FILE and --token_ids 1,2,3");
  }
  const bool has_source = flags.source.has_value() || flags.source_ids.has_value();
  if ((flags.source.has_value() && flags.source_ids.has_value()) ||
      (has_source && flags.lines.has_value())) {
    return absl::InvalidArgumentError(
        "give one of --source TEXT and --source_ids 1,2,3, and not with --lines");
  }
  if (flags.source.has_value()) {
    if (const absl::Status status = CheckUtf8(*flags.source); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--source is ", status.message()));
    }
  }
  if (flags.top.has_value() && !flags.json) {
    return absl::InvalidArgumentError("--top needs --json: the summary has no place for it");
  }
  if (!flags.text.has_value()) return absl::OkStatus();
  const absl::Status status = CheckUtf8(*flags.text);
  if (status.ok()) return status;
  return absl::InvalidArgumentError(absl::StrCat("--text is ", status.message()));
}

absl::StatusOr<std::string> ReadText(const std::string& path, Environment& environment) {
  absl::StatusOr<std::string> text = ReadInput(path, environment);
  if (!text.ok()) return text.status();
  if (const absl::Status status = CheckUtf8(*text); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is ", status.message()));
  }
  return text;
}

v1::ScoreRequest EmptyRequest(const ScoreFlags& flags) {
  v1::ScoreRequest request;
  request.set_top(flags.top.value_or(0));
  request.set_priority(flags.priority.value_or(0));
  request.set_adapter(flags.adapter.value_or(""));
  return request;
}

// Of the texts in the lines, as many in each as one call takes.
absl::StatusOr<std::vector<v1::ScoreRequest>> LinesToRequests(const ScoreFlags& flags,
                                                              Environment& environment) {
  const absl::StatusOr<std::string> text = ReadText(*flags.lines, environment);
  if (!text.ok()) return text.status();
  std::vector<v1::ScoreRequest> requests;
  for (const absl::string_view line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    if (requests.empty() || requests.back().inputs_size() == kMostInputs) {
      requests.push_back(EmptyRequest(flags));
    }
    requests.back().add_inputs()->set_text(std::string(line));
  }
  if (requests.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(*flags.lines, " has no line with a text"));
  }
  return requests;
}

absl::StatusOr<v1::ScoreRequest> ToRequest(const ScoreFlags& flags, Environment& environment) {
  v1::ScoreRequest request = EmptyRequest(flags);
  if (flags.source.has_value()) request.set_source_text(*flags.source);
  if (flags.source_ids.has_value()) {
    request.mutable_source_token_ids()->mutable_token_ids()->Assign(flags.source_ids->begin(),
                                                                    flags.source_ids->end());
  }
  if (flags.token_ids.has_value()) {
    request.mutable_token_ids()->mutable_token_ids()->Assign(flags.token_ids->begin(),
                                                             flags.token_ids->end());
    return request;
  }
  absl::StatusOr<std::string> text =
      flags.text.has_value() ? *flags.text : ReadText(*flags.file, environment);
  if (!text.ok()) return text.status();
  request.set_text(*std::move(text));
  return request;
}

// Of a ScoreResponse, or of one of its texts.
template <class Score>
std::string JsonText(const Score& score, bool with_top) {
  Json result;
  result["token_ids"] = Json::array();
  for (const int32_t id : score.token_ids()) result["token_ids"].push_back(id);
  result["logprobs"] = Json::array({nullptr});
  for (const v1::PositionLogprobs& position : score.logprobs()) {
    result["logprobs"].push_back(JsonOf(position.logprob()));
  }
  result["mean_nll"] = score.mean_nll();
  result["perplexity"] = score.perplexity();
  result["sum_logprob"] = score.sum_logprob();
  if (with_top) {
    result["top"] = Json::array({nullptr});
    for (const v1::PositionLogprobs& position : score.logprobs()) {
      result["top"].push_back(JsonOf(position.top()));
    }
  }
  return DumpLine(result);
}

std::string SummaryText(const v1::ScoreResponse& score) {
  return absl::StrFormat(
      "tokens      %d, %d of them scored\nmean nll    %.6f nats per token\nperplexity  %.6g",
      score.token_ids_size(), score.logprobs_size(), score.mean_nll(), score.perplexity());
}

std::string RowText(const v1::ScoredText& score) {
  return absl::StrFormat("%8d %14.6f %10.6f %12.6g", score.token_ids_size(), score.sum_logprob(),
                         score.mean_nll(), score.perplexity());
}

int ScoreLines(Client& client, const ScoreFlags& flags,
               const std::vector<v1::ScoreRequest>& requests, Environment& environment) {
  if (!flags.json) {
    environment.out << absl::StrFormat("%8s %14s %10s %12s\n", "tokens", "sum logprob", "mean nll",
                                       "perplexity");
  }
  for (const v1::ScoreRequest& request : requests) {
    const absl::StatusOr<v1::ScoreResponse> scores = client.Score(request, flags.timeout);
    if (!scores.ok()) return Fail(scores.status(), environment);
    for (const v1::ScoredText& score : scores->scores()) {
      environment.out << (flags.json ? JsonText(score, flags.top.has_value()) : RowText(score))
                      << "\n";
    }
  }
  return Succeed(environment);
}

int ScoreOne(Client& client, const ScoreFlags& flags, const v1::ScoreRequest& request,
             Environment& environment) {
  const absl::StatusOr<v1::ScoreResponse> score = client.Score(request, flags.timeout);
  if (!score.ok()) return Fail(score.status(), environment);
  environment.out << (flags.json ? JsonText(*score, flags.top.has_value()) : SummaryText(*score))
                  << "\n";
  return Succeed(environment);
}

}  // namespace

int ScoreCommand(absl::Span<const std::string> arguments, Environment& environment) {
  ScoreFlags score_flags;
  EndpointFlags endpoint_flags;
  ModelFlags model_flags;
  FlagSet flags("score", "[flags]",
                "Prints how probable a text is under the model: the log-probability of every token "
                "given those before it (natural logarithm), their mean and the perplexity.");
  AddScoreFlags(flags, &score_flags);
  AddModelFlags(flags, &model_flags);
  AddEndpointFlags(flags, "Default: a pipeline in this process.", &endpoint_flags);
  if (const std::optional<int> exit = ParseOrExit(flags, arguments, environment)) return *exit;
  absl::Status usage = CheckFlags(score_flags);
  usage.Update(CheckOneTarget(endpoint_flags, model_flags));
  if (!usage.ok()) return FailUsage(flags.command(), usage, environment);

  // What is to be scored is read before anything is started.
  absl::StatusOr<v1::ScoreRequest> one = EmptyRequest(score_flags);
  absl::StatusOr<std::vector<v1::ScoreRequest>> many = std::vector<v1::ScoreRequest>();
  if (score_flags.lines.has_value()) {
    many = LinesToRequests(score_flags, environment);
  } else {
    one = ToRequest(score_flags, environment);
  }
  if (!one.ok()) return Fail(one.status(), environment);
  if (!many.ok()) return Fail(many.status(), environment);
  absl::StatusOr<std::unique_ptr<Client>> client =
      ConnectOrStart(endpoint_flags, model_flags, environment);
  if (!client.ok()) return Fail(client.status(), environment);
  return score_flags.lines.has_value() ? ScoreLines(**client, score_flags, *many, environment)
                                       : ScoreOne(**client, score_flags, *one, environment);
}

}  // namespace sluice
