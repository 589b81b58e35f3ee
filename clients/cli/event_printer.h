// Writes what a Generate call streams. Not thread-safe; the stream is borrowed.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "sluice/v1/generation.pb.h"

namespace sluice {

class EventPrinter {
 public:
  virtual ~EventPrinter() = default;
  // Written and flushed before it returns.
  virtual void Print(const v1::Chunk& chunk) = 0;
  virtual void Finish(const v1::Finished& finished) = 0;
  // In place of Finish() where the call failed: ends a line that was begun.
  virtual void Abort() {}
};

struct TextOptions {
  // False: the model has no tokenizer, token ids are printed instead, separated by spaces.
  bool has_tokenizer = true;
  int num_sequences = 1;
  // Control characters are spelled out for a terminal; elsewhere the text is written as it is. Its
  // last line is ended everywhere, as tools for text files expect.
  bool terminal = false;
};

// What a sequence had no room beyond, as users know it: "max_tokens", "context", ...; empty where
// that was not why it ended.
std::string LimitName(v1::LengthLimit limit);

// Sequence 0 as it comes, the others once all are finished, each below "--- sequence 1 ---" where
// there are several.
std::unique_ptr<EventPrinter> MakeTextPrinter(std::ostream& out, const TextOptions& options);

struct JsonOptions {
  bool logprobs = false;  // they were asked for
  // The bytes of tokens by id, which log-probabilities are shown with; empty where the model has no
  // tokenizer.
  std::vector<std::string> token_texts;
};

// One JSON object a line.
std::unique_ptr<EventPrinter> MakeJsonPrinter(std::ostream& out, JsonOptions options);

}  // namespace sluice
