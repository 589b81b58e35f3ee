// Progress of a load on stderr: a bar on a terminal, occasional lines elsewhere. Not thread-safe;
// the stream is borrowed.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <functional>
#include <ostream>

#include "absl/time/time.h"
#include "services/model/progress_bar.h"

namespace sluice {

class ProgressLine {
 public:
  // `columns` tells how wide the terminal is now.
  ProgressLine(
      std::ostream& err, bool terminal, int total,
      std::function<int()> columns = [] { return TerminalColumns(STDERR_FILENO); });
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
  const std::function<int()> columns_;
  const absl::Duration interval_;
  absl::Time next_draw_ = absl::InfinitePast();
  bool drawn_ = false;
  ProgressBar bar_;
};

}  // namespace sluice
