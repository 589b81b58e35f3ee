// A loop over the panels of a matrix, cut into runs (shrinking_runs.h) for the shares of a
// NumaLayout, so that workers take what lies near them first, and help others at the end.
//
// Next() may be called by any number of threads, count() times in all.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "kernels/check.h"
#include "kernels/cpu/numa.h"
#include "kernels/cpu/shrinking_runs.h"

namespace sluice {

class SharedRuns {
 public:
  struct Units {
    int64_t begin;
    int64_t end;
  };

  // A panel is `units_per_panel` units in a row.
  SharedRuns(const NumaLayout& layout, int64_t num_panels, int64_t units_per_panel)
      : num_parts_(layout.num_shares()) {
    for (int share = 0; share < num_parts_; ++share) {
      const int64_t first = layout.FirstUnit(share, num_panels) * units_per_panel;
      const int64_t end = layout.FirstUnit(share + 1, num_panels) * units_per_panel;
      parts_[share].first = first;
      parts_[share].runs = ShrinkingRuns(end - first, layout.shares()[share].workers);
    }
  }

  // Runs of all shares.
  int64_t count() const {
    int64_t count = 0;
    for (int part = 0; part < num_parts_; ++part) count += parts_[part].runs.count();
    return count;
  }

  // A run that nobody has taken yet: of `share`, or of the next one that has some.
  Units Next(int share) {
    for (int i = 0; i < num_parts_; ++i) {
      Part& part = parts_[(share + i) % num_parts_];
      const int64_t index = part.next.fetch_add(1, std::memory_order_relaxed);
      if (index >= part.runs.count()) continue;
      return {part.first + part.runs.Begin(index), part.first + part.runs.Begin(index + 1)};
    }
    SLUICE_CHECK(false);  // called more than count() times
    return {};
  }

 private:
  struct alignas(64) Part {
    int64_t first = 0;  // unit
    ShrinkingRuns runs{0, 1};
    std::atomic<int64_t> next{0};
  };

  const int num_parts_;
  std::array<Part, NumaLayout::kMostShares> parts_;
};

}  // namespace sluice
