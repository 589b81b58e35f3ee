// `sluice bench`: puts load on a pipeline and prints what it takes.
#include <random>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "clients/cli/bench_phases.h"
#include "clients/cli/bench_report.h"
#include "clients/cli/commands.h"
#include "clients/cli/connection.h"
#include "clients/cli/constraint_flags.h"
#include "clients/cli/load_generator.h"
#include "clients/cli/outcome.h"
#include "clients/cli/progress_line.h"
#include "clients/cli/sampling_flags.h"
#include "clients/cli/terminal_text.h"
#include "services/options/help_text.h"

namespace sluice {
namespace {

constexpr int kMostConcurrency = 4096;  // each is a thread

void AddLoadFlags(FlagSet& flags, LoadOptions* into, bool* drafts, bool* json) {
  flags.Section("Load");
  flags.Add("prompt_tokens", "P", "Tokens of every prompt, random ids. Default 128.",
            &into->prompt_tokens);
  flags.Add("max_tokens", "N",
            "Tokens every request writes, past the end of sequence. "
            "Default 64.",
            &into->max_tokens);
  flags.Add("concurrency", "C", "Requests in progress at a time, at most 4096. Default 8.",
            &into->concurrency);
  flags.Add("requests", "R", "Requests in all. Default 32.", &into->requests);
  flags.Add(
      "seed", "S",
      "Seed of the random prompts and of the sampling. Default: another each time, so that no "
      "prompt is found in the prefix cache; it is printed.",
      &into->seed);
  flags.AddSwitch("allow_drafts",
                  "Lets the server draft as it likes. Without, each token takes a step of its own.",
                  drafts);
  flags.AddSwitch("json", "The figures as one JSON object; times in milliseconds.", json);
}

void AddPhaseFlags(FlagSet& flags, PhasesOptions* into) {
  flags.Section("Phases, in place of one load");
  flags.AddParsed(
      "phases", "LIST",
      "Measures prefill and decode apart, in turns: prefill:P takes one prompt of P "
      "tokens to its first token, decode:C has C streams write --max_tokens tokens each "
      "and looks at the time in which all of them do. Such as "
      "prefill:512,decode:1,decode:16. Of the load's flags, --max_tokens, --seed and "
      "--json count.",
      [into](const std::string& text) {
        absl::StatusOr<std::vector<Phase>> phases = ParsePhases(text);
        if (!phases.ok()) return phases.status();
        into->phases = *std::move(phases);
        return absl::OkStatus();
      });
  flags.Add("rounds", "N",
            "How often each phase is measured, after one that is not counted; medians are printed. "
            "Default 5.",
            &into->rounds);
  flags.AddParsed(
      "draft_replay", "P",
      "Measures each decode phase once more with drafts: what its streams wrote the first time, of "
      "which a share of P, 0 to 1, is right. Without --phases, of decode:1.",
      [into](const std::string& text) {
        double share = 0;
        if (!absl::SimpleAtod(text, &share) || !(share >= 0 && share <= 1)) {
          return absl::InvalidArgumentError(absl::StrCat(text, " is not a number from 0 to 1"));
        }
        into->draft_replay = share;
        return absl::OkStatus();
      });
  flags.AddParsed("draft_tokens", "N", "The longest draft of --draft_replay, 1 to 32. Default 4.",
                  FlagSet::IntegerFrom(1, 32, &into->draft_tokens));
}

absl::Status CheckPhases(const PhasesOptions& phases) {
  if (phases.rounds < 1) {
    return absl::InvalidArgumentError(absl::StrCat("--rounds: ", phases.rounds, " is less than 1"));
  }
  for (const Phase& phase : phases.phases) {
    if (phase.kind == Phase::Kind::kDecode && phases.max_tokens < 2) {
      return absl::InvalidArgumentError(
          "--max_tokens: a stream of one token has no time between tokens; decode phases need 2");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckLoad(const LoadOptions& load) {
  for (const auto& [name, value] :
       {std::pair("prompt_tokens", load.prompt_tokens), std::pair("max_tokens", load.max_tokens),
        std::pair("concurrency", load.concurrency), std::pair("requests", load.requests)}) {
    if (value < 1) {
      return absl::InvalidArgumentError(absl::StrCat("--", name, ": ", value, " is less than 1"));
    }
  }
  if (load.concurrency > kMostConcurrency) {
    return absl::InvalidArgumentError(
        absl::StrCat("--concurrency: ", load.concurrency, " is more than ", kMostConcurrency));
  }
  return absl::OkStatus();
}

// At an endpoint elsewhere the machine that matters is not this one.
std::string MachineOf(const Client& client) {
  return client.name().empty() ? MachineName()
                               : absl::StrCat(client.name(), ", called from ", MachineName());
}

std::string NameOf(const v1::GetModelResponse& model) {
  return absl::StrCat(model.name(), " (", model.weights(), ")");
}

absl::StatusOr<v1::GetModelResponse> ModelOf(Client& client) {
  absl::StatusOr<v1::GetModelResponse> model = client.GetModel();
  if (model.ok() && model->vocabulary_size() < 1) {
    return absl::InternalError("the server reports an empty vocabulary");
  }
  return model;
}

void SayIfInterrupted(const std::string& of, Environment& environment) {
  if (!environment.interrupt.requested()) return;
  environment.err << "sluice: interrupted; the figures are those of " << of << std::endl;
}

// Like Succeed, but with the exit status of an interrupt where there was one.
int End(Environment& environment) {
  const int exit = Succeed(environment);
  return environment.interrupt.requested() ? environment.interrupt.exit_code() : exit;
}

// What is lacking is left out: the figures stand without it.
std::optional<GapShares> GapSharesSince(const v1::GetStatusResponse& before, Client& client) {
  const absl::StatusOr<v1::GetStatusResponse> after = client.GetStatus();
  return after.ok() ? GapSharesBetween(before, *after) : std::nullopt;
}

int MeasureLoad(Client& client, LoadOptions load, bool json, Environment& environment) {
  const absl::StatusOr<v1::GetModelResponse> model = ModelOf(client);
  if (!model.ok()) return Fail(model.status(), environment);
  const absl::StatusOr<v1::GetStatusResponse> before = client.GetStatus();
  if (!before.ok()) return Fail(before.status(), environment);
  load.vocabulary_size = model->vocabulary_size();
  absl::StatusOr<LoadTrace> trace;
  {
    ProgressLine line(environment.err, environment.err_is_terminal, load.requests);
    trace = RunLoad(client, load, [&line](int finished, int64_t tokens) {
      line.Update(absl::Now(), finished, tokens);
    });
  }
  if (!trace.ok()) return Fail(trace.status(), environment);
  BenchFigures figures = FiguresOf(*trace);
  figures.gaps = GapSharesSince(*before, client);
  SayIfInterrupted(
      absl::StrCat("the ", figures.num_requests, " of ", load.requests, " requests that had ended"),
      environment);
  if (json) {
    environment.out << BenchJson(figures, load, NameOf(*model), MachineOf(client));
  } else {
    const size_t width = HelpWidth(environment.columns);
    environment.out << BenchTable(figures, load, NameOf(*model), MachineOf(client)) << "\n"
                    << absl::StrJoin(Wrapped(kFigureDefinitions, width), "\n") << "\n";
  }
  return End(environment);
}

void AddSizes(const v1::GetStatusResponse& status, PhasesReport* report) {
  for (const v1::ProcessStatus& process : status.processes()) {
    const bool per_step = process.service() == "shard" || process.service() == "sampler";
    if (per_step) report->step_weight_bytes += process.weight_bytes();
    if (per_step) report->kv_bytes += process.kv_bytes();
  }
}

int MeasurePhases(Client& client, PhasesOptions options, std::optional<double> start_seconds,
                  bool json, Environment& environment) {
  const absl::StatusOr<v1::GetModelResponse> model = ModelOf(client);
  if (!model.ok()) return Fail(model.status(), environment);
  const absl::StatusOr<v1::GetStatusResponse> status = client.GetStatus();
  if (!status.ok()) return Fail(status.status(), environment);
  options.vocabulary_size = model->vocabulary_size();
  PhasesReport report = {
      .model = NameOf(*model), .machine = MachineOf(client), .start_seconds = start_seconds};
  AddSizes(*status, &report);
  absl::StatusOr<std::vector<PhaseFigures>> phases;
  {
    ProgressLine line(environment.err, environment.err_is_terminal, NumRequests(options));
    phases = RunPhases(client, options, [&line](int finished, int64_t tokens) {
      line.Update(absl::Now(), finished, tokens);
    });
  }
  if (!phases.ok()) return Fail(phases.status(), environment);
  report.phases = *std::move(phases);
  report.gaps = GapSharesSince(*status, client);
  SayIfInterrupted("the rounds that had ended", environment);
  environment.out << (json ? PhasesJson(report) : PhasesTable(report));
  return End(environment);
}

}  // namespace

int BenchCommand(absl::Span<const std::string> arguments, Environment& environment) {
  LoadOptions load{.prompt_tokens = 128,
                   .max_tokens = 64,
                   .concurrency = 8,
                   .requests = 32,
                   .seed = std::random_device()()};
  PhasesOptions phases{.rounds = 5};
  EndpointFlags endpoint_flags;
  ModelFlags model_flags;
  ConstraintFlags constraint;
  bool json = false;
  FlagSet flags("bench", "[flags]",
                "Keeps a number of requests in progress until all are done, then prints times and "
                "rates.");
  AddLoadFlags(flags, &load, &phases.drafts, &json);
  AddPhaseFlags(flags, &phases);
  AddConstraintFlags(flags, &constraint,
                     "A constraint (one of these), under which each decode phase is measured once "
                     "more; without --phases decode:16. It must allow texts of --max_tokens");
  flags.Section("Choosing tokens (temperature 0 where it is not given)");
  AddSamplingParameters(flags, &load.sampling, {"seed"});
  AddModelFlags(flags, &model_flags);
  AddEndpointFlags(flags, "Default: a pipeline in this process.", &endpoint_flags);
  flags.SetFooter(kFigureDefinitions);
  if (const std::optional<int> exit = ParseOrExit(flags, arguments, environment)) return *exit;
  phases.max_tokens = load.max_tokens;
  phases.seed = load.seed;
  phases.sampling = load.sampling;
  load.drafts.set_decline(!phases.drafts);
  phases.constraint = ConstraintOf(constraint);
  if (phases.phases.empty() && (phases.draft_replay.has_value() || phases.constraint.has_value())) {
    const int streams = phases.constraint.has_value() ? 16 : 1;
    phases.phases.push_back({.kind = Phase::Kind::kDecode, .count = streams});
  }
  absl::Status usage = CheckLoad(load);
  usage.Update(CheckPhases(phases));
  usage.Update(CheckOneTarget(endpoint_flags, model_flags));
  if (!usage.ok()) return FailUsage(flags.command(), usage, environment);

  const absl::Time begin = absl::Now();
  absl::StatusOr<std::unique_ptr<Client>> client =
      ConnectOrStart(endpoint_flags, model_flags, environment);
  if (!client.ok()) return Fail(client.status(), environment);
  if (phases.phases.empty()) return MeasureLoad(**client, load, json, environment);
  std::optional<double> start_seconds;
  if (!CallsEndpoint(endpoint_flags, model_flags, environment)) {
    start_seconds = absl::ToDoubleSeconds(absl::Now() - begin);
  }
  return MeasurePhases(**client, phases, start_seconds, json, environment);
}

}  // namespace sluice
