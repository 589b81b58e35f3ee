// Turns typed at a terminal, with an editor (libedit): arrows, history, and a paste of several
// lines as one turn. Reads the user's ~/.editrc.
#pragma once

#include <memory>
#include <string>

#include "clients/cli/line_reader.h"

namespace sluice {

// Reads from the terminal that is stdin and shows what is typed on stderr, or on /dev/tty where
// that is no terminal. Former turns are read from `history_file` and kept there, for this user
// alone; empty: nowhere. Null where the terminal can't be opened.
//
// While it reads, SIGWINCH is unblocked: block it in all threads before.
std::unique_ptr<LineReader> MakeLineEditor(const std::string& history_file);

}  // namespace sluice
