#include "clients/cli/bench_fit.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/model/json_fields.h"

namespace sluice {
namespace {

constexpr int32_t kShortPrompt = 8;
constexpr int32_t kLongPrompt = 2048;
constexpr int32_t kTokensOfStream = 40;
constexpr int kLongStreams = 8;

// One load of the fit.
struct Probe {
  int32_t prompt = 1;
  int32_t tokens = 1;  // 1: a prefill
  int32_t streams = 1;

  bool is_prefill() const { return tokens == 1; }
};

double MedianOf(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<Probe> ProbesFor(const FitOptions& options) {
  std::vector<Probe> probes;
  const int32_t step = options.max_step_tokens;
  const int32_t most = options.max_positions - 1;
  for (int32_t tokens = 1; tokens < std::min(step, most); tokens *= 2) {
    probes.push_back({.prompt = tokens});
  }
  probes.push_back({.prompt = std::min(step, most)});
  if (2 * step <= most) probes.push_back({.prompt = 2 * step});
  const int32_t tokens = std::min(kTokensOfStream, options.max_positions / 2);
  for (int32_t streams = 1; streams <= options.max_streams; streams *= 2) {
    if (streams * (kShortPrompt + tokens) > options.kv_positions) break;
    probes.push_back({.prompt = kShortPrompt, .tokens = tokens, .streams = streams});
  }
  const int32_t longest = std::min(
      {kLongPrompt, options.max_positions - tokens, options.kv_positions / kLongStreams - tokens});
  if (longest > 4 * (kShortPrompt + tokens)) {
    probes.push_back({.prompt = longest, .tokens = tokens, .streams = kLongStreams});
  }
  return probes;
}

LoadOptions LoadOfProbe(const Probe& probe, const FitOptions& options, uint64_t seed) {
  LoadOptions load;
  load.prompt_tokens = probe.prompt;
  load.max_tokens = probe.tokens;
  load.concurrency = load.requests = probe.streams;
  load.vocabulary_size = options.vocabulary_size;
  load.seed = seed;
  load.drafts.set_decline(true);
  return load;
}

// Seconds between tokens while all streams write, the median; of a prefill, to the first token.
double SecondsOf(const Probe& probe, const LoadTrace& trace) {
  if (probe.is_prefill()) {
    return trace.requests.front().arrivals.front().seconds - trace.requests.front().start;
  }
  double all_began = 0;
  double first_ended = trace.wall_seconds;
  for (const RequestTrace& request : trace.requests) {
    all_began = std::max(all_began, request.arrivals.front().seconds);
    first_ended = std::min(first_ended, request.arrivals.back().seconds);
  }
  // Of each stream, the mean over that time: tokens that a client reads late come together.
  std::vector<double> means;
  for (const RequestTrace& request : trace.requests) {
    double first = -1, last = -1;
    int tokens = 0;
    for (const Arrival& arrival : request.arrivals) {
      if (arrival.seconds < all_began || arrival.seconds > first_ended) continue;
      if (first >= 0) tokens += arrival.tokens;
      if (first < 0) first = arrival.seconds;
      last = arrival.seconds;
    }
    if (tokens > 0) means.push_back((last - first) / tokens);
  }
  return means.empty() ? 0 : MedianOf(std::move(means));
}

FitMeasurements Sorted(const std::vector<Probe>& probes, const std::vector<double>& seconds,
                       const FitOptions& options) {
  FitMeasurements measured;
  for (size_t i = 0; i < probes.size(); ++i) {
    const Probe& probe = probes[i];
    if (probe.is_prefill()) {
      auto& into = probe.prompt > options.max_step_tokens ? measured.long_ones : measured.prefills;
      into.push_back({.tokens = probe.prompt, .seconds = seconds[i]});
    } else if (seconds[i] > 0) {
      auto& into = probe.prompt > kShortPrompt ? measured.long_decode : measured.decodes;
      into.push_back({.streams = probe.streams,
                      .context = probe.prompt + probe.tokens / 2.0,
                      .seconds = seconds[i]});
    }
  }
  return measured;
}

// What is known at `at` of points by rising x, on lines between them.
double Between(const std::map<double, double>& points, double at) {
  const auto above = points.lower_bound(at);
  if (above == points.end()) return points.rbegin()->second;
  if (above == points.begin() || above->first == at) return above->second;
  const auto below = std::prev(above);
  const double part = (at - below->first) / (above->first - below->first);
  return below->second + part * (above->second - below->second);
}

// Of the stages of a pipeline each computes another part of the streams.
double RowsOf(const FitMeasurements::Decode& decode, const FitOptions& options) {
  return std::max(1.0, static_cast<double>(decode.streams) / options.num_stages);
}

double PairsOf(double tokens) { return tokens * (tokens + 1) / 2; }

// By how much streams with long prompts are slower, for each position more that they read.
double DecodePositionSeconds(const FitMeasurements& measured, const FitOptions& options) {
  if (measured.long_decode.empty()) return 0;
  const FitMeasurements::Decode& slow = measured.long_decode.front();
  for (const FitMeasurements::Decode& quick : measured.decodes) {
    if (quick.streams != slow.streams) continue;
    const double more = RowsOf(slow, options) * (slow.context - quick.context);
    return std::max(slow.seconds - quick.seconds, 0.0) / more;
  }
  return 0;
}

}  // namespace

StepCosts SolveCosts(const FitMeasurements& measured, const FitOptions& options) {
  StepCosts costs;
  costs.decode_position_seconds = DecodePositionSeconds(measured, options);
  // Steps that decode, without what they read: step(n) + n rows.
  std::map<double, double> decode;
  for (const FitMeasurements::Decode& entry : measured.decodes) {
    const double rows = RowsOf(entry, options);
    decode[rows] = entry.seconds - costs.decode_position_seconds * rows * entry.context;
  }
  costs.request_seconds = std::max(measured.prefills.front().seconds - decode.begin()->second, 0.0);
  // Steps that prefill: step(n) + a row + pairs.
  std::map<double, double> prefill;
  for (const FitMeasurements::Prefill& entry : measured.prefills) {
    prefill[entry.tokens] = entry.seconds - costs.request_seconds;
  }
  if (!measured.long_ones.empty()) {
    // The second of two steps has twice as many positions before it: (n^2 + n^2 / 2) pairs.
    const double whole = measured.prefills.back().tokens;
    const double second = measured.long_ones.front().seconds - measured.prefills.back().seconds;
    const double more = second - prefill.rbegin()->second;
    costs.prompt_pair_seconds = std::max(more, 0.0) / (whole * whole);
  }
  for (auto& [tokens, seconds] : prefill) seconds -= costs.prompt_pair_seconds * PairsOf(tokens);
  // Where both are known, they differ by the rows but one.
  double more = 0, rows = 0;
  for (const auto& [count, seconds] : decode) {
    if (count <= 1 || count > prefill.rbegin()->first) continue;
    more += seconds - Between(prefill, count);
    rows += count - 1;
  }
  costs.row_seconds = rows > 0 ? std::max(more / rows, 0.0) : 0;

  std::map<double, double> steps;
  for (const auto& [tokens, seconds] : prefill) steps[tokens] = seconds - costs.row_seconds;
  for (const auto& [count, seconds] : decode) steps[count] = seconds - costs.row_seconds * count;
  double least = 0;
  for (const auto& [positions, seconds] : steps) {
    least = std::max(least, seconds);
    costs.step_seconds.emplace_back(positions, least);
  }
  return costs;
}

int NumRequests(const FitOptions& options) {
  int requests = 0;
  for (const Probe& probe : ProbesFor(options)) requests += probe.streams;
  return requests * (options.rounds + 1);
}

absl::StatusOr<StepCosts> FitStepCosts(Client& client, const FitOptions& options,
                                       const LoadProgress& progress) {
  const std::vector<Probe> probes = ProbesFor(options);
  std::vector<std::vector<double>> seconds(probes.size());
  int finished = 0;
  int64_t tokens = 0;
  uint64_t seed = options.seed;
  // A round that is not counted comes first.
  for (int round = 0; round <= options.rounds; ++round) {
    for (size_t i = 0; i < probes.size(); ++i) {
      const absl::StatusOr<LoadTrace> trace =
          RunLoad(client, LoadOfProbe(probes[i], options, seed++), [](int, int64_t) {});
      if (!trace.ok()) return trace.status();
      if (client.interrupted()) return absl::CancelledError("interrupted");
      if (round > 0) seconds[i].push_back(SecondsOf(probes[i], *trace));
      finished += probes[i].streams;
      tokens += int64_t{probes[i].streams} * probes[i].tokens;
      progress(finished, tokens);
    }
  }
  std::vector<double> medians;
  medians.reserve(seconds.size());
  for (std::vector<double>& rounds : seconds) medians.push_back(MedianOf(std::move(rounds)));
  return SolveCosts(Sorted(probes, medians, options), options);
}

absl::Status UpdateCostFile(const std::string& path, const std::string& model,
                            const std::string& machine, const StepCosts& costs) {
  StepCostTable table{.model = model, .machine = machine};
  if (std::filesystem::exists(path)) {
    const absl::StatusOr<std::string> text = ReadTextFile(path);
    if (!text.ok()) return text.status();
    absl::StatusOr<StepCostTable> known = ParseStepCosts(*text, path);
    if (!known.ok()) return known.status();
    if (known->model == model && known->machine == machine) table.costs = std::move(known->costs);
  }
  std::erase_if(table.costs, [&costs](const StepCosts& entry) {
    return entry.tp == costs.tp && entry.pp == costs.pp;
  });
  table.costs.push_back(costs);
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << FormatStepCosts(table) << std::flush;
  return out ? absl::OkStatus()
             : absl::InvalidArgumentError(absl::StrCat("--fit: ", path, " cannot be written"));
}

}  // namespace sluice
