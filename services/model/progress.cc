#include "services/model/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "services/model/shown_bar.h"
#include "services/process/stderr_writer.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kQuietStart{300};
constexpr milliseconds kBarInterval{100};
constexpr milliseconds kLineInterval{2000};

ProgressOptions OnStderr(std::string what) {
  return {
      .what = std::move(what),
      .terminal = ProgressBarsAllowed() && isatty(STDERR_FILENO) == 1,
      .write =
          [](std::string_view text) {
            uint64_t lost = 0;
            StderrWriter::Get().Write({text.data(), text.size()}, &lost);
          },
      .now = [] { return std::chrono::steady_clock::now(); },
      .columns = [] { return TerminalColumns(STDERR_FILENO); },
  };
}

// "14.7 MB", in powers of ten as file managers count.
std::string SizeText(uint64_t bytes) {
  const auto size = static_cast<double>(bytes);
  if (size < 1e6) return absl::StrFormat("%.1f kB", size / 1e3);
  if (size < 1e9) return absl::StrFormat("%.1f MB", size / 1e6);
  return absl::StrFormat("%.1f GB", size / 1e9);
}

}  // namespace

Progress::Progress(std::string what) : Progress(OnStderr(std::move(what))) {}

Progress::Progress(ProgressOptions options)
    : options_(std::move(options)), next_draw_(options_.now() + kQuietStart) {}

Progress::~Progress() {
  const std::lock_guard lock(mutex_);
  if (!drawn_ || !options_.terminal) return;
  SetBarShown(false);
  options_.write("\n");
}

void Progress::Expect(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  expected_ += bytes;
}

void Progress::Add(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  done_ += bytes;
  const TimePoint now = options_.now();
  // The last update of a load that has shown itself is always drawn, so that it ends at 100%.
  if (now < next_draw_ && !(drawn_ && done_ >= expected_)) return;
  Draw();
  drawn_ = true;
  next_draw_ = now + (options_.terminal ? kBarInterval : kLineInterval);
}

void Progress::Draw() {
  const double share =
      expected_ == 0 ? 1.0
                     : std::min(1.0, static_cast<double>(done_) / static_cast<double>(expected_));
  const std::string text =
      absl::StrFormat("%s: %d%% of %s", options_.what, static_cast<int>(share * 100),
                      SizeText(std::max(expected_, done_)));
  if (!options_.terminal) {
    options_.write(absl::StrCat(text, "\n"));
    return;
  }
  options_.write(bar_.Draw(share, text, options_.columns()));
  SetBarShown(true);
}

}  // namespace sluice
