// A compiled regular expression and the walk over its matches, on PCRE2 with its JIT compiler.
// A Regex is immutable and thread-safe; what a match needs besides lives in a RegexScratch, one per
// thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/tokenizer/text/token.h"

namespace sluice {

// Working memory of matching, for any number of expressions one after another. Not thread-safe.
class RegexScratch {
 public:
  RegexScratch();
  ~RegexScratch();
  RegexScratch(const RegexScratch&) = delete;
  RegexScratch& operator=(const RegexScratch&) = delete;

 private:
  friend class RegexMatches;
  struct Pcre2;
  std::unique_ptr<Pcre2> pcre2_;
};

class Regex {
 public:
  // A pattern in Oniguruma's Ruby dialect (regex_dialect.h), as tokenizer.json files have it.
  // INVALID_ARGUMENT with PCRE2's reason and the byte where it does not compile; UNIMPLEMENTED
  // where the dialect cannot be translated.
  static absl::StatusOr<Regex> Compile(std::string_view pattern);

  // A pattern that matches `text` and nothing else.
  static absl::StatusOr<Regex> Literal(std::string_view text);

  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

 private:
  friend class RegexMatches;
  struct Code;
  Regex(std::string pattern, std::unique_ptr<Code> code);
  static absl::StatusOr<Regex> CompilePcre2(std::string_view pattern, std::string_view translated,
                                            uint32_t options);

  std::string pattern_;  // as given, for messages
  std::unique_ptr<Code> code_;
};

// The matches of `regex` in a text, from left to right, none overlapping. An empty match right
// behind another match is passed over. Use:
//   RegexMatches matches(regex, text, scratch);
//   while (matches.Next(&range)) ...
//   return matches.status();
class RegexMatches {
 public:
  // All are borrowed. REQUIRES: `text` is valid UTF-8.
  RegexMatches(const Regex& regex, std::string_view text, RegexScratch& scratch);

  // False at the end of the text and on an error.
  bool Next(ByteRange* match);

  // RESOURCE_EXHAUSTED where matching would have taken more steps or memory than it may.
  const absl::Status& status() const { return status_; }

 private:
  int Search();
  void Fail(int error);

  const Regex& regex_;
  const std::string_view text_;
  RegexScratch& scratch_;
  size_t next_ = 0;  // where to search on; beyond the end once it is over
  bool matched_ = false;
  size_t last_end_ = 0;  // of the last match, where matched_
  absl::Status status_;
};

}  // namespace sluice
