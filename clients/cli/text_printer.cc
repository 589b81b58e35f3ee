#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "clients/cli/event_printer.h"
#include "clients/cli/terminal_text.h"

namespace sluice {
namespace {

std::string HeaderOf(int sequence) { return absl::StrCat("--- sequence ", sequence, " ---\n"); }

class TextPrinter : public EventPrinter {
 public:
  TextPrinter(std::ostream& out, const TextOptions& options) : out_(out), options_(options) {}

  void Print(const v1::Chunk& chunk) override {
    Begin();
    std::string& text = texts_[chunk.sequence()];
    const std::string piece = PieceOf(chunk, /*first=*/text.empty());
    text += piece;
    if (chunk.sequence() == 0) Write(piece);
  }

  void Finish(const v1::Finished& finished) override {
    Begin();
    for (int sequence = 1; sequence < options_.num_sequences; ++sequence) {
      EndLine();
      Write(HeaderOf(sequence));
      Write(texts_[sequence]);
    }
    EndLine();
  }

  void Abort() override { EndLine(); }

 private:
  std::string PieceOf(const v1::Chunk& chunk, bool first) const {
    if (options_.has_tokenizer) return chunk.text();
    const std::string ids = absl::StrJoin(chunk.token_ids(), " ");
    return first || ids.empty() ? ids : absl::StrCat(" ", ids);
  }

  // With the first event: a request that is refused prints nothing.
  void Begin() {
    if (!begun_ && options_.num_sequences > 1) Write(HeaderOf(0));
    begun_ = true;
  }

  void Write(const std::string& text) {
    if (text.empty()) return;
    out_ << (options_.terminal ? Printable(text) : text) << std::flush;
    last_ = text.back();
  }

  void EndLine() {
    if (last_ != '\n') Write("\n");
  }

  std::ostream& out_;
  const TextOptions options_;
  std::map<int, std::string> texts_;
  char last_ = '\n';
  bool begun_ = false;
};

}  // namespace

std::unique_ptr<EventPrinter> MakeTextPrinter(std::ostream& out, const TextOptions& options) {
  return std::make_unique<TextPrinter>(out, options);
}

}  // namespace sluice
