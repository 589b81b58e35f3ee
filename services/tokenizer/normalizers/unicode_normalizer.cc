#include "services/tokenizer/normalizers/unicode_normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "kernels/check.h"
#include "services/tokenizer/text/utf8.h"

namespace sluice {
namespace {

// A code point on its way, with its combining class and the bytes of the text it comes from.
struct Decomposed {
  utf8proc_int32_t code_point;
  int combining_class;
  ByteRange from;
};

int CombiningClass(utf8proc_int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

// The primary composite of two code points, or -1. Hangul syllables included.
utf8proc_int32_t Compose(utf8proc_int32_t first, utf8proc_int32_t second) {
  utf8proc_int32_t pair[] = {first, second};
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  return utf8proc_normalize_utf32(pair, 2, options) == 1 ? pair[0] : -1;
}

// Normalizes a text piece by piece: whatever lies between two places that no composition or
// reordering can cross.
class Run {
 public:
  Run(const MappedText& text, bool compose, bool compatibility)
      : whole_(text),
        text_(text.text()),
        map_(text.map()),
        compose_(compose),
        compatibility_(compatibility) {
    out_.reserve(text_.size() + 16);
    if (map_ != nullptr) out_map_ = map_->Rewritten();
  }

  void Normalize() {
    size_t at = 0;
    while (at < text_.size() && Passes()) {
      at = CopyAscii(at);
      if (at < text_.size()) at = Decompose(at);
    }
    Flush();
  }

  std::string TakeText() { return std::move(out_); }
  std::optional<SourceMap> TakeMap() { return std::move(out_map_); }

 private:
  // One more character was worked on: looks now and then whether the work goes on.
  bool Passes() {
    if (++since_look_ < kCharactersAtATime) return true;
    since_look_ = 0;
    return whole_.Pass(kCharactersAtATime);
  }

  // ASCII is its own normal form. The last character of a run may still take a mark.
  size_t CopyAscii(size_t begin) {
    size_t end = begin;
    // Of a longer run the rest comes in the next round.
    const size_t most = std::min(text_.size(), begin + kAsciiAtATime);
    while (end < most && static_cast<uint8_t>(text_[end]) < 0x80) ++end;
    if (end < begin + 2) return begin;
    whole_.Pass(end - begin);
    Flush();
    const size_t last = end - 1;
    out_.append(text_, begin, last - begin);
    if (out_map_.has_value()) {
      for (size_t i = begin; i < last; ++i) out_map_->Append(1, map_->Range(i, i + 1));
    }
    return Decompose(last);
  }

  size_t Decompose(size_t at) {
    const Utf8Char c = ReadUtf8(text_, at);
    const size_t end = at + c.length;
    const ByteRange from{static_cast<uint32_t>(at), static_cast<uint32_t>(end)};
    const int options = UTF8PROC_DECOMPOSE | (compatibility_ ? UTF8PROC_COMPAT : 0);
    utf8proc_int32_t parts[32];  // the longest decomposition has 18
    int boundary = 0;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c.code_point), parts, 32,
                                static_cast<utf8proc_option_t>(options), &boundary);
    SLUICE_CHECK(count >= 0 && count <= 32);
    for (utf8proc_ssize_t i = 0; i < count; ++i) {
      pending_.push_back({parts[i], CombiningClass(parts[i]), from});
    }
    return end;
  }

  // Puts marks in canonical order, composes, and writes out what is pending.
  void Flush() {
    const auto is_starter = [](const Decomposed& d) { return d.combining_class == 0; };
    for (auto begin = pending_.begin(); begin != pending_.end();) {
      begin = std::find_if_not(begin, pending_.end(), is_starter);
      const auto end = std::find_if(begin, pending_.end(), is_starter);
      SortMarks(absl::MakeSpan(pending_).subspan(begin - pending_.begin(), end - begin));
      begin = end;
    }
    if (compose_) ComposePending();
    for (const Decomposed& d : pending_) {
      if (!Passes()) break;
      Write(d);
    }
    pending_.clear();
  }

  // Where marks change places, each comes from all of them, so that offsets never go back.
  void SortMarks(absl::Span<Decomposed> marks) {
    const auto goes_before = [](const Decomposed& a, const Decomposed& b) {
      return a.combining_class < b.combining_class;
    };
    if (std::is_sorted(marks.begin(), marks.end(), goes_before)) return;
    const ByteRange all{marks.front().from.begin, marks.back().from.end};
    if (marks.size() <= kFewMarks) {
      std::stable_sort(marks.begin(), marks.end(), goes_before);
    } else {
      CountingSort(marks);
    }
    for (Decomposed& mark : marks) mark.from = all;
  }

  // Stable. Takes linear time: a run of marks may be as long as the text.
  void CountingSort(absl::Span<Decomposed> marks) {
    std::array<size_t, kNumClasses> begins{};  // first how many there are of each class
    for (const Decomposed& mark : marks) ++begins[mark.combining_class];
    std::exclusive_scan(begins.begin(), begins.end(), begins.begin(), size_t{0});
    std::vector<Decomposed> sorted(marks.size());
    for (const Decomposed& mark : marks) {
      if (!Passes()) return;
      sorted[begins[mark.combining_class]++] = mark;
    }
    std::copy(sorted.begin(), sorted.end(), marks.begin());
  }

  // UAX 15, D117: a character composes with the last starter unless one of the same or a higher
  // class (or another starter) stands between them.
  void ComposePending() {
    size_t size = 0;
    std::optional<size_t> starter;
    int last_class = 0;  // of what was kept since the starter; 0 for nothing
    for (const Decomposed& d : pending_) {
      if (!Passes()) break;
      const bool adjacent = starter.has_value() && *starter + 1 == size;
      const bool blocked = !starter.has_value() || (!adjacent && last_class >= d.combining_class);
      if (!blocked) {
        const auto composite = Compose(pending_[*starter].code_point, d.code_point);
        if (composite >= 0) {
          Absorb(composite, d.from, &pending_[*starter]);
          continue;
        }
      }
      if (d.combining_class == 0) starter = size;
      last_class = d.combining_class;
      pending_[size++] = d;
    }
    pending_.resize(size);
  }

  static void Absorb(utf8proc_int32_t composite, ByteRange from, Decomposed* starter) {
    starter->code_point = composite;
    starter->from = {std::min(starter->from.begin, from.begin),
                     std::max(starter->from.end, from.end)};
  }

  void Write(const Decomposed& d) {
    const size_t size_before = out_.size();
    AppendUtf8(static_cast<char32_t>(d.code_point), &out_);
    if (out_map_.has_value()) {
      out_map_->Append(out_.size() - size_before, map_->Range(d.from.begin, d.from.end));
    }
  }

  static constexpr size_t kAsciiAtATime = 4096;
  static constexpr size_t kCharactersAtATime = 256;
  static constexpr size_t kFewMarks = 32;
  static constexpr size_t kNumClasses = 256;  // of combining

  const MappedText& whole_;
  const std::string_view text_;
  const SourceMap* const map_;
  const bool compose_;
  const bool compatibility_;
  size_t since_look_ = 0;
  std::vector<Decomposed> pending_;
  std::string out_;
  std::optional<SourceMap> out_map_;
};

class UnicodeNormalizer : public Normalizer {
 public:
  explicit UnicodeNormalizer(NormalizationForm form)
      : compose_(form == NormalizationForm::kNfc || form == NormalizationForm::kNfkc),
        compatibility_(form == NormalizationForm::kNfkc || form == NormalizationForm::kNfkd) {}

  void Normalize(MappedText* text) const override {
    if (IsNormalized(text->text())) return;
    Run run(*text, compose_, compatibility_);
    run.Normalize();
    std::optional<SourceMap> map = run.TakeMap();
    text->Rewrite(run.TakeText(), std::move(map));
  }

 private:
  // Sure for ASCII and, in NFC, for all below the first mark, U+0300, whose lead byte is 0xCC.
  bool IsNormalized(std::string_view text) const {
    const uint8_t first_unsure = compose_ && !compatibility_ ? 0xCC : 0x80;
    return std::all_of(text.begin(), text.end(),
                       [&](char c) { return static_cast<uint8_t>(c) < first_unsure; });
  }

  const bool compose_;
  const bool compatibility_;
};

}  // namespace

std::unique_ptr<Normalizer> MakeUnicodeNormalizer(NormalizationForm form) {
  return std::make_unique<UnicodeNormalizer>(form);
}

}  // namespace sluice
