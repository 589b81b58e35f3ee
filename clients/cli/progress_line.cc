#include "clients/cli/progress_line.h"

#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "services/model/shown_bar.h"

namespace sluice {

ProgressLine::ProgressLine(std::ostream& err, bool terminal, int total,
                           std::function<int()> columns)
    : err_(err),
      terminal_(terminal),
      total_(total),
      columns_(std::move(columns)),
      interval_(terminal ? absl::Milliseconds(100) : absl::Seconds(2)) {}

ProgressLine::~ProgressLine() {
  if (!terminal_ || !drawn_) return;
  SetBarShown(false);
  err_ << std::endl;
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
  err_ << bar_.Draw(static_cast<double>(finished) / total_, text, columns_()) << std::flush;
  SetBarShown(true);
}

}  // namespace sluice
