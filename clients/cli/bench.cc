// `sluice bench`: puts load on a pipeline and prints what it takes.
#include <algorithm>
#include <optional>
#include <random>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "clients/cli/bench_fit.h"
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
#include "orchestrator/capacity/arrivals.h"
#include "services/options/help_text.h"

namespace sluice {
namespace {

constexpr int kMostConcurrency = 4096;  // each is a thread

// Of a load, besides its options.
struct LoadFlags {
  std::optional<int> concurrency;
  std::optional<ArrivalLaw> arrivals;
  bool drafts = false;
  bool json = false;
  std::string fit;  // a file; empty: costs are not measured
};

void AddLoadFlags(FlagSet& flags, LoadOptions* into, LoadFlags* more) {
  flags.Section("Load");
  flags.Add("prompt_tokens", "P", "Tokens of every prompt, random ids. Default 128.",
            &into->prompt_tokens);
  flags.Add("max_tokens", "N",
            "Tokens every request writes, past the end of sequence. "
            "Default 64.",
            &into->max_tokens);
  flags.Add("concurrency", "C",
            "Requests in progress at a time, at most 4096. Default 8; with --arrivals as many as "
            "come.",
            &more->concurrency);
  flags.AddParsed("arrivals", "LAW",
                  "Sends requests by a law instead of as others end: poisson:RATE, steady:RATE or "
                  "bursty:RATE:VARIATION, in requests a second.",
                  [more](const std::string& text) {
                    const absl::StatusOr<ArrivalLaw> law = ParseArrivalLaw(text);
                    if (law.ok()) more->arrivals = *law;
                    return law.status();
                  });
  flags.Add("requests", "R", "Requests in all. Default 32.", &into->requests);
  flags.Add(
      "seed", "S",
      "Seed of the random prompts and of the sampling. Default: another each time, so that no "
      "prompt is found in the prefix cache; it is printed.",
      &into->seed);
  flags.AddParsed("adapter", "NAMES",
                  "Adapters by comma, which requests take in turns; of --adapters. Default: none.",
                  [into](const std::string& text) {
                    into->adapters = absl::StrSplit(text, ',', absl::SkipEmpty());
                    return absl::OkStatus();
                  });
  flags.AddSwitch("allow_drafts",
                  "Lets the server draft as it likes. Without, each token takes a step of its own.",
                  &more->drafts);
  flags.AddSwitch("json", "The figures as one JSON object; times in milliseconds.", &more->json);
  flags.Add(
      "fit", "FILE",
      "In place of a load, measures what steps cost, --rounds times, on a pipeline that does "
      "nothing else, and writes it for `sluice simulate`; other arrangements in the file stay.",
      &more->fit);
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

// Of the target's shards.
void SetArrangement(const v1::GetStatusResponse& status, StepCosts* costs) {
  for (const v1::ProcessStatus& process : status.processes()) {
    if (process.service() != "shard") continue;
    costs->tp = std::max(costs->tp, process.rank() + 1);
    costs->pp = std::max(costs->pp, process.stage() + 1);
  }
}

int MeasureCosts(Client& client, const std::string& file, int rounds, uint64_t seed,
                 Environment& environment) {
  const absl::StatusOr<v1::GetModelResponse> model = ModelOf(client);
  if (!model.ok()) return Fail(model.status(), environment);
  const absl::StatusOr<v1::GetStatusResponse> status = client.GetStatus();
  if (!status.ok()) return Fail(status.status(), environment);
  StepCosts pipeline;
  SetArrangement(*status, &pipeline);
  const FitOptions options = {
      .rounds = rounds,
      .seed = seed,
      .vocabulary_size = model->vocabulary_size(),
      .max_positions = model->max_positions(),
      .kv_positions = status->kv_cache().num_blocks() * status->kv_cache().block_size(),
      .num_stages = pipeline.pp};
  absl::StatusOr<StepCosts> costs;
  {
    ProgressLine line(environment.err, environment.err_is_terminal, NumRequests(options));
    costs = FitStepCosts(client, options, [&line](int finished, int64_t tokens) {
      line.Update(absl::Now(), finished, tokens);
    });
  }
  if (!costs.ok()) return Fail(costs.status(), environment);
  costs->tp = pipeline.tp;
  costs->pp = pipeline.pp;
  costs->max_step_tokens = options.max_step_tokens;
  costs->max_positions = model->max_positions();
  costs->block_size = status->kv_cache().block_size();
  costs->kv_blocks = status->kv_cache().num_blocks();
  const absl::Status written = UpdateCostFile(file, NameOf(*model), MachineOf(client), *costs);
  if (!written.ok()) return Fail(written, environment);
  environment.err << "sluice: wrote " << file << std::endl;
  return End(environment);
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
  LoadFlags more;
  FlagSet flags("bench", "[flags]",
                "Keeps a number of requests in progress until all are done, then prints times and "
                "rates.");
  AddLoadFlags(flags, &load, &more);
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
  phases.drafts = more.drafts;
  load.concurrency = more.concurrency.value_or(more.arrivals.has_value()
                                                   ? std::clamp(load.requests, 1, kMostConcurrency)
                                                   : load.concurrency);
  phases.max_tokens = load.max_tokens;
  phases.seed = load.seed;
  phases.sampling = load.sampling;
  phases.adapters = load.adapters;
  load.drafts.set_decline(!phases.drafts);
  phases.constraint = ConstraintOf(constraint);
  if (phases.phases.empty() && (phases.draft_replay.has_value() || phases.constraint.has_value())) {
    const int streams = phases.constraint.has_value() ? 16 : 1;
    phases.phases.push_back({.kind = Phase::Kind::kDecode, .count = streams});
  }
  absl::Status usage = CheckLoad(load);
  usage.Update(CheckPhases(phases));
  usage.Update(CheckOneTarget(endpoint_flags, model_flags));
  if (usage.ok() && !more.fit.empty() && (!phases.phases.empty() || more.arrivals.has_value())) {
    usage = absl::InvalidArgumentError(
        "--fit puts loads of its own on the pipeline, without --arrivals and --phases");
  }
  if (!usage.ok()) return FailUsage(flags.command(), usage, environment);

  const absl::Time begin = absl::Now();
  absl::StatusOr<std::unique_ptr<Client>> client =
      ConnectOrStart(endpoint_flags, model_flags, environment);
  if (!client.ok()) return Fail(client.status(), environment);
  if (!more.fit.empty()) {
    return MeasureCosts(**client, more.fit, phases.rounds, load.seed, environment);
  }
  if (more.arrivals.has_value()) {
    load.arrivals = MakeArrivals(*more.arrivals, load.requests, load.seed);
  }
  if (phases.phases.empty()) return MeasureLoad(**client, load, more.json, environment);
  std::optional<double> start_seconds;
  if (!CallsEndpoint(endpoint_flags, model_flags, environment)) {
    start_seconds = absl::ToDoubleSeconds(absl::Now() - begin);
  }
  return MeasurePhases(**client, phases, start_seconds, more.json, environment);
}

}  // namespace sluice
