#include "clients/cli/bench_report.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/cli/json.h"

namespace sluice {
namespace {

// [begin, end) in seconds.
using Interval = std::pair<double, double>;

double LengthOfUnion(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end());
  double length = 0;
  double covered_to = -1;
  for (const auto& [begin, end] : intervals) {
    length += std::max(0.0, end - std::max(begin, covered_to));
    covered_to = std::max(covered_to, end);
  }
  return length;
}

double Rate(int64_t tokens, double seconds) {
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

// Each token's share of the time since the arrival before it.
void AppendGaps(const RequestTrace& request, std::vector<double>* gaps) {
  for (size_t i = 1; i < request.arrivals.size(); ++i) {
    const Arrival& arrival = request.arrivals[i];
    const double gap = arrival.seconds - request.arrivals[i - 1].seconds;
    gaps->insert(gaps->end(), arrival.tokens, gap / arrival.tokens);
  }
}

std::string NameOf(const Phase& phase) {
  return absl::StrCat(phase.kind == Phase::Kind::kPrefill ? "prefill:" : "decode:", phase.count);
}

// Of an even number of values, the mean of the two in the middle. REQUIRES: not empty.
double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t size = values.size();
  return (values[(size - 1) / 2] + values[size / 2]) / 2;
}

Json MillisecondsJson(const Percentiles& seconds) {
  return {{"p50", seconds.p50 * 1e3},
          {"p90", seconds.p90 * 1e3},
          {"p95", seconds.p95 * 1e3},
          {"p99", seconds.p99 * 1e3}};
}

// "" where it is not known.
std::string GapLine(const std::optional<GapShares>& shares) {
  if (!shares.has_value()) return "";
  return absl::StrFormat(
      "%-22s %10.1f %% of a shard's time at work; %.1f %% while no process computes\n",
      "gaps between steps", 100 * shares->all, 100 * shares->system);
}

void AddGaps(const std::optional<GapShares>& shares, Json& json) {
  if (!shares.has_value()) return;
  json["gap_share"] = shares->all;
  json["system_gap_share"] = shares->system;
}

// Of a phase measured in another way as well: its rates, and how many times the plain one.
std::string OtherLine(const char* name, const std::vector<double>& rates,
                      const PhaseFigures& figures) {
  const auto [least, most] = std::minmax_element(rates.begin(), rates.end());
  return absl::StrFormat("%-22s %10.2f %10.2f %10.2f   %.3f times", name, Median(rates), *least,
                         *most, Median(rates) / Median(figures.tokens_per_second));
}

// "" where nothing was measured in other ways.
std::string OtherLines(const PhaseFigures& figures) {
  std::string lines;
  if (!figures.replayed_per_second.empty()) {
    absl::StrAppend(&lines, OtherLine("  with drafts", figures.replayed_per_second, figures),
                    "; of ", figures.num_drafted, " tokens drafted ", figures.num_accepted,
                    " right\n");
  }
  if (!figures.constrained_per_second.empty()) {
    absl::StrAppend(
        &lines, OtherLine("  under the constraint", figures.constrained_per_second, figures), "\n");
  }
  return lines;
}

Json ConstrainedJson(const PhaseFigures& figures) {
  return {{"tokens_per_second", Median(figures.constrained_per_second)},
          {"rounds", figures.constrained_per_second},
          {"times", Median(figures.constrained_per_second) / Median(figures.tokens_per_second)}};
}

Json ReplayJson(const PhaseFigures& figures) {
  return {{"tokens_per_second", Median(figures.replayed_per_second)},
          {"rounds", figures.replayed_per_second},
          {"times", Median(figures.replayed_per_second) / Median(figures.tokens_per_second)},
          {"drafted_tokens", figures.num_drafted},
          {"accepted_draft_tokens", figures.num_accepted}};
}

std::string Row(const std::string& name, const Percentiles& seconds) {
  return absl::StrFormat("%-22s %10.2f %10.2f %10.2f\n", name, seconds.p50 * 1e3, seconds.p90 * 1e3,
                         seconds.p99 * 1e3);
}

}  // namespace

const char kFigureDefinitions[] =
    "first token: from sending a request to its first token's arrival.\n"
    "between tokens: time since the arrival before; tokens that arrive together share it equally.\n"
    "request: from sending it to its last event.\n"
    "prefill tokens/s: tokens of all prompts / time in which at least one request waited for its "
    "first token.\n"
    "decode tokens/s: tokens after each request's first arrival / time in which at least one "
    "request was between its first and its last arrival.\n"
    "gaps between steps: of the shard that waits most, the part of its time at work in which it "
    "had "
    "no step to compute though requests were under way; and the part in which no other stage "
    "computed what it waited for either, the sampler's head included: transport and waiting.\n"
    "Prefill and decode share the machine while both go on, so with a concurrency above 1 each "
    "rate is what was had beside the other. Percentiles by nearest rank.";

Percentiles PercentilesOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&values](double share) {
    const double rank = std::ceil(share * static_cast<double>(values.size()));
    return values[static_cast<size_t>(std::max(rank, 1.0)) - 1];
  };
  return {.p50 = at(0.5), .p90 = at(0.9), .p95 = at(0.95), .p99 = at(0.99)};
}

std::optional<GapShares> GapSharesBetween(const v1::GetStatusResponse& before,
                                          const v1::GetStatusResponse& after) {
  std::optional<GapShares> largest;
  if (before.processes_size() != after.processes_size()) return largest;
  for (int i = 0; i < after.processes_size(); ++i) {
    const v1::ProcessStatus& then = before.processes(i);
    const v1::ProcessStatus& now = after.processes(i);
    // Less than before: another process stands in its place.
    if (now.busy_us() <= then.busy_us() || now.gap_us() < then.gap_us()) continue;
    const auto busy = static_cast<double>(now.busy_us() - then.busy_us());
    const auto gap = static_cast<double>(now.gap_us() - then.gap_us());
    const auto computed = static_cast<double>(now.gap_computed_us() - then.gap_computed_us());
    const GapShares shares = {.all = gap / (busy + gap), .system = (gap - computed) / (busy + gap)};
    if (!largest.has_value() || shares.all > largest->all) largest = shares;
  }
  return largest;
}

BenchFigures FiguresOf(const LoadTrace& trace) {
  std::vector<double> first_token;
  std::vector<double> gaps;
  std::vector<double> whole;
  std::vector<Interval> waiting;
  std::vector<Interval> writing;
  int64_t generated = 0;
  int64_t cached = 0;
  for (const RequestTrace& request : trace.requests) {
    const double first = request.arrivals.front().seconds;
    first_token.push_back(first - request.start);
    whole.push_back(request.end - request.start);
    AppendGaps(request, &gaps);
    waiting.emplace_back(request.start, first);
    writing.emplace_back(first, request.arrivals.back().seconds);
    for (const Arrival& arrival : request.arrivals) generated += arrival.tokens;
    cached += request.usage.num_cached_prompt_tokens();
  }
  const auto requests = static_cast<int>(trace.requests.size());
  const int64_t prompts = int64_t{trace.options.prompt_tokens} * requests;
  return {.first_token_seconds = PercentilesOf(std::move(first_token)),
          .between_tokens_seconds = gaps.empty() ? Percentiles{} : PercentilesOf(gaps),
          .request_seconds = PercentilesOf(std::move(whole)),
          .prefill_tokens_per_second = Rate(prompts, LengthOfUnion(std::move(waiting))),
          .decode_tokens_per_second =
              Rate(static_cast<int64_t>(gaps.size()), LengthOfUnion(std::move(writing))),
          .wall_seconds = trace.wall_seconds,
          .prompt_tokens = prompts,
          .cached_prompt_tokens = cached,
          .generated_tokens = generated,
          .num_requests = requests};
}

std::string BenchTable(const BenchFigures& figures, const LoadOptions& options,
                       const std::string& model, const std::string& machine) {
  return absl::StrCat(
      absl::StrFormat("%s on %s\n%d requests, %d at a time, of %d prompt tokens and %d tokens to "
                      "write, seed %d\n\n",
                      model, machine, figures.num_requests, options.concurrency,
                      options.prompt_tokens, options.max_tokens, options.seed),
      absl::StrFormat("%-22s %10s %10s %10s\n", "milliseconds", "p50", "p90", "p99"),
      Row("first token", figures.first_token_seconds),
      Row("between tokens", figures.between_tokens_seconds),
      Row("request", figures.request_seconds), "\n",
      absl::StrFormat("%-22s %10.1f tokens/s\n%-22s %10.1f tokens/s\n", "prefill",
                      figures.prefill_tokens_per_second, "decode",
                      figures.decode_tokens_per_second),
      absl::StrFormat("%-22s %10d of %d prompt tokens%s\n", "prefix cache hits",
                      figures.cached_prompt_tokens, figures.prompt_tokens,
                      figures.cached_prompt_tokens > 0 ? ", which count as prefilled above" : ""),
      GapLine(figures.gaps),
      absl::StrFormat("%-22s %10.2f s for %d prompt and %d generated tokens\n", "wall time",
                      figures.wall_seconds, figures.prompt_tokens, figures.generated_tokens));
}

std::string BenchJson(const BenchFigures& figures, const LoadOptions& options,
                      const std::string& model, const std::string& machine) {
  Json json = {{"model", model},
               {"machine", machine},
               {"requests", figures.num_requests},
               {"concurrency", options.concurrency},
               {"prompt_tokens_per_request", options.prompt_tokens},
               {"max_tokens", options.max_tokens},
               {"seed", options.seed}};
  json["first_token_ms"] = MillisecondsJson(figures.first_token_seconds);
  json["between_tokens_ms"] = MillisecondsJson(figures.between_tokens_seconds);
  json["request_ms"] = MillisecondsJson(figures.request_seconds);
  json["prefill_tokens_per_second"] = figures.prefill_tokens_per_second;
  json["decode_tokens_per_second"] = figures.decode_tokens_per_second;
  json["wall_seconds"] = figures.wall_seconds;
  AddGaps(figures.gaps, json);
  json["prompt_tokens"] = figures.prompt_tokens;
  json["cached_prompt_tokens"] = figures.cached_prompt_tokens;
  json["generated_tokens"] = figures.generated_tokens;
  return DumpLine(json) + "\n";
}

std::string PhasesTable(const PhasesReport& report) {
  std::string table = absl::StrCat(report.model, " on ", report.machine, "\n");
  absl::StrAppendFormat(&table, "a step of one row reads %.1f MB of weights; KV cache of %.1f MB\n",
                        static_cast<double>(report.step_weight_bytes) / 1e6,
                        static_cast<double>(report.kv_bytes) / 1e6);
  if (report.start_seconds.has_value()) {
    absl::StrAppendFormat(&table, "ready to serve after %.2f s\n", *report.start_seconds);
  }
  absl::StrAppendFormat(&table, "\n%-22s %10s %10s %10s\n", "tokens/s", "median", "least", "most");
  for (const PhaseFigures& figures : report.phases) {
    const std::vector<double>& rates = figures.tokens_per_second;
    const auto [least, most] = std::minmax_element(rates.begin(), rates.end());
    absl::StrAppendFormat(&table, "%-22s %10.2f %10.2f %10.2f\n", NameOf(figures.phase),
                          Median(rates), *least, *most);
    absl::StrAppend(&table, OtherLines(figures));
  }
  return absl::StrCat(table, GapLine(report.gaps));
}

std::string PhasesJson(const PhasesReport& report) {
  Json json = {{"model", report.model}, {"machine", report.machine}};
  if (report.start_seconds.has_value()) json["start_seconds"] = *report.start_seconds;
  json["step_weight_bytes"] = report.step_weight_bytes;
  json["kv_bytes"] = report.kv_bytes;
  AddGaps(report.gaps, json);
  json["phases"] = Json::array();
  for (const PhaseFigures& figures : report.phases) {
    json["phases"].push_back({{"phase", NameOf(figures.phase)},
                              {"tokens_per_second", Median(figures.tokens_per_second)},
                              {"rounds", figures.tokens_per_second}});
    if (!figures.replayed_per_second.empty()) {
      json["phases"].back()["draft_replay"] = ReplayJson(figures);
    }
    if (!figures.constrained_per_second.empty()) {
      json["phases"].back()["constrained"] = ConstrainedJson(figures);
    }
  }
  return DumpLine(json) + "\n";
}

std::string MachineName() {
  std::string cpu = "unknown CPU";
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (!absl::StartsWith(line, "model name")) continue;
    cpu = std::string(absl::StripAsciiWhitespace(line.substr(line.find(':') + 1)));
    break;
  }
  const unsigned cores = std::thread::hardware_concurrency();
  return absl::StrCat(cpu, ", ", cores, cores == 1 ? " core" : " cores");
}

}  // namespace sluice
