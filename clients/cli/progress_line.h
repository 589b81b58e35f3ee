// How far a load is, on stderr: a bar that redraws itself on a terminal, a line now and then
// elsewhere. Not thread-safe; the stream is borrowed.
#pragma once

#include <cstdint>
#include <ostream>

#include "absl/time/time.h"

namespace sluice {

class ProgressLine {
 public:
  ProgressLine(std::ostream& err, bool terminal, int total);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  // Ends the bar's line where one was drawn.
  ~ProgressLine();

  // Draws at most ten times a second on a terminal, once in two seconds elsewhere. `now` never goes
  // back.
  void Update(absl::Time now, int finished, int64_t tokens);

 private:
  void Draw(int finished, int64_t tokens);

  std::ostream& err_;
  const bool terminal_;
  const int total_;
  const absl::Duration interval_;
  absl::Time next_draw_ = absl::InfinitePast();
  bool drawn_ = false;
};

}  // namespace sluice
