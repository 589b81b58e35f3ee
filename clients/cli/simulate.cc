// `sluice simulate`: what a fleet would do with a load, before there is one.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "clients/cli/commands.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/model_flags.h"
#include "clients/cli/outcome.h"
#include "clients/cli/simulate_chart.h"
#include "clients/cli/simulate_report.h"
#include "clients/cli/terminal_text.h"
#include "kernels/usable_cpus.h"
#include "orchestrator/capacity/arrivals.h"
#include "orchestrator/capacity/trace_reader.h"
#include "orchestrator/tenants/tenant_book.h"
#include "services/model/json_fields.h"
#include "services/model/memory_plan.h"
#include "services/process/log.h"

namespace sluice {
namespace {

constexpr int kMostReplicas = 4096;
constexpr int kMostSearched = 256;
constexpr int kMostBlocks = 1 << 28;
constexpr int32_t kAnyLength = 1 << 30;

struct SimulateFlags {
  std::string trace;  // a file; empty: a law of arrivals
  SyntheticLoad load;
  std::optional<ArrivalLaw> arrivals;
  TraceOptions reading;
  std::optional<int64_t> requests;

  std::string costs;  // a file
  std::string model;  // a folder; empty: none is read
  std::optional<int32_t> replicas;
  std::optional<int32_t> kv_blocks;
  ServiceLevels levels;
  double share = 0.99;
  std::optional<SearchFor> find;
  FleetRouting routing = FleetRouting::kTurns;
  std::vector<FleetLoss> losses;
  absl::Duration start_time = absl::Seconds(60);
  bool json = false;
  std::string svg;  // a file; empty: none is drawn
  ModelFlags fleet{kSimulate};
};

absl::Status ParsePositive(const std::string& text, double most, double* into) {
  if (absl::SimpleAtod(text, into) && *into > 0 && *into <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(text, " is not a number above 0, at most ", most));
}

template <typename T>
FlagSet::Parser ParsedBy(absl::StatusOr<T> (*parse)(const std::string&), std::optional<T>* into) {
  return [parse, into](const std::string& text) {
    absl::StatusOr<T> parsed = parse(text);
    if (parsed.ok()) *into = *std::move(parsed);
    return parsed.status();
  };
}

FlagSet::Parser ParseTokens(TokenRange* into) {
  return [into](const std::string& text) {
    const absl::StatusOr<TokenRange> range = ParseTokenRange(text);
    if (range.ok()) *into = *range;
    return range.status();
  };
}

// "0@10m,3@25m".
absl::StatusOr<std::vector<FleetLoss>> ParseLosses(const std::string& text) {
  std::vector<FleetLoss> losses;
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  for (const std::string& part : parts) {
    const std::pair<std::string, std::string> sides = absl::StrSplit(part, absl::MaxSplits('@', 1));
    FleetLoss loss;
    absl::Duration time;
    if (!absl::SimpleAtoi(sides.first, &loss.replica) || loss.replica < 0 ||
        !absl::ParseDuration(sides.second, &time) || time < absl::ZeroDuration() ||
        time == absl::InfiniteDuration()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", part, "\" is no loss; accepted: NUMBER@TIME, a replica's from 0, such as 0@10m"));
    }
    loss.seconds = absl::ToDoubleSeconds(time);
    losses.push_back(loss);
  }
  return losses;
}

void AddLoadFlags(FlagSet& flags, SimulateFlags* into) {
  flags.Section("Load: a trace, or arrivals by a law");
  flags.Add("trace", "FILE",
            "Requests as they came somewhere: Mooncake's JSON lines (timestamp, input_length, "
            "output_length, hash_ids), Azure's CSV (TIMESTAMP,ContextTokens,GeneratedTokens), or "
            "an orchestrator's log.",
            &into->trace);
  flags.AddParsed(
      "speed", "F", "Plays the trace so many times as fast. Default 1.",
      [into](const std::string& text) { return ParsePositive(text, 1e6, &into->reading.speed); });
  flags.AddParsed("tokens_per_hash", "N", "Prompt tokens that a hash id stands for. Default 512.",
                  FlagSet::IntegerFrom(1, kMostTracedTokens, &into->reading.tokens_per_hash));
  flags.AddParsed("arrivals", "LAW",
                  "poisson:RATE, steady:RATE or bursty:RATE:VARIATION: requests a second, and how "
                  "much the times between them vary, 1 as with poisson.",
                  ParsedBy(&ParseArrivalLaw, &into->arrivals));
  flags.AddParsed("requests", "R",
                  "Requests in all; of a trace, its first ones. Default 1000; a whole trace.",
                  FlagSet::IntegerFrom(1, 100'000'000, &into->requests));
  flags.AddParsed("prompt_tokens", "P",
                  "With --arrivals, tokens of a prompt: a number, or a range such as 64-512, "
                  "uniform. Default 128.",
                  ParseTokens(&into->load.prompt_tokens));
  flags.AddParsed("max_tokens", "N", "The same of the tokens that a request writes. Default 64.",
                  ParseTokens(&into->load.new_tokens));
  flags.AddParsed("prefix_tokens", "N",
                  "With --arrivals, so many first tokens of a prompt are one of --prefixes texts. "
                  "Default 0.",
                  FlagSet::IntegerFrom(0, kMostTracedTokens, &into->load.prefix_tokens));
  flags.AddParsed("prefixes", "K", "How many texts those are. Default 1.",
                  FlagSet::IntegerFrom(1, 1 << 30, &into->load.num_prefixes));
  flags.Add("seed", "S", "Of --arrivals: the same seed, the same load. Default 0.",
            &into->load.seed);
}

void AddFleetFlags(FlagSet& flags, SimulateFlags* into) {
  flags.Section("Fleet");
  flags.Add("costs", "FILE",
            "What steps take: written by `sluice bench --fit` on the machine in question, or by "
            "hand (docs/capacity.md).",
            &into->costs);
  flags.AddParsed("replicas", "N",
                  "Replicas. Default 1; with --find, the most that are tried, 256 by default.",
                  FlagSet::IntegerFrom(1, kMostReplicas, &into->replicas));
  flags.AddParsed("routing", "HOW",
                  "Which replica a request goes to: turns, as the gateway does; or prefix, the one "
                  "whose cache knows most of its prompt, weighed with load. Default turns.",
                  [into](const std::string& text) {
                    into->routing = text == "prefix" ? FleetRouting::kPrefix : FleetRouting::kTurns;
                    if (text == "prefix" || text == "turns") return absl::OkStatus();
                    return absl::InvalidArgumentError(
                        absl::StrCat("\"", text, "\" is no routing; accepted: turns, prefix"));
                  });
  flags.AddParsed("faults", "LIST",
                  "Replicas that are lost, cache and all, by comma: NUMBER@TIME since the load "
                  "begins, from 0, such as 0@10m,3@25m. Their requests go on at others.",
                  [into](const std::string& text) {
                    absl::StatusOr<std::vector<FleetLoss>> losses = ParseLosses(text);
                    if (losses.ok()) into->losses = *std::move(losses);
                    return losses.status();
                  });
  flags.Add("start_time", "SECONDS", "From a loss until the replica serves again. Default 60.",
            &into->start_time);
  flags.Add("model", "DIR",
            "A model's folder, of which config.json is read: its context, and the room that "
            "--kv_cache_mib has. Default: what --costs says of both.",
            &into->model);
  flags.AddParsed("kv_blocks", "N",
                  "Blocks of the KV cache of a replica, in place of --kv_cache_mib.",
                  FlagSet::IntegerFrom(1, kMostBlocks, &into->kv_blocks));
  flags.Section("Question");
  flags.AddParsed("slo", "LEVELS",
                  "Times that requests should keep: ttft=TIME to the first token, tpot=TIME "
                  "between tokens, e2e=TIME in all, such as ttft=1s,tpot=50ms.",
                  [into](const std::string& text) {
                    const absl::StatusOr<ServiceLevels> levels = ParseServiceLevels(text);
                    if (levels.ok()) into->levels = *levels;
                    return levels.status();
                  });
  flags.AddParsed("find", "WHAT",
                  "replicas: the fewest with which --slo_share of the requests keep --slo; "
                  "arrangement: the same, and the --tp and --pp of the cost table with the fewest "
                  "shards in all; max_step_tokens: that with which the most requests do.",
                  [into](const std::string& text) {
                    for (const SearchFor search : {SearchFor::kReplicas, SearchFor::kArrangement,
                                                   SearchFor::kMaxStepTokens}) {
                      if (text == NameOf(search)) into->find = search;
                      if (text == NameOf(search)) return absl::OkStatus();
                    }
                    return absl::InvalidArgumentError(
                        absl::StrCat("\"", text,
                                     "\" can't be searched for; accepted: replicas, arrangement, "
                                     "max_step_tokens"));
                  });
  flags.AddParsed("slo_share", "P", "Share of the requests, above 0, at most 1. Default 0.99.",
                  [into](const std::string& text) { return ParsePositive(text, 1, &into->share); });
  flags.AddSwitch("json", "One JSON object with the figures; times in seconds.", &into->json);
  flags.Add("svg", "FILE", "Draws the figures, too.", &into->svg);
}

absl::Status CheckSimulateFlags(const SimulateFlags& flags) {
  if (flags.trace.empty() == !flags.arrivals.has_value()) {
    return absl::InvalidArgumentError(
        flags.trace.empty() ? "what comes is not known: give --trace FILE or --arrivals LAW"
                            : "--trace and --arrivals were both given; choose one");
  }
  if (flags.costs.empty()) {
    return absl::InvalidArgumentError(
        "what steps take is not known: give --costs FILE, such as `sluice bench --fit FILE` "
        "writes");
  }
  if (flags.find.has_value() && !flags.levels.any()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--find ", NameOf(*flags.find), " needs --slo: what requests are to keep"));
  }
  for (const FleetLoss& loss : flags.losses) {
    if (flags.find.has_value() || loss.replica < flags.replicas.value_or(1)) continue;
    return absl::InvalidArgumentError(absl::StrCat("--faults: there is no replica ", loss.replica,
                                                   "; accepted: 0 to ",
                                                   flags.replicas.value_or(1) - 1));
  }
  if (flags.fleet.values.IsGiven("kv_cache_mib") && flags.model.empty()) {
    return absl::InvalidArgumentError(
        "--kv_cache_mib needs --model, which says how many blocks that is; or give --kv_blocks");
  }
  return absl::OkStatus();
}

absl::StatusOr<Trace> LoadOf(const SimulateFlags& flags) {
  if (flags.trace.empty()) {
    SyntheticLoad load = flags.load;
    load.arrivals = *flags.arrivals;
    load.num_requests = flags.requests.value_or(load.num_requests);
    return MakeTrace(load);
  }
  TraceOptions reading = flags.reading;
  reading.max_requests = flags.requests.value_or(reading.max_requests);
  return ReadTraceFile(flags.trace, reading);
}

std::string DescribeLoad(const SimulateFlags& flags, const Trace& trace) {
  double prompt = 0, written = 0;
  for (const TracedRequest& request : trace.requests) {
    prompt += request.prompt_tokens;
    written += request.new_tokens;
  }
  const auto count = static_cast<double>(trace.requests.size());
  std::string text = absl::StrFormat("%d requests of %.0f prompt and %.0f new tokens in the mean",
                                     trace.requests.size(), prompt / count, written / count);
  if (trace.seconds() > 0) absl::StrAppendFormat(&text, ", %.2f a second", count / trace.seconds());
  if (!flags.trace.empty()) {
    absl::StrAppend(&text, ", of ", std::filesystem::path(flags.trace).filename().string());
  }
  return text;
}

// What is given, else what was measured where that is known, else the default.
int32_t SizeOf(bool is_given, int32_t value, int32_t measured) {
  return is_given || measured == 0 ? value : measured;
}

absl::Status SetSizesOfModel(const SimulateFlags& flags, FleetOptions& fleet) {
  if (flags.model.empty()) return absl::OkStatus();
  const absl::StatusOr<ModelConfig> config = LoadModelConfig(flags.model, flags.fleet.overrides());
  if (!config.ok()) return config.status();
  fleet.scheduler.max_positions = config->max_positions;
  const uint64_t block_bytes =
      KvBytesPerPosition(*config, flags.fleet.kv_dtype()) *
      static_cast<uint64_t>(KvCopies(*config, fleet.costs.tp) * fleet.block_size);
  const uint64_t blocks =
      (flags.fleet.kv_cache_size_mib() << 20) / std::max<uint64_t>(block_bytes, 1);
  fleet.num_blocks = static_cast<int32_t>(std::min<uint64_t>(blocks, kMostBlocks));
  if (fleet.num_blocks > 0 || flags.kv_blocks.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--kv_cache_mib ", flags.fleet.kv_cache_size_mib(),
                                                 " holds no block, which takes ", block_bytes,
                                                 " bytes"));
}

absl::StatusOr<FleetOptions> FleetOf(const SimulateFlags& flags, const StepCosts& costs) {
  const OptionValues& values = flags.fleet.values;
  FleetOptions fleet{.num_replicas = flags.replicas.value_or(1), .costs = costs};
  fleet.block_size =
      SizeOf(values.IsGiven("block_size"), values.Get<int>("block_size"), fleet.costs.block_size);
  if (fleet.block_size < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--block_size is ", fleet.block_size, "; accepted: 1 or more"));
  }
  fleet.num_blocks = fleet.costs.kv_blocks;
  fleet.scheduler.max_positions =
      fleet.costs.max_positions > 0 ? fleet.costs.max_positions : kAnyLength;
  if (absl::Status status = SetSizesOfModel(flags, fleet); !status.ok()) return status;
  fleet.num_blocks = flags.kv_blocks.value_or(fleet.num_blocks);
  if (fleet.num_blocks < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        flags.costs, " does not say how many blocks a replica has: give --kv_blocks, or --model"));
  }
  if (values.IsGiven("max_model_len")) {
    fleet.scheduler.max_positions =
        std::min<int32_t>(fleet.scheduler.max_positions, values.Get<int>("max_model_len"));
  }
  fleet.scheduler.max_tokens_per_step =
      SizeOf(values.IsGiven("max_step_tokens"), values.Get<int>("max_step_tokens"),
             fleet.costs.max_step_tokens);
  fleet.scheduler.max_sequences_per_step = values.Get<int>("max_step_sequences");
  fleet.scheduler.max_queued_sequences = values.Get<int>("max_queued_sequences");
  const auto tenants = std::make_shared<TenantBook>(values.Get<std::string>("tenants"));
  if (const absl::Status loaded = tenants->Load(); !loaded.ok()) return loaded;
  fleet.scheduler.tenant_policies = [tenants] { return tenants->policies(); };
  fleet.levels = flags.levels;
  fleet.routing = flags.routing;
  fleet.losses = flags.losses;
  fleet.start_seconds = absl::ToDoubleSeconds(flags.start_time);
  fleet.num_threads = UsableCpus();
  return fleet;
}

FleetFigures Try(const SimulateFlags& flags, const Trace& trace, SimulationReport& report) {
  FleetOptions& fleet = report.options;
  fleet.losses.clear();
  std::copy_if(flags.losses.begin(), flags.losses.end(), std::back_inserter(fleet.losses),
               [&fleet](const FleetLoss& loss) { return loss.replica < fleet.num_replicas; });
  FleetFigures figures = SimulateFleet(trace, fleet);
  report.tried.push_back({.num_replicas = fleet.num_replicas,
                          .tp = fleet.costs.tp,
                          .pp = fleet.costs.pp,
                          .max_step_tokens = fleet.scheduler.max_tokens_per_step,
                          .kept_share = figures.kept_share(),
                          .first_token_p95 = figures.first_token.Quantile(0.95),
                          .mean_busy = figures.mean_busy()});
  return figures;
}

// The fewest replicas of the arrangement that the report has.
void FindReplicas(const SimulateFlags& flags, const Trace& trace, SimulationReport& report) {
  const int most = flags.replicas.value_or(kMostSearched);
  std::optional<FleetFigures> latest, best;
  const std::optional<int> fewest = FewestThatKeep(most, [&](int replicas) {
    report.options.num_replicas = replicas;
    latest = Try(flags, trace, report);
    const bool keeps = latest->kept_share() >= flags.share;
    if (keeps) best = latest;
    return keeps;
  });
  report.found = fewest.has_value();
  report.options.num_replicas = fewest.value_or(most);
  report.figures = report.found ? *std::move(best) : *std::move(latest);
}

absl::Status FindArrangement(const SimulateFlags& flags, const StepCostTable& table,
                             const Trace& trace, SimulationReport& report) {
  std::optional<SimulationReport> best;
  std::vector<TriedFleet> tried;
  const auto shards = [](const SimulationReport& of) {
    return of.options.num_replicas * of.options.costs.tp * of.options.costs.pp;
  };
  for (const StepCosts& costs : table.costs) {
    absl::StatusOr<FleetOptions> fleet = FleetOf(flags, costs);
    if (!fleet.ok()) return fleet.status();
    SimulationReport one = report;
    one.options = *std::move(fleet);
    FindReplicas(flags, trace, one);
    tried.insert(tried.end(), one.tried.begin(), one.tried.end());
    const bool better = !best.has_value() || (one.found && !best->found) ||
                        (one.found == best->found && shards(one) < shards(*best));
    if (better) best = std::move(one);
  }
  report = *std::move(best);
  report.tried = std::move(tried);
  return absl::OkStatus();
}

void FindMaxStepTokens(const SimulateFlags& flags, const Trace& trace, SimulationReport& report) {
  constexpr int kLeast = 64, kMost = 8192;
  std::optional<FleetFigures> best;
  int32_t best_tokens = 0;
  for (int tokens = kLeast; tokens <= kMost; tokens *= 2) {
    report.options.scheduler.max_tokens_per_step = tokens;
    FleetFigures figures = Try(flags, trace, report);
    const bool better = !best.has_value() || figures.num_kept > best->num_kept ||
                        (figures.num_kept == best->num_kept &&
                         figures.first_token.Quantile(0.95) < best->first_token.Quantile(0.95));
    if (!better) continue;
    best = std::move(figures);
    best_tokens = tokens;
  }
  report.options.scheduler.max_tokens_per_step = best_tokens;
  report.figures = *std::move(best);
}

absl::Status Search(const SimulateFlags& flags, const StepCostTable& table, const Trace& trace,
                    SimulationReport& report) {
  report.search = *flags.find;
  report.wanted_share = flags.share;
  switch (report.search) {
    case SearchFor::kReplicas:
      FindReplicas(flags, trace, report);
      return absl::OkStatus();
    case SearchFor::kArrangement:
      return FindArrangement(flags, table, trace, report);
    case SearchFor::kMaxStepTokens:
      FindMaxStepTokens(flags, trace, report);
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::StatusOr<SimulationReport> Simulate(const SimulateFlags& flags) {
  const absl::StatusOr<std::string> text = ReadTextFile(flags.costs);
  if (!text.ok()) return text.status();
  absl::StatusOr<StepCostTable> table = ParseStepCosts(*text, flags.costs);
  if (!table.ok()) return table.status();
  const bool any_arrangement = flags.find == SearchFor::kArrangement;
  const absl::StatusOr<StepCosts> costs =
      any_arrangement ? table->costs.front()
                      : table->Of(flags.fleet.num_ranks(), flags.fleet.num_stages());
  if (!costs.ok()) return costs.status();
  absl::StatusOr<FleetOptions> fleet = FleetOf(flags, *costs);
  if (!fleet.ok()) return fleet.status();
  const absl::StatusOr<Trace> trace = LoadOf(flags);
  if (!trace.ok()) return trace.status();
  SimulationReport report{.load = DescribeLoad(flags, *trace),
                          .model = table->model,
                          .machine = table->machine,
                          .options = *std::move(fleet),
                          .num_skipped = trace->num_skipped};
  if (!flags.find.has_value()) {
    report.figures = SimulateFleet(*trace, report.options);
    return report;
  }
  if (absl::Status status = Search(flags, *table, *trace, report); !status.ok()) return status;
  return report;
}

}  // namespace

int SimulateCommand(absl::Span<const std::string> arguments, Environment& environment) {
  SimulateFlags simulate;
  FlagSet flags("simulate", "--costs FILE (--trace FILE | --arrivals LAW) [flags]",
                "Says what replicas would do with a load, and how many it takes, without any: the "
                "engine's own scheduler, KV cache, tenants and recovery run in virtual time, on "
                "what steps cost.");
  AddLoadFlags(flags, &simulate);
  AddFleetFlags(flags, &simulate);
  AddModelFlags(flags, &simulate.fleet);
  if (const std::optional<int> exit = ParseOrExit(flags, arguments, environment)) return *exit;
  if (const absl::Status usage = CheckSimulateFlags(simulate); !usage.ok()) {
    return FailUsage(flags.command(), usage, environment);
  }
  SetMinimumLogLevel(LogLevel::kError);  // engines say when replicas come and requests end
  const absl::StatusOr<SimulationReport> report = Simulate(simulate);
  if (!report.ok()) return Fail(report.status(), environment);
  const std::string text = simulate.json ? SimulationJson(*report) : SimulationText(*report);
  environment.out << (environment.out_is_terminal ? Printable(text) : text);
  if (!simulate.svg.empty()) {
    std::ofstream out(simulate.svg, std::ios::binary | std::ios::trunc);
    out << SimulationChart(*report) << std::flush;
    if (!out) {
      return Fail(
          absl::InvalidArgumentError(absl::StrCat("--svg: ", simulate.svg, " cannot be written")),
          environment);
    }
  }
  const int exit = Succeed(environment);
  return exit == kSuccess && !report->found ? kFailed : exit;
}

}  // namespace sluice
