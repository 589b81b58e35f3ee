// A text whose bytes that are not UTF-8 were replaced by U+FFFD, and the way back to where they
// stood. Immutable.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "services/tokenizer/text/token.h"

namespace sluice {

class RepairedText {
 public:
  // Replaces as LossyUtf8 does.
  explicit RepairedText(std::string_view original);

  const std::string& text() const { return text_; }

  // Makes ranges of whole characters of text() those of the original.
  void RestoreOffsets(std::vector<ByteRange>* offsets) const;

 private:
  uint32_t Restore(uint32_t offset) const;

  // The ends of a replaced part, here and in the original.
  struct Repair {
    uint32_t end;
    uint32_t original_end;
  };

  std::string text_;
  std::vector<Repair> repairs_;  // in order
};

}  // namespace sluice
