#include "clients/cli/line_reader.h"

namespace sluice {
namespace {

class StreamReader final : public LineReader {
 public:
  StreamReader(std::istream& in, std::ostream* prompt) : in_(in), prompt_(prompt) {}

  Result Read(std::string* line) override {
    if (prompt_ != nullptr) *prompt_ << "> " << std::flush;
    return std::getline(in_, *line) ? Result::kLine : Result::kEnd;
  }

 private:
  std::istream& in_;
  std::ostream* const prompt_;
};

}  // namespace

std::unique_ptr<LineReader> MakeStreamReader(std::istream& in, std::ostream* prompt) {
  return std::make_unique<StreamReader>(in, prompt);
}

}  // namespace sluice
