#include "orchestrator/capacity/step_costs.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "orchestrator/scheduler/step.h"
#include "services/model/json_fields.h"

namespace sluice {
namespace {

constexpr double kMostSeconds = 1e6;
constexpr int kMostPositions = 1 << 28;

// [[positions, seconds], ...]
void ReadStepSeconds(JsonFields& fields, StepCosts& costs) {
  const char* const accepted =
      "a list of [positions, seconds], positions rising from 1 or more, seconds from 0";
  const nlohmann::json* const list = fields.Get("step_seconds");
  if (list == nullptr || !list->is_array() || list->empty()) {
    return fields.Reject("step_seconds", accepted);
  }
  double before = 0;
  for (const nlohmann::json& entry : *list) {
    const bool is_pair =
        entry.is_array() && entry.size() == 2 && entry[0].is_number() && entry[1].is_number();
    if (!is_pair) return fields.Reject("step_seconds", accepted);
    const auto positions = entry[0].get<double>(), seconds = entry[1].get<double>();
    const bool in_range = positions >= 1 && positions > before && positions <= kMostPositions &&
                          seconds >= 0 && seconds <= kMostSeconds;
    if (!in_range) return fields.Reject("step_seconds", accepted);
    before = positions;
    costs.step_seconds.emplace_back(positions, seconds);
  }
}

absl::StatusOr<StepCosts> ReadCosts(const nlohmann::json& entry, const std::string& source,
                                    size_t index) {
  const std::string prefix = absl::StrCat("costs[", index, "].");
  if (!entry.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": costs[", index, "] is ",
                                                   ValueText(entry), "; accepted: an object"));
  }
  JsonFields fields(source, entry, prefix);
  const auto size = [&](const char* name, int otherwise) {
    return fields.OptionalInt(name, 1, kMostPositions).value_or(otherwise);
  };
  const auto seconds = [&](const char* name) {
    return fields.NumberAtLeast(name, 0, kMostSeconds).value_or(0);
  };
  StepCosts costs;
  costs.tp = size("tp", 1);
  costs.pp = size("pp", 1);
  costs.max_step_tokens = size("max_step_tokens", 0);
  costs.max_positions = size("max_positions", 0);
  costs.block_size = size("block_size", 0);
  costs.kv_blocks = size("kv_blocks", 0);
  ReadStepSeconds(fields, costs);
  costs.row_seconds = seconds("row_seconds");
  costs.decode_position_seconds = seconds("decode_position_seconds");
  costs.prompt_pair_seconds = seconds("prompt_pair_seconds");
  costs.request_seconds = seconds("request_seconds");
  if (!fields.status().ok()) return fields.status();
  return costs;
}

}  // namespace

StepLoad LoadOfStep(const Step& step) {
  StepLoad load;
  for (const Segment& segment : step.segments) {
    const auto count = static_cast<double>(segment.tokens.size());
    load.positions += count;
    load.rows += static_cast<double>(segment.rows.size());
    if (segment.tokens.size() == 1) {
      load.decode_positions += segment.first_position + 1;
    } else {
      load.prompt_pairs += count * (segment.first_position + (count + 1) / 2);
    }
  }
  return load;
}

double StepCosts::SecondsOf(const StepLoad& load) const {
  auto above = std::lower_bound(
      step_seconds.begin(), step_seconds.end(), load.positions,
      [](const std::pair<double, double>& entry, double at) { return entry.first < at; });
  double seconds = step_seconds.front().second;
  if (above != step_seconds.begin() && step_seconds.size() > 1) {
    if (above == step_seconds.end()) --above;
    const auto& [x0, y0] = *(above - 1);
    const auto& [x1, y1] = *above;
    seconds = y0 + (load.positions - x0) / (x1 - x0) * (y1 - y0);
  }
  seconds += row_seconds * load.rows + decode_position_seconds * load.decode_positions +
             prompt_pair_seconds * load.prompt_pairs;
  return std::max(seconds, 0.0);
}

absl::StatusOr<StepCosts> StepCostTable::Of(int tp, int pp) const {
  std::vector<std::string> known;
  for (const StepCosts& entry : costs) {
    if (entry.tp == tp && entry.pp == pp) return entry;
    known.push_back(absl::StrCat("--tp ", entry.tp, " --pp ", entry.pp));
  }
  return absl::NotFoundError(absl::StrCat("there are no costs of --tp ", tp, " --pp ", pp,
                                          "; there are those of ", absl::StrJoin(known, ", ")));
}

absl::StatusOr<StepCostTable> ParseStepCosts(const std::string& text, const std::string& source) {
  const absl::StatusOr<nlohmann::json> json = ParseJson(text, source);
  if (!json.ok()) return json.status();
  if (!json->is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": ", ValueText(*json), " is no object with \"costs\""));
  }
  JsonFields fields(source, *json);
  StepCostTable table;
  table.model = fields.String("model").value_or("");
  table.machine = fields.String("machine").value_or("");
  const nlohmann::json* const list = fields.Get("costs");
  if (list == nullptr || !list->is_array() || list->empty()) {
    fields.Reject("costs", "a list of objects, one for each arrangement");
  }
  if (!fields.status().ok()) return fields.status();
  for (size_t i = 0; i < list->size(); ++i) {
    absl::StatusOr<StepCosts> costs = ReadCosts((*list)[i], source, i);
    if (!costs.ok()) return costs.status();
    if (table.Of(costs->tp, costs->pp).ok()) {
      return absl::InvalidArgumentError(absl::StrCat(source, ": costs[", i, "] is of tp ",
                                                     costs->tp, " and pp ", costs->pp,
                                                     ", as one before it; accepted: one of each"));
    }
    table.costs.push_back(*std::move(costs));
  }
  return table;
}

std::string FormatStepCosts(const StepCostTable& table) {
  nlohmann::ordered_json json = {{"model", table.model}, {"machine", table.machine}};
  json["costs"] = nlohmann::ordered_json::array();
  for (const StepCosts& costs : table.costs) {
    nlohmann::ordered_json entry = {{"tp", costs.tp}, {"pp", costs.pp}};
    const std::pair<const char*, int32_t> sizes[] = {{"max_step_tokens", costs.max_step_tokens},
                                                     {"max_positions", costs.max_positions},
                                                     {"block_size", costs.block_size},
                                                     {"kv_blocks", costs.kv_blocks}};
    for (const auto& [name, value] : sizes) {
      if (value > 0) entry[name] = value;
    }
    entry["step_seconds"] = costs.step_seconds;
    entry["row_seconds"] = costs.row_seconds;
    entry["decode_position_seconds"] = costs.decode_position_seconds;
    entry["prompt_pair_seconds"] = costs.prompt_pair_seconds;
    entry["request_seconds"] = costs.request_seconds;
    json["costs"].push_back(entry);
  }
  return json.dump(2, ' ', /*ensure_ascii=*/false,
                   nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

}  // namespace sluice
