// Source of user messages for `sluice chat`: a pipe, a line at a time, or a terminal with an
// editor.
#pragma once

#include <istream>
#include <memory>
#include <ostream>
#include <string>

namespace sluice {

// Not thread-safe.
class LineReader {
 public:
  enum class Result {
    kLine,         // a turn was read, without the line break that ended it; it may have others
    kInterrupted,  // Ctrl-C: what had been typed is gone
    kEnd,          // Ctrl-D, or the end of the input
  };

  virtual ~LineReader() = default;
  virtual Result Read(std::string* line) = 0;
};

// Lines of a stream. Shows "> " before each on `prompt`, where that is not null. Both are borrowed.
std::unique_ptr<LineReader> MakeStreamReader(std::istream& in, std::ostream* prompt);

}  // namespace sluice
