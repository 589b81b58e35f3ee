#include "services/model/shown_bar.h"

#include <atomic>

namespace sluice {
namespace {

std::atomic<bool> bars_allowed{false};
std::atomic<bool> bar_shown{false};

}  // namespace

void AllowProgressBars() { bars_allowed = true; }
bool ProgressBarsAllowed() { return bars_allowed; }
void SetBarShown(bool shown) { bar_shown = shown; }
std::string EraseShownBar() { return bar_shown ? "\r\x1b[K" : ""; }

}  // namespace sluice
