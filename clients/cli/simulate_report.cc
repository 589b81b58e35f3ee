#include "clients/cli/simulate_report.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "clients/cli/json.h"
#include "services/options/help_text.h"

namespace sluice {
namespace {

constexpr size_t kReportWidth = 80;
constexpr double kQuantiles[] = {0.5, 0.9, 0.95, 0.99};

struct Measured {
  const char* name;
  const char* json_name;
  LogHistogram FleetFigures::*times;
};
constexpr Measured kMeasured[] = {
    {"first token", "first_token_seconds", &FleetFigures::first_token},
    {"between tokens", "between_tokens_seconds", &FleetFigures::between_tokens},
    {"request", "request_seconds", &FleetFigures::request},
    {"in the queue", "queue_seconds", &FleetFigures::queue}};

// 1234567 as 1,234,567.
std::string Grouped(int64_t number) {
  std::string text = absl::StrCat(number);
  for (auto at = static_cast<int>(text.size()) - 3; at > (number < 0 ? 1 : 0); at -= 3) {
    text.insert(static_cast<size_t>(at), ",");
  }
  return text;
}

std::string Percent(double share) {
  // Not 100 % where some are missing.
  if (share < 1 && share > 0.9995) share = 0.9995;
  return absl::StrFormat("%.1f %%", 100 * share);
}

std::string Line(const char* name, const std::string& text) {
  std::string lines;
  for (const std::string& line : Wrapped(text, kReportWidth - 20)) {
    absl::StrAppendFormat(&lines, "%-20s%s\n", lines.empty() ? name : "", line);
  }
  return lines;
}

std::string Plural(int64_t count, const char* noun) {
  return absl::StrCat(Grouped(count), " ", noun, count == 1 ? "" : "s");
}

std::string FleetText(const SimulationReport& report) {
  const FleetOptions& options = report.options;
  std::string text = Plural(options.num_replicas, "replica");
  if (!report.model.empty()) absl::StrAppend(&text, " of ", report.model);
  absl::StrAppend(&text, ", each --tp ", options.costs.tp, " --pp ", options.costs.pp, ", ",
                  Grouped(options.num_blocks), " blocks of ", options.block_size, " positions");
  return text;
}

std::string TimesTable(const FleetFigures& figures) {
  std::string text =
      absl::StrFormat("%-16s %11s %11s %11s %11s %11s\n", "", "p50", "p90", "p95", "p99", "mean");
  for (const Measured& measured : kMeasured) {
    const LogHistogram& times = figures.*measured.times;
    if (times.count() == 0) continue;
    absl::StrAppendFormat(&text, "%-16s", measured.name);
    for (const double share : kQuantiles) {
      absl::StrAppendFormat(&text, " %11s", TimeText(times.Quantile(share)));
    }
    absl::StrAppendFormat(&text, " %11s\n", TimeText(times.mean()));
  }
  return text;
}

std::string Ends(const FleetFigures& figures) {
  std::string text =
      absl::StrCat(Grouped(figures.num_finished), " of ", Plural(figures.num_requests, "request"),
                   " finished in ", TimeText(figures.seconds));
  if (figures.num_refused > 0) {
    absl::StrAppend(&text, "; ", Grouped(figures.num_refused), " refused: queues were full");
  }
  if (figures.num_failed > 0) {
    absl::StrAppend(&text, "; ", Grouped(figures.num_failed),
                    " failed, the first with: ", figures.failure);
  }
  return text;
}

std::string BusyText(const FleetFigures& figures) {
  const auto [least, most] = std::minmax_element(figures.busy.begin(), figures.busy.end());
  std::string text = absl::StrCat(Percent(figures.mean_busy()), " of the time");
  if (figures.busy.size() > 1) {
    absl::StrAppend(&text, ", from ", Percent(*least), " to ", Percent(*most), " by replica");
  }
  return text;
}

std::string TriedTable(const SimulationReport& report) {
  std::string text = absl::StrFormat("\n%20s %14s %14s %14s\n", NameOf(report.search),
                                     "keep levels", "first p95", "busy");
  for (const TriedFleet& tried : report.tried) {
    absl::StrAppendFormat(&text, "%20s %14s %14s %14s\n", SettingOf(tried, report.search),
                          Percent(tried.kept_share), TimeText(tried.first_token_p95),
                          Percent(tried.mean_busy));
  }
  return text;
}

// The answer, for whom nothing else matters.
std::string Verdict(const SimulationReport& report) {
  const std::string levels = absl::StrCat(Percent(report.wanted_share), " of requests within ",
                                          FormatServiceLevels(report.options.levels));
  const StepCosts& costs = report.options.costs;
  if (report.search == SearchFor::kMaxStepTokens) {
    return absl::StrCat("Most requests keep the levels with --max_step_tokens ",
                        report.options.scheduler.max_tokens_per_step, ": ",
                        Percent(report.figures.kept_share()));
  }
  if (report.found && report.search == SearchFor::kArrangement) {
    return absl::StrCat("Fewest shards that keep ", levels, ": ",
                        report.options.num_replicas * costs.tp * costs.pp, ", as ",
                        Plural(report.options.num_replicas, "replica"), " of --tp ", costs.tp,
                        " --pp ", costs.pp);
  }
  if (report.found) {
    return absl::StrCat("Fewest replicas that keep ", levels, ": ", report.options.num_replicas);
  }
  return absl::StrCat("Not even ", Plural(report.options.num_replicas, "replica"), " keep ",
                      levels);
}

Json TimesJson(const LogHistogram& times) {
  return {{"p50", times.Quantile(0.5)},  {"p90", times.Quantile(0.9)},
          {"p95", times.Quantile(0.95)}, {"p99", times.Quantile(0.99)},
          {"mean", times.mean()},        {"max", times.max()},
          {"count", times.count()}};
}

}  // namespace

std::string NameOf(SearchFor search) {
  switch (search) {
    case SearchFor::kReplicas:
      return "replicas";
    case SearchFor::kArrangement:
      return "arrangement";
    case SearchFor::kMaxStepTokens:
      return "max_step_tokens";
  }
  return "?";
}

std::string SettingOf(const TriedFleet& tried, SearchFor search) {
  if (search == SearchFor::kMaxStepTokens) return absl::StrCat(tried.max_step_tokens);
  if (search == SearchFor::kReplicas) return absl::StrCat(tried.num_replicas);
  return absl::StrCat(tried.num_replicas, " x tp ", tried.tp, " pp ", tried.pp);
}

std::string TimeText(double seconds) {
  if (seconds < 0.001) return absl::StrFormat("%.0f us", seconds * 1e6);
  if (seconds < 0.1) return absl::StrFormat("%.2f ms", seconds * 1e3);
  if (seconds < 1) return absl::StrFormat("%.0f ms", seconds * 1e3);
  if (seconds < 100) return absl::StrFormat("%.2f s", seconds);
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 3600) return absl::StrFormat("%dm %ds", whole / 60, whole % 60);
  return absl::StrFormat("%dh %dm", whole / 3600, whole % 3600 / 60);
}

std::string SimulationText(const SimulationReport& report) {
  const FleetFigures& figures = report.figures;
  std::string text = Line("load", report.load);
  absl::StrAppend(&text, Line("fleet", FleetText(report)));
  if (report.options.routing == FleetRouting::kPrefix) {
    absl::StrAppend(&text, Line("routing", "by the longest known prefix, weighed with load"));
  }
  if (!report.machine.empty()) absl::StrAppend(&text, Line("measured on", report.machine));
  if (!report.tried.empty()) absl::StrAppend(&text, TriedTable(report));
  absl::StrAppend(&text, "\n", TimesTable(figures), "\n", Line("requests", Ends(figures)));
  if (report.num_skipped > 0) {
    absl::StrAppend(&text, Line("", absl::StrCat(Grouped(report.num_skipped),
                                                 " more generated nothing and are left out")));
  }
  const double seconds = std::max(figures.seconds, 1e-9);
  absl::StrAppend(
      &text,
      Line("throughput", absl::StrFormat("%.1f generated and %.1f prompt tokens a second",
                                         static_cast<double>(figures.generated_tokens) / seconds,
                                         static_cast<double>(figures.prompt_tokens) / seconds)));
  if (report.options.levels.any()) {
    absl::StrAppend(
        &text, Line("goodput", absl::StrFormat("%.2f requests a second, %s, keep %s",
                                               figures.goodput(), Percent(figures.kept_share()),
                                               FormatServiceLevels(report.options.levels))));
  }
  absl::StrAppend(
      &text,
      Line("prefix cache", absl::StrCat(Percent(figures.cache_hit_share()), " of ",
                                        Plural(figures.prompt_tokens, "prompt token"), " found")),
      Line("busy", BusyText(figures)),
      Line("kv blocks", absl::StrCat(Percent(figures.mean_used_blocks), " in use, at most ",
                                     Percent(figures.most_used_blocks), "; ",
                                     Plural(figures.num_preemptions, "preemption"))),
      Line("steps", absl::StrFormat("%s, of %.1f sequences in the mean", Grouped(figures.num_steps),
                                    figures.mean_step_sequences())));
  if (figures.num_losses > 0) {
    absl::StrAppend(&text,
                    Line("faults", absl::StrCat(Plural(figures.num_losses, "replica"), " lost, ",
                                                Plural(figures.num_moved, "request"),
                                                " moved; the longest pause between tokens was ",
                                                TimeText(figures.between_tokens.max()))));
  }
  if (!report.tried.empty()) {
    absl::StrAppend(&text, "\n", absl::StrJoin(Wrapped(Verdict(report), kReportWidth), "\n"), "\n");
  }
  return text;
}

std::string SimulationJson(const SimulationReport& report) {
  const FleetFigures& figures = report.figures;
  const FleetOptions& options = report.options;
  Json json = {{"load", report.load},
               {"model", report.model},
               {"machine", report.machine},
               {"replicas", options.num_replicas},
               {"tp", options.costs.tp},
               {"pp", options.costs.pp},
               {"kv_blocks", options.num_blocks},
               {"block_size", options.block_size},
               {"max_step_tokens", options.scheduler.max_tokens_per_step},
               {"max_step_sequences", options.scheduler.max_sequences_per_step},
               {"routing", options.routing == FleetRouting::kPrefix ? "prefix" : "turns"},
               {"requests", figures.num_requests},
               {"finished", figures.num_finished},
               {"refused", figures.num_refused},
               {"failed", figures.num_failed},
               {"skipped", report.num_skipped},
               {"seconds", figures.seconds},
               {"arrival_seconds", figures.arrival_seconds}};
  if (figures.num_failed > 0) json["failure"] = figures.failure;
  for (const Measured& measured : kMeasured) {
    json[measured.json_name] = TimesJson(figures.*measured.times);
  }
  json["prompt_tokens"] = figures.prompt_tokens;
  json["cached_prompt_tokens"] = figures.cached_prompt_tokens;
  json["generated_tokens"] = figures.generated_tokens;
  if (options.levels.any()) {
    json["slo"] = FormatServiceLevels(options.levels);
    json["kept_share"] = figures.kept_share();
    json["goodput"] = figures.goodput();
  }
  json["busy"] = figures.busy;
  json["mean_used_blocks"] = figures.mean_used_blocks;
  json["most_used_blocks"] = figures.most_used_blocks;
  json["preemptions"] = figures.num_preemptions;
  json["losses"] = figures.num_losses;
  json["moved"] = figures.num_moved;
  json["steps"] = figures.num_steps;
  json["mean_step_sequences"] = figures.mean_step_sequences();
  if (report.tried.empty()) return DumpLine(json) + "\n";
  json["find"] = NameOf(report.search);
  json["found"] = report.found;
  json["wanted_share"] = report.wanted_share;
  json["tried"] = Json::array();
  for (const TriedFleet& tried : report.tried) {
    json["tried"].push_back({{"replicas", tried.num_replicas},
                             {"tp", tried.tp},
                             {"pp", tried.pp},
                             {"max_step_tokens", tried.max_step_tokens},
                             {"kept_share", tried.kept_share},
                             {"first_token_p95", tried.first_token_p95},
                             {"mean_busy", tried.mean_busy}});
  }
  return DumpLine(json) + "\n";
}

}  // namespace sluice
