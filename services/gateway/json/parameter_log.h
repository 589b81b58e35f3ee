// Which members of JSON objects readers ask for, noted while they run: what a request may have, as the
// code that checks requests knows it. One log per thread; others are not affected.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace sluice::gateway {

enum class ParameterUse : uint8_t { kRead, kIgnored, kRefused };

struct ParameterNote {
  ParameterUse use = ParameterUse::kRead;
  std::string type;  // JSON Schema's word: "boolean", "array", ...; empty: of several types
  std::optional<int64_t> min, max;  // of an integer
  bool required = false;
  std::string why;       // it is refused
  std::string accepted;  // texts, in words; empty: any
};

// By path, such as "stream_options.include_usage" and "messages[].role".
using ParameterNotes = std::map<std::string, ParameterNote>;

// Notes what this thread's ObjectReaders do as long as it lives. REQUIRES: the thread has no other.
class ParameterLog {
 public:
  ParameterLog();
  ~ParameterLog();
  ParameterLog(const ParameterLog&) = delete;
  ParameterLog& operator=(const ParameterLog&) = delete;

  ParameterNotes& notes() { return notes_; }

  // Of this thread; null: none.
  static ParameterLog* Current();
  // The note of `path`, made from `first` where there is none yet.
  ParameterNote& Note(absl::string_view path, const ParameterNote& first);
  void NoteRequired(absl::string_view path);

 private:
  ParameterNotes notes_;
};

}  // namespace sluice::gateway
