// Everything a command touches outside its arguments, so that tests can hand it streams of their
// own. The streams and the interrupt are borrowed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <istream>
#include <limits>
#include <memory>
#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "clients/cli/interrupt.h"
#include "clients/cli/screen.h"

namespace sluice {

class InProcessPipeline;
class LineReader;
struct InProcessOptions;

struct Environment {
  std::istream& in;
  std::ostream& out;  // the result alone
  std::ostream& err;  // everything else
  Interrupt& interrupt;
  bool in_is_terminal = false;
  bool out_is_terminal = false;
  bool err_is_terminal = false;
  int columns = 100;  // of the terminal that help is read in
  // Of the terminal at stdout, as it is now.
  std::function<ScreenSize()> screen = [] { return ScreenSize(); };
  // Where temporary files go: TMPDIR, or /tmp.
  std::string temp_folder = "/tmp";
  // What this host lets processes hold: MemoryLimit() of usable_memory.h.
  uint64_t memory_limit = std::numeric_limits<uint64_t>::max();
  // Path of this program: the services' binaries and the embedded model are found from it.
  std::string executable;
  // Bearer token from the environment: SLUICE_API_KEY, else SLUICE_TOKEN; may be empty.
  std::string token;
  // SLUICE_API_KEY alone, which is also the key that `up` asks of its clients; may be empty.
  std::string api_key;
  // SLUICE_ENDPOINT: what --endpoint is where it is not given; may be empty.
  std::string endpoint;
  // StartInProcess of in_process.h.
  std::function<absl::StatusOr<std::unique_ptr<InProcessPipeline>>(const InProcessOptions&)>
      start_in_process;
  // MakeLineEditor of line_editor.h, for a terminal at stdin; may be unset, and may return null.
  std::function<std::unique_ptr<LineReader>()> make_line_editor;

  // Of text that goes to stdout, in characters: 0, unlimited, where that is no terminal.
  size_t text_width() const { return out_is_terminal ? static_cast<size_t>(screen().columns) : 0; }
};

}  // namespace sluice
