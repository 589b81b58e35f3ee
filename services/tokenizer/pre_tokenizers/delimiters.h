// Handling of delimiters when a text is split.
#pragma once

#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "services/tokenizer/pre_tokenizers/pre_tokenizer.h"

namespace sluice {

// For "the-final--countdown" split at "-":
enum class DelimiterBehavior {
  kRemoved,             // the | final | countdown
  kIsolated,            // the | - | final | - | - | countdown
  kMergedWithPrevious,  // the- | final- | - | countdown
  kMergedWithNext,      // the | -final | - | -countdown
  kContiguous,          // the | - | final | -- | countdown
};

// The behaviour that tokenizer.json calls `name`, one of the names below.
std::optional<DelimiterBehavior> DelimiterBehaviorFromName(std::string_view name);

inline constexpr std::string_view kDelimiterBehaviorNames =
    "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous";

// Turns the segments of one piece, delimiters and what lies between them in order, into parts of
// it. Use: Add for each segment, then Finish. Borrows everything; not thread-safe.
class DelimiterSplitter {
 public:
  DelimiterSplitter(DelimiterBehavior behavior, const Piece& piece, PieceSink sink)
      : behavior_(behavior), piece_(piece), sink_(sink) {}

  // The segment [begin, end), which begins where the one before ended. May be empty.
  absl::Status Add(size_t begin, size_t end, bool is_delimiter);

  absl::Status Finish();

 private:
  // Whether a segment joins the one before it.
  bool Joins(bool is_delimiter) const;
  absl::Status Emit(size_t begin, size_t end);

  const DelimiterBehavior behavior_;
  const Piece& piece_;
  const PieceSink sink_;
  bool has_pending_ = false;
  size_t pending_begin_ = 0;
  size_t pending_end_ = 0;
  bool last_was_delimiter_ = false;
};

}  // namespace sluice
