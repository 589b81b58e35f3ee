#include "services/gateway/backend/meter.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace sluice::gateway {
namespace {

std::string Single(absl::string_view name, absl::string_view type, absl::string_view help,
                   int64_t value) {
  return absl::StrCat("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n", name, " ",
                      value, "\n");
}

}  // namespace

void Histogram::Add(absl::Duration duration, int64_t count) {
  const double milliseconds = absl::ToDoubleMilliseconds(duration);
  const auto bound = std::lower_bound(kBounds.begin(), kBounds.end(), milliseconds);
  counts_[static_cast<size_t>(bound - kBounds.begin())] += count;
  sum_nanoseconds_ += absl::ToInt64Nanoseconds(duration) * count;
}

std::vector<int64_t> Histogram::Counts() const {
  std::vector<int64_t> counts;
  int64_t sum = 0;
  for (const std::atomic<int64_t>& count : counts_) counts.push_back(sum += count);
  return counts;
}

std::string Histogram::Text(absl::string_view name, absl::string_view help) const {
  const std::vector<int64_t> counts = Counts();
  std::string text = absl::StrCat("# HELP ", name, " ", help, "\n# TYPE ", name, " histogram\n");
  for (size_t i = 0; i < kBounds.size(); ++i) {
    absl::StrAppend(&text, name, "_bucket{le=\"", kBounds[i] / 1000, "\"} ", counts[i], "\n");
  }
  absl::StrAppend(&text, name, "_bucket{le=\"+Inf\"} ", counts.back(), "\n", name, "_sum ",
                  static_cast<double>(sum_nanoseconds_) / 1e9, "\n", name, "_count ", counts.back(),
                  "\n");
  return text;
}

std::string Meter::Text() const {
  return absl::StrCat(
      Single("sluice_gateway_generations", "gauge", "Generate calls under way.", num_open),
      Single("sluice_gateway_tokens_total", "counter", "Tokens received.", num_tokens),
      Single("sluice_gateway_resumed_total", "counter",
             "Generate calls made again after their connection was lost.", num_resumed),
      time_to_first_token.Text("sluice_gateway_time_to_first_token_seconds",
                               "From a Generate call to its first token."),
      time_between_tokens.Text("sluice_gateway_time_between_tokens_seconds",
                               "Between tokens of a sequence."));
}

}  // namespace sluice::gateway
