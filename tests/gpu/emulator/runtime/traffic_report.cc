#include "tests/gpu/emulator/runtime/traffic_report.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace sluice::cuda::emulator {
namespace {

constexpr size_t kMostSteps = 6;

std::string Demangled(const std::string& name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 ? text : name;
  std::free(text);
  return result;
}

const char* UnitOf(Space space) { return space == Space::kShared ? "turns" : "sectors"; }

}  // namespace

std::string TrafficReport(const std::string& kernel, const Traffic& traffic) {
  AccessCost shared, global;
  std::vector<std::pair<Traffic::Key, AccessCost>> costly;
  for (const auto& [key, cost] : traffic.costs()) {
    (key.space == Space::kShared ? shared : global) += cost;
    if (cost.turns > cost.least) costly.emplace_back(key, cost);
  }
  std::sort(costly.begin(), costly.end(), [](const auto& a, const auto& b) {
    return a.second.turns - a.second.least > b.second.turns - b.second.least;
  });
  if (costly.size() > kMostSteps) costly.resize(kMostSteps);
  std::string text = absl::StrFormat(
      "traffic: %s, %d launches: shared memory %d turns of %d needed, global memory %d sectors of "
      "%d\n",
      Demangled(kernel), traffic.launches(), shared.turns, shared.least, global.turns,
      global.least);
  for (const auto& [key, cost] : costly) {
    absl::StrAppendFormat(&text, "traffic:   %d accesses, %d %s of %d: line %d: %s\n",
                          cost.accesses, cost.turns, UnitOf(key.space), cost.least,
                          key.step->source->line, key.step->source->text);
  }
  return text;
}

}  // namespace sluice::cuda::emulator
