#include "clients/cli/refresh.h"

#include "absl/strings/str_replace.h"
#include "clients/cli/outcome.h"
#include "clients/cli/screen.h"
#include "services/process/stop_signal.h"

namespace sluice {
namespace {

// What stood there is overwritten line by line, so that nothing flickers.
constexpr char kHome[] = "\x1b[H";
constexpr char kClearScreen[] = "\x1b[2J";
constexpr char kClearToEndOfLine[] = "\x1b[K\n";
constexpr char kClearBelow[] = "\x1b[J";
// A character that takes two columns must not move those of the lines below.
constexpr char kWrapNot[] = "\x1b[?7l";
constexpr char kWrap[] = "\x1b[?7h";

}  // namespace

int ShowUntilInterrupted(Environment& environment, absl::Duration interval,
                         const std::function<absl::StatusOr<std::string>()>& look) {
  StopSignal interrupted;
  const Interrupt::Handler handler(environment.interrupt, [&] { interrupted.Set(); });
  bool first = true;
  while (true) {
    const absl::StatusOr<std::string> text = look();
    if (environment.interrupt.requested()) return environment.interrupt.exit_code();
    if (!text.ok()) return Fail(text.status(), environment);
    if (environment.out_is_terminal) {
      environment.out << (first ? kClearScreen : "") << kHome << kWrapNot
                      << absl::StrReplaceAll(OnScreen(*text, environment.screen()),
                                             {{"\n", kClearToEndOfLine}})
                      << kClearBelow << kWrap;
    } else {
      environment.out << (first ? "" : "\n") << *text;
    }
    first = false;
    if (!environment.out.flush()) return Succeed(environment);
    if (interrupted.WaitFor(interval)) {
      return environment.interrupt.exit_code();
    }
  }
}

}  // namespace sluice
