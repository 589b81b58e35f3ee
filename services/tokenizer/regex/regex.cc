#include "services/tokenizer/regex/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <utility>

#include "services/tokenizer/regex/regex_dialect.h"
#include "services/tokenizer/text/strings.h"
#include "services/tokenizer/text/utf8.h"

namespace sluice {
namespace {

constexpr size_t kMaxPatternBytes = 64 << 10;
// PCRE2 counts a step per backtracking point; a run of n characters may take a few times n of them.
constexpr uint32_t kBaseMatchLimit = 10'000'000;
constexpr uint32_t kMatchLimitPerByte = 16;
constexpr uint32_t kHeapLimitKiB = 256 << 10;
constexpr size_t kJitStackStart = 64 << 10;
constexpr size_t kJitStackLimit = 8 << 20;
// Ruby's ^ and $ are those of lines. \C could split a character.
constexpr uint32_t kOptions = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;

template <auto kFree>
struct Freer {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};

using CompileContext = std::unique_ptr<pcre2_compile_context, Freer<pcre2_compile_context_free>>;

std::string ErrorText(int error) {
  PCRE2_UCHAR message[256] = {};
  pcre2_get_error_message(error, message, sizeof(message));
  return reinterpret_cast<const char*>(message);
}

}  // namespace

struct RegexScratch::Pcre2 {
  std::unique_ptr<pcre2_match_data, Freer<pcre2_match_data_free>> match_data{
      pcre2_match_data_create(1, nullptr)};
  std::unique_ptr<pcre2_jit_stack, Freer<pcre2_jit_stack_free>> jit_stack{
      pcre2_jit_stack_create(kJitStackStart, kJitStackLimit, nullptr)};
  std::unique_ptr<pcre2_match_context, Freer<pcre2_match_context_free>> context{
      pcre2_match_context_create(nullptr)};
};

RegexScratch::RegexScratch() : pcre2_(std::make_unique<Pcre2>()) {
  pcre2_jit_stack_assign(pcre2_->context.get(), nullptr, pcre2_->jit_stack.get());
  pcre2_set_heap_limit(pcre2_->context.get(), kHeapLimitKiB);
}
RegexScratch::~RegexScratch() = default;

struct Regex::Code {
  std::unique_ptr<pcre2_code, Freer<pcre2_code_free>> pcre2;
};

Regex::Regex(std::string pattern, std::unique_ptr<Code> code)
    : pattern_(std::move(pattern)), code_(std::move(code)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

absl::StatusOr<Regex> Regex::Compile(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return absl::InvalidArgumentError(StrCat("a regular expression of ", pattern.size(),
                                             " bytes; accepted: up to ", kMaxPatternBytes));
  }
  absl::StatusOr<std::string> translated = OnigurumaToPcre2(pattern);
  if (!translated.ok()) return translated.status();
  return CompilePcre2(pattern, *translated, kOptions);
}

absl::StatusOr<Regex> Regex::Literal(std::string_view text) {
  return CompilePcre2(text, text, PCRE2_UTF | PCRE2_LITERAL);
}

absl::StatusOr<Regex> Regex::CompilePcre2(std::string_view pattern, std::string_view translated,
                                          uint32_t options) {
  const CompileContext context(pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto code = std::make_unique<Code>();
  code->pcre2.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()),
                                  translated.size(), options, &error, &offset, context.get()));
  if (code->pcre2 == nullptr) {
    return absl::InvalidArgumentError(StrCat("the regular expression \"", pattern,
                                             "\" does not compile: ", ErrorText(error),
                                             " (at byte ", offset, " of its PCRE2 form)"));
  }
  // Where no JIT compiler is to be had, pcre2_match interprets.
  pcre2_jit_compile(code->pcre2.get(), PCRE2_JIT_COMPLETE);
  return Regex(std::string(pattern), std::move(code));
}

RegexMatches::RegexMatches(const Regex& regex, std::string_view text, RegexScratch& scratch)
    : regex_(regex), text_(text), scratch_(scratch) {
  const uint64_t limit = kBaseMatchLimit + uint64_t{kMatchLimitPerByte} * text.size();
  pcre2_set_match_limit(scratch.pcre2_->context.get(),
                        static_cast<uint32_t>(std::min<uint64_t>(limit, UINT32_MAX)));
}

int RegexMatches::Search() {
  RegexScratch::Pcre2& pcre2 = *scratch_.pcre2_;
  const auto match = [&](uint32_t options) {
    // Not null even where the text is empty, as PCRE2 wants it.
    const char* data = text_.data() == nullptr ? "" : text_.data();
    return pcre2_match(regex_.code_->pcre2.get(), reinterpret_cast<PCRE2_SPTR>(data), text_.size(),
                       next_, PCRE2_NO_UTF_CHECK | options, pcre2.match_data.get(),
                       pcre2.context.get());
  };
  const int result = match(0);
  // The interpreter keeps its backtracking points on the heap, which may grow further.
  return result == PCRE2_ERROR_JIT_STACKLIMIT ? match(PCRE2_NO_JIT) : result;
}

bool RegexMatches::Next(ByteRange* match) {
  while (next_ <= text_.size() && status_.ok()) {
    const int result = Search();
    if (result == PCRE2_ERROR_NOMATCH) {
      next_ = text_.size() + 1;
      return false;
    }
    if (result < 0) {
      Fail(result);
      return false;
    }
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(scratch_.pcre2_->match_data.get());
    const size_t end = bounds[1];
    // \K can move the start of a match; never before what was passed already.
    const size_t begin = std::min(end, std::max(bounds[0], next_));
    if (begin == end && matched_ && last_end_ == end) {
      next_ = end < text_.size() ? end + ReadUtf8(text_, end).length : text_.size() + 1;
      continue;
    }
    next_ = last_end_ = end;
    matched_ = true;
    *match = {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
    return true;
  }
  return false;
}

void RegexMatches::Fail(int error) {
  const std::string message =
      StrCat("matching the regular expression \"", regex_.pattern_, "\" failed at byte ", next_,
             " of ", text_.size(), ": ", ErrorText(error));
  switch (error) {
    case PCRE2_ERROR_MATCHLIMIT:
    case PCRE2_ERROR_DEPTHLIMIT:
    case PCRE2_ERROR_HEAPLIMIT:
    case PCRE2_ERROR_JIT_STACKLIMIT:
    case PCRE2_ERROR_NOMEMORY:
      status_ = absl::ResourceExhaustedError(message);
      return;
    default:
      status_ = absl::InternalError(message);
  }
}

}  // namespace sluice
