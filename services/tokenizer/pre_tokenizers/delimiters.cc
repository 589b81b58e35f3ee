#include "services/tokenizer/pre_tokenizers/delimiters.h"

namespace sluice {

std::optional<DelimiterBehavior> DelimiterBehaviorFromName(std::string_view name) {
  if (name == "Removed") return DelimiterBehavior::kRemoved;
  if (name == "Isolated") return DelimiterBehavior::kIsolated;
  if (name == "MergedWithPrevious") return DelimiterBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return DelimiterBehavior::kMergedWithNext;
  if (name == "Contiguous") return DelimiterBehavior::kContiguous;
  return std::nullopt;
}

absl::Status DelimiterSplitter::Add(size_t begin, size_t end, bool is_delimiter) {
  if (behavior_ == DelimiterBehavior::kRemoved && is_delimiter) return absl::OkStatus();
  if (behavior_ == DelimiterBehavior::kRemoved || behavior_ == DelimiterBehavior::kIsolated) {
    return Emit(begin, end);
  }
  const bool joins = has_pending_ && Joins(is_delimiter);
  last_was_delimiter_ = is_delimiter;
  if (!joins) {
    if (absl::Status status = Finish(); !status.ok()) return status;
    pending_begin_ = begin;
    has_pending_ = true;
  }
  pending_end_ = end;
  return absl::OkStatus();
}

bool DelimiterSplitter::Joins(bool is_delimiter) const {
  switch (behavior_) {
    case DelimiterBehavior::kMergedWithPrevious:
      return is_delimiter && !last_was_delimiter_;
    case DelimiterBehavior::kMergedWithNext:
      return !is_delimiter && last_was_delimiter_;
    case DelimiterBehavior::kContiguous:
      return is_delimiter == last_was_delimiter_;
    case DelimiterBehavior::kRemoved:
    case DelimiterBehavior::kIsolated:
      return false;
  }
  return false;
}

absl::Status DelimiterSplitter::Finish() {
  if (!has_pending_) return absl::OkStatus();
  has_pending_ = false;
  return Emit(pending_begin_, pending_end_);
}

absl::Status DelimiterSplitter::Emit(size_t begin, size_t end) {
  return begin < end ? sink_(piece_.Part(begin, end)) : absl::OkStatus();
}

}  // namespace sluice
