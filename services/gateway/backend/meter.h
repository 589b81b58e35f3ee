// Totals of a gateway's generations, for the page. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace sluice::gateway {

// Counts durations by upper bound, as Prometheus' histograms do.
class Histogram {
 public:
  // Milliseconds.
  static constexpr std::array<double, 18> kBounds = {
      0.5, 1, 2, 3, 5, 7, 10, 15, 20, 35, 50, 100, 200, 500, 1000, 2000, 5000, 20000};

  void Add(absl::Duration duration, int64_t count = 1);
  // Cumulative, by bound; the last is the count of all.
  std::vector<int64_t> Counts() const;
  // Its samples in Prometheus' text format, in seconds; `label` is one such as model="a", or empty.
  std::string Samples(absl::string_view name, absl::string_view label) const;

 private:
  std::array<std::atomic<int64_t>, kBounds.size() + 1> counts_ = {};
  std::atomic<int64_t> sum_nanoseconds_{0};
};

struct Meter {
  Histogram time_to_first_token;
  Histogram time_between_tokens;
  std::atomic<int64_t> num_tokens{0};
  std::atomic<int64_t> num_open{0};     // generations under way
  std::atomic<int64_t> num_resumed{0};  // calls made again after a lost connection
};

// One model's; borrowed.
struct ModelMeter {
  std::string model;  // empty: there is no other, and it has no label
  const Meter* meter;
};

// In Prometheus' text format.
std::string MetersText(const std::vector<ModelMeter>& meters);

}  // namespace sluice::gateway
