// `sluice prefer`: which of two answers a model prefers, relative to another model.
#include <filesystem>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/cli/commands.h"
#include "clients/cli/connection.h"
#include "clients/cli/json.h"
#include "clients/cli/outcome.h"
#include "clients/cli/preference.h"
#include "clients/cli/prompt_input.h"
#include "services/common/address.h"

namespace sluice {
namespace {

struct PreferFlags {
  std::string policy;     // endpoint or folder
  std::string reference;  // the same
  std::string pairs;      // file
  float beta = 0.1F;
  bool json = false;
  absl::Duration timeout = absl::Minutes(10);
};

struct Pair {
  std::string prompt, chosen, rejected;
};

void AddPreferFlags(FlagSet& flags, PreferFlags* into) {
  flags.Section("What to compare");
  flags.Add("policy", "ENDPOINT|DIR", "The model in question: where it is served, or its folder.",
            &into->policy);
  flags.Add("reference", "ENDPOINT|DIR", "The model that it is compared with.", &into->reference);
  flags.Add("pairs", "FILE",
            "A line {\"prompt\":..,\"chosen\":..,\"rejected\":..} for each pair; - for stdin.",
            &into->pairs);
  flags.Add("beta", "B", "How much log-probabilities count, above 0. Default 0.1.", &into->beta);
  flags.Section("Output");
  flags.AddSwitch("json",
                  "An object for each pair: {\"policy\":{\"chosen\":..,\"rejected\":..},"
                  "\"reference\":{..},\"chosen_reward\":..,\"rejected_reward\":..,\"margin\":..,"
                  "\"probability\":..,\"loss\":..}; the last one is {\"pairs\":..,\"accuracy\":..,"
                  "\"mean_margin\":..,\"mean_probability\":..,\"mean_loss\":..}.",
                  &into->json);
  flags.Section("Call");
  flags.Add("timeout", "SECONDS", "Gives a text up after this time. Default 10m.", &into->timeout);
}

absl::Status CheckFlags(const PreferFlags& flags) {
  if (flags.policy.empty() || flags.reference.empty() || flags.pairs.empty()) {
    return absl::InvalidArgumentError("give --policy, --reference and --pairs");
  }
  if (flags.beta > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--beta is ", flags.beta, "; accepted: a finite number, above 0"));
}

absl::StatusOr<Pair> ParsePair(const std::string& line) {
  const Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return absl::InvalidArgumentError("no JSON object");
  Pair pair;
  for (const auto& [name, text] : {std::pair{"prompt", &pair.prompt},
                                   {"chosen", &pair.chosen},
                                   {"rejected", &pair.rejected}}) {
    const auto field = object.find(name);
    if (field == object.end() || !field->is_string()) {
      return absl::InvalidArgumentError(absl::StrCat("no text \"", name, "\""));
    }
    *text = field->get<std::string>();
  }
  return pair;
}

absl::StatusOr<std::vector<Pair>> ReadPairs(const std::string& path, Environment& environment) {
  const absl::StatusOr<std::string> text = ReadInput(path, environment);
  if (!text.ok()) return text.status();
  std::vector<Pair> pairs;
  std::istringstream lines(*text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    absl::StatusOr<Pair> pair = ParsePair(line);
    if (!pair.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ", line ", number, ": ", pair.status().message()));
    }
    pairs.push_back(*std::move(pair));
  }
  if (pairs.empty()) return absl::InvalidArgumentError(absl::StrCat(path, " has no pairs"));
  return pairs;
}

absl::StatusOr<std::unique_ptr<Client>> Reach(const std::string& target, EndpointFlags endpoint,
                                              Environment& environment) {
  if (std::filesystem::is_directory(target)) {
    ModelFlags model;
    model.values.Put("model", target);
    return StartPipeline(model, environment);
  }
  const absl::Status address = CheckAddress(target);
  if (!address.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(target, " is neither a folder nor an endpoint: ", address.message()));
  }
  endpoint.endpoint = target;
  return ConnectToEndpoint(endpoint, environment);
}

absl::StatusOr<v1::TokenizeResponse> TokensOf(Client& client, const std::string& text,
                                              absl::Duration timeout) {
  v1::TokenizeRequest request;
  request.set_text(text);
  request.set_return_offsets(true);
  return client.Tokenize(request, timeout);
}

// The log-probability of an answer behind a prompt: that of all tokens of both together that reach
// beyond the prompt, so that a token across the border counts.
absl::StatusOr<double> LogprobOf(const v1::TokenizeResponse& tokens, const v1::ScoredText& score,
                                 size_t prompt_bytes) {
  double sum = 0;
  for (int i = 0; i < tokens.token_ids_size(); ++i) {
    if (tokens.end_bytes(i) <= prompt_bytes) continue;
    if (i == 0) {
      return absl::InvalidArgumentError(
          "the prompt has no token of its own, so that the answer's first has nothing before it");
    }
    sum += score.logprobs(i - 1).logprob();
  }
  return sum;
}

// Both answers in one call, which computes the prompt once.
absl::StatusOr<PairLogprobs> LogprobsOf(Client& client, const Pair& pair, absl::Duration timeout) {
  const auto chosen = TokensOf(client, pair.prompt + pair.chosen, timeout);
  if (!chosen.ok()) return chosen.status();
  const auto rejected = TokensOf(client, pair.prompt + pair.rejected, timeout);
  if (!rejected.ok()) return rejected.status();
  v1::ScoreRequest request;
  for (const v1::TokenizeResponse* tokens : {&*chosen, &*rejected}) {
    *request.add_inputs()->mutable_token_ids()->mutable_token_ids() = tokens->token_ids();
  }
  const absl::StatusOr<v1::ScoreResponse> score = client.Score(request, timeout);
  if (!score.ok()) return score.status();
  const auto of_chosen = LogprobOf(*chosen, score->scores(0), pair.prompt.size());
  if (!of_chosen.ok()) return of_chosen.status();
  const auto of_rejected = LogprobOf(*rejected, score->scores(1), pair.prompt.size());
  if (!of_rejected.ok()) return of_rejected.status();
  return PairLogprobs{*of_chosen, *of_rejected};
}

absl::StatusOr<std::vector<PairLogprobs>> ScorePairs(Client& client, const std::vector<Pair>& pairs,
                                                     absl::Duration timeout) {
  std::vector<PairLogprobs> scores;
  for (const Pair& pair : pairs) {
    const absl::StatusOr<PairLogprobs> of_pair = LogprobsOf(client, pair, timeout);
    if (!of_pair.ok()) return of_pair.status();
    scores.push_back(*of_pair);
  }
  return scores;
}

// One model after the other: two folders need not fit in memory at once.
absl::StatusOr<std::vector<PairLogprobs>> ScoreAt(const std::string& target,
                                                  const std::vector<Pair>& pairs,
                                                  const EndpointFlags& endpoint,
                                                  absl::Duration timeout,
                                                  Environment& environment) {
  const absl::StatusOr<std::unique_ptr<Client>> client = Reach(target, endpoint, environment);
  if (!client.ok()) return client.status();
  return ScorePairs(**client, pairs, timeout);
}

Json JsonOf(const PairLogprobs& logprobs) {
  Json object;
  object["chosen"] = logprobs.chosen;
  object["rejected"] = logprobs.rejected;
  return object;
}

void PrintJson(const std::vector<Preference>& preferences, std::ostream& out) {
  for (const Preference& preference : preferences) {
    Json line;
    line["policy"] = JsonOf(preference.policy);
    line["reference"] = JsonOf(preference.reference);
    line["chosen_reward"] = preference.chosen_reward;
    line["rejected_reward"] = preference.rejected_reward;
    line["margin"] = preference.margin;
    line["probability"] = preference.probability;
    line["loss"] = preference.loss;
    out << DumpLine(line) << "\n";
  }
  const PreferenceTotals totals = TotalsOf(preferences);
  Json line;
  line["pairs"] = totals.num_pairs;
  line["accuracy"] = totals.accuracy;
  line["mean_margin"] = totals.mean_margin;
  line["mean_probability"] = totals.mean_probability;
  line["mean_loss"] = totals.mean_loss;
  out << DumpLine(line) << "\n";
}

void PrintTable(const std::vector<Preference>& preferences, std::ostream& out) {
  out << absl::StrFormat("%6s %12s %12s %10s %12s %10s\n", "pair", "chosen", "rejected", "margin",
                         "probability", "loss");
  int number = 0;
  for (const Preference& preference : preferences) {
    out << absl::StrFormat("%6d %12.6f %12.6f %10.6f %12.6f %10.6f\n", ++number,
                           preference.chosen_reward, preference.rejected_reward, preference.margin,
                           preference.probability, preference.loss);
  }
  const PreferenceTotals totals = TotalsOf(preferences);
  out << absl::StrFormat("%d pairs: accuracy %.4f, mean margin %.6f, mean loss %.6f\n",
                         totals.num_pairs, totals.accuracy, totals.mean_margin, totals.mean_loss);
}

}  // namespace

int PreferCommand(absl::Span<const std::string> arguments, Environment& environment) {
  PreferFlags prefer;
  EndpointFlags endpoint;
  FlagSet flags("prefer", "--policy ENDPOINT|DIR --reference ENDPOINT|DIR --pairs FILE [flags]",
                "Prints which of two answers a model prefers, relative to a reference: implicit "
                "rewards, their margin, the probability that the chosen one is preferred and the "
                "loss of direct preference optimization.");
  AddPreferFlags(flags, &prefer);
  AddSecurityFlags(flags, &endpoint);
  if (const std::optional<int> exit = ParseOrExit(flags, arguments, environment)) return *exit;
  if (const absl::Status usage = CheckFlags(prefer); !usage.ok()) {
    return FailUsage(flags.command(), usage, environment);
  }
  const auto pairs = ReadPairs(prefer.pairs, environment);
  if (!pairs.ok()) return Fail(pairs.status(), environment);
  const auto score = [&](const std::string& target) {
    return ScoreAt(target, *pairs, endpoint, prefer.timeout, environment);
  };
  const auto policy = score(prefer.policy);
  if (!policy.ok()) return Fail(policy.status(), environment);
  const auto reference = score(prefer.reference);
  if (!reference.ok()) return Fail(reference.status(), environment);
  std::vector<Preference> preferences;
  for (size_t i = 0; i < pairs->size(); ++i) {
    preferences.push_back(PreferenceOf((*policy)[i], (*reference)[i], prefer.beta));
  }
  (prefer.json ? PrintJson : PrintTable)(preferences, environment.out);
  return Succeed(environment);
}

}  // namespace sluice
