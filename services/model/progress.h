// Shows on stderr how far loading has come: a bar that redraws itself on a terminal, plain lines
// elsewhere ("loading storyteller: 63% of 14.7 MB"). Loads that end within 0.3 s print nothing.
// Thread-safe: the parts of one process may load at the same time into one Progress.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "services/model/progress_bar.h"

namespace sluice {

struct ProgressOptions {
  std::string what;       // such as "loading storyteller"
  bool terminal = false;  // whether `write` reaches one
  std::function<void(std::string_view)> write;
  std::function<std::chrono::steady_clock::time_point()> now;
  std::function<int()> columns = [] { return 80; };  // how wide the terminal is now
};

class Progress {
 public:
  // Writes to stderr, whose reader it never waits for; a bar where that is a terminal.
  explicit Progress(std::string what);

  explicit Progress(ProgressOptions options);

  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Ends the bar's line where one was drawn.
  ~Progress();

  // Announces `bytes` more to come: call it before reading them.
  void Expect(uint64_t bytes);

  // Reports `bytes` more as done; draws at most 10 times a second on a terminal, once in two
  // seconds elsewhere.
  void Add(uint64_t bytes);

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  void Draw();  // REQUIRES: mutex_ is held

  const ProgressOptions options_;

  std::mutex mutex_;  // guards what follows
  uint64_t expected_ = 0;
  uint64_t done_ = 0;
  TimePoint next_draw_;
  bool drawn_ = false;
  ProgressBar bar_;
};

}  // namespace sluice
