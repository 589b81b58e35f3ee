// Normalizers: what happens to a text before it is split. Immutable and thread-safe.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "services/tokenizer/text/mapped_text.h"

namespace sluice {

struct JsonPlace;

class Normalizer {
 public:
  virtual ~Normalizer() = default;

  // Rewrites `text` in place, keeping its map right where it has one. Valid UTF-8 stays so. Where
  // the text's pace stops, what it becomes does not count.
  virtual void Normalize(MappedText* text) const = 0;
};

// A normalizer as tokenizer.json describes it; nullptr for null. INVALID_ARGUMENT or UNIMPLEMENTED
// naming file, path and value.
absl::StatusOr<std::unique_ptr<Normalizer>> NormalizerFromJson(const JsonPlace& place);

}  // namespace sluice
