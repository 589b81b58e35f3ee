// A loop over the panels of a matrix and blocks of rows, cut into runs (shrinking_runs.h) for the
// shares of a NumaLayout, so that workers take what lies near them first, and help others at the
// end. A unit is a panel and a block.
//
// Next() may be called by any number of threads, count() times in all.
#pragma once

#include <algorithm>
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

  struct Unit {
    int64_t panel;
    int64_t block;
  };

  // Up to `panels_per_group` panels of a share take turns: first all of one block, then all of the
  // next. With one, the blocks of a panel follow each other, so that it is read from memory once.
  SharedRuns(const NumaLayout& layout, int64_t num_panels, int64_t num_blocks,
             int64_t panels_per_group = 1)
      : num_parts_(layout.num_shares()), num_blocks_(num_blocks), group_(panels_per_group) {
    for (int share = 0; share < num_parts_; ++share) {
      Part& part = parts_[share];
      part.first_panel = layout.FirstUnit(share, num_panels);
      part.end_panel = layout.FirstUnit(share + 1, num_panels);
      part.runs = ShrinkingRuns((part.end_panel - part.first_panel) * num_blocks,
                                layout.shares()[share].workers);
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
      const int64_t first = part.first_panel * num_blocks_;
      return {first + part.runs.Begin(index), first + part.runs.Begin(index + 1)};
    }
    SLUICE_CHECK(false);  // called more than count() times
    return {};
  }

  // Which one `unit` of those is.
  Unit Of(int64_t unit) const {
    const Part* part = parts_.data();
    while (unit >= part->end_panel * num_blocks_) ++part;
    const int64_t in_part = unit - part->first_panel * num_blocks_;
    const int64_t first = part->first_panel + in_part / (group_ * num_blocks_) * group_;
    const int64_t panels = std::min(group_, part->end_panel - first);
    const int64_t in_group = unit - first * num_blocks_;
    return {first + in_group % panels, in_group / panels};
  }

 private:
  struct alignas(64) Part {
    int64_t first_panel = 0;
    int64_t end_panel = 0;
    ShrinkingRuns runs{0, 1};
    std::atomic<int64_t> next{0};
  };

  const int num_parts_;
  const int64_t num_blocks_;
  const int64_t group_;  // panels
  std::array<Part, NumaLayout::kMostShares> parts_;
};

}  // namespace sluice
