#include "clients/cli/progress_line.h"

#include <string>

#include "absl/strings/str_format.h"

namespace sluice {
namespace {

constexpr int kBarWidth = 30;

}  // namespace

ProgressLine::ProgressLine(std::ostream& err, bool terminal, int total)
    : err_(err),
      terminal_(terminal),
      total_(total),
      interval_(terminal ? absl::Milliseconds(100) : absl::Seconds(2)) {}

ProgressLine::~ProgressLine() {
  if (terminal_ && drawn_) err_ << std::endl;
}

void ProgressLine::Update(absl::Time now, int finished, int64_t tokens) {
  if (now < next_draw_ && finished < total_) return;
  Draw(finished, tokens);
  next_draw_ = now + interval_;
  drawn_ = true;
}

void ProgressLine::Draw(int finished, int64_t tokens) {
  const std::string text =
      absl::StrFormat("%d of %d requests, %d tokens", finished, total_, tokens);
  if (!terminal_) {
    err_ << text << std::endl;
    return;
  }
  const int filled = static_cast<int>(int64_t{finished} * kBarWidth / total_);
  err_ << "\r[" << std::string(filled, '#') << std::string(kBarWidth - filled, '.') << "] " << text
       << "\x1b[K" << std::flush;
}

}  // namespace sluice
