// Text for people at a terminal. Pure functions.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace sluice {

// `text` with every control character but line breaks and tabs spelled out, as in \x1b: what a
// model writes must not move the cursor, change colours or answer for the keyboard. The control
// characters of Unicode (U+0080 to U+009F) are among them. Bytes that are not UTF-8 stay.
std::string Printable(absl::string_view text);

}  // namespace sluice
