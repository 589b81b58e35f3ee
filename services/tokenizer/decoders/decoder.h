// Decoders: they turn the spelling of tokens back into text. A decoder is an immutable description;
// a DecodeStage is one decoding under way, fed fragment by fragment, so that streaming and decoding
// at once are the same code. Decoders are thread-safe, stages belong to one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace sluice {

struct JsonPlace;

// Receives tokens as fragments of their text and passes on what they become: possibly tokens with
// other bounds, possibly later, never changed once passed on.
class DecodeStage {
 public:
  virtual ~DecodeStage() = default;

  // The current token's text goes on with `fragment`, valid UTF-8.
  virtual void Append(std::string_view fragment) = 0;
  // The current token, possibly empty, is complete.
  virtual void EndToken() = 0;
  // No more tokens follow. REQUIRES: the last token is complete. Called once, last.
  virtual void Finish() = 0;
};

class Decoder {
 public:
  virtual ~Decoder() = default;

  // Begins a decoding whose result goes to `next`.
  virtual std::unique_ptr<DecodeStage> Start(std::unique_ptr<DecodeStage> next) const = 0;

  // The bytes that a token spelled `token` stands for wherever it is in a text.
  virtual std::string TokenBytes(std::string_view token) const { return std::string(token); }
};

// A decoder as tokenizer.json describes it; for null one that joins tokens with spaces.
// INVALID_ARGUMENT or UNIMPLEMENTED naming file, path and value.
absl::StatusOr<std::unique_ptr<Decoder>> DecoderFromJson(const JsonPlace& place);

}  // namespace sluice
