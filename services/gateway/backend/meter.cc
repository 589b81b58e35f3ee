#include "services/gateway/backend/meter.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace sluice::gateway {
namespace {

std::string Head(absl::string_view name, absl::string_view type, absl::string_view help) {
  return absl::StrCat("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
}

std::string Braced(absl::string_view labels) {
  return labels.empty() ? "" : absl::StrCat("{", labels, "}");
}

// Names of models may have any character.
std::string LabelOf(const ModelMeter& meter) {
  if (meter.model.empty()) return "";
  return absl::StrCat(
      "model=\"", absl::StrReplaceAll(meter.model, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}}),
      "\"");
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

std::string Histogram::Samples(absl::string_view name, absl::string_view label) const {
  const std::vector<int64_t> counts = Counts();
  const std::string before = label.empty() ? "" : absl::StrCat(label, ",");
  std::string text;
  for (size_t i = 0; i < kBounds.size(); ++i) {
    absl::StrAppend(&text, name, "_bucket{", before, "le=\"", kBounds[i] / 1000, "\"} ", counts[i],
                    "\n");
  }
  absl::StrAppend(&text, name, "_bucket{", before, "le=\"+Inf\"} ", counts.back(), "\n", name,
                  "_sum", Braced(label), " ", static_cast<double>(sum_nanoseconds_) / 1e9, "\n",
                  name, "_count", Braced(label), " ", counts.back(), "\n");
  return text;
}

std::string MetersText(const std::vector<ModelMeter>& meters) {
  std::string text;
  const auto single = [&](absl::string_view name, absl::string_view type, absl::string_view help,
                          std::atomic<int64_t> Meter::*value) {
    absl::StrAppend(&text, Head(name, type, help));
    for (const ModelMeter& each : meters) {
      absl::StrAppend(&text, name, Braced(LabelOf(each)), " ", (each.meter->*value).load(), "\n");
    }
  };
  const auto histogram = [&](absl::string_view name, absl::string_view help,
                             Histogram Meter::*value) {
    absl::StrAppend(&text, Head(name, "histogram", help));
    for (const ModelMeter& each : meters) {
      absl::StrAppend(&text, (each.meter->*value).Samples(name, LabelOf(each)));
    }
  };
  single("sluice_gateway_generations", "gauge", "Generate calls under way.", &Meter::num_open);
  single("sluice_gateway_tokens_total", "counter", "Tokens received.", &Meter::num_tokens);
  single("sluice_gateway_resumed_total", "counter",
         "Generate calls made again after their connection was lost.", &Meter::num_resumed);
  histogram("sluice_gateway_time_to_first_token_seconds",
            "From a Generate call to its first token.", &Meter::time_to_first_token);
  histogram("sluice_gateway_time_between_tokens_seconds", "Between tokens of a sequence.",
            &Meter::time_between_tokens);
  return text;
}

}  // namespace sluice::gateway
