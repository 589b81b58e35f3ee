#include "services/tokenizer/jinja/text_operations.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "services/tokenizer/jinja/unicode.h"

namespace sluice::jinja {
namespace {

// The characters that are stripped.
class StripSet {
 public:
  explicit StripSet(std::optional<std::string_view> chars) : is_space_(!chars.has_value()) {
    for (size_t at = 0; !is_space_ && at < chars->size();) {
      const Char c = ReadChar(*chars, at);
      chars_.insert(c.code_point);
      at += c.length;
    }
  }
  bool Has(char32_t c) const { return is_space_ ? IsSpace(c) : chars_.contains(c); }

 private:
  const bool is_space_;
  absl::flat_hash_set<char32_t> chars_;
};

std::vector<Text> SplitSpaces(Run& run, const Text& text, Int max_splits) {
  std::vector<Text> parts;
  const std::string& bytes = text.bytes();
  size_t at = 0;
  const auto skip = [&](bool spaces) {
    while (at < bytes.size()) {
      const Char c = ReadChar(bytes, at);
      if (IsSpace(c.code_point) != spaces) break;
      at += c.length;
    }
    return at;
  };
  while (skip(true) < bytes.size() && run.Step()) {
    const size_t begin = at;
    if (max_splits >= 0 && static_cast<Int>(parts.size()) == max_splits) {
      parts.push_back(text.Part(begin, bytes.size()));
      break;
    }
    skip(false);
    parts.push_back(text.Part(begin, at));
  }
  return parts;
}

std::vector<Text> SplitSpacesFromRight(Run& run, const Text& text, Int max_splits) {
  std::vector<Text> parts;
  const std::string& bytes = text.bytes();
  size_t at = bytes.size();
  const auto skip = [&](bool spaces) {
    while (at > 0) {
      const Char c = ReadCharBefore(bytes, at);
      if (IsSpace(c.code_point) != spaces) break;
      at -= c.length;
    }
    return at;
  };
  while (skip(true) > 0 && run.Step()) {
    const size_t end = at;
    if (max_splits >= 0 && static_cast<Int>(parts.size()) == max_splits) {
      parts.push_back(text.Part(0, end));
      break;
    }
    skip(false);
    parts.push_back(text.Part(at, end));
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<size_t> FindAll(std::string_view bytes, std::string_view separator, Int max) {
  std::vector<size_t> found;
  size_t at = FindBytes(bytes, separator);
  while (at != std::string::npos && (max < 0 || static_cast<Int>(found.size()) < max)) {
    found.push_back(at);
    at = FindBytes(bytes, separator, at + separator.size());
  }
  return found;
}

// The same, from the right: forwards in what is turned around.
std::vector<size_t> FindAllFromRight(std::string_view bytes, std::string_view separator, Int max) {
  const std::string turned(bytes.rbegin(), bytes.rend());
  const std::string turned_separator(separator.rbegin(), separator.rend());
  std::vector<size_t> found = FindAll(turned, turned_separator, max);
  for (size_t& at : found) at = bytes.size() - at - separator.size();
  std::reverse(found.begin(), found.end());
  return found;
}

// What Python puts in front of, between and behind the characters of a text when replacing "".
Text Interspersed(Run& run, const Text& text, const Text& to, Int max_count) {
  Text out;
  Int count = 0;
  for (size_t at = 0;;) {
    if ((max_count < 0 || count < max_count) && run.CheckMemory(out.size() + to.size()) &&
        run.StepBytes(to.size())) {
      out.Append(to);
      ++count;
    }
    if (at == text.size() || run.failed()) return out;
    const size_t end = at + ReadChar(text.bytes(), at).length;
    out.AppendPart(text, at, end);
    at = end;
  }
}

// Texts in the making whose characters are written one by one.
class CharMapper {
 public:
  explicit CharMapper(const Text& text) : text_(text) {}

  // Calls write(char, &out) for each character.
  template <typename Write>
  Text Map(Write write) {
    const std::string& bytes = text_.bytes();
    out_.Reserve(bytes.size());
    std::string mapped;
    for (size_t at = 0; at < bytes.size();) {
      const Char c = ReadChar(bytes, at);
      mapped.clear();
      write(c.code_point, &mapped);
      out_.Append(mapped, text_.IsUntrustedAt(at));
      at += c.length;
    }
    return std::move(out_);
  }

 private:
  const Text& text_;
  Text out_;
};

}  // namespace

size_t FindBytes(std::string_view text, std::string_view part, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  const void* found = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return found == nullptr ? std::string_view::npos : static_cast<const char*>(found) - text.data();
}

size_t FindLastBytes(std::string_view text, std::string_view part) {
  const std::vector<size_t> found = FindAllFromRight(text, part, 1);
  return found.empty() ? std::string_view::npos : found.front();
}

Text Stripped(const Text& text, std::optional<std::string_view> chars, Side side) {
  const std::string_view bytes = text.bytes();
  const StripSet stripped(chars);
  size_t begin = 0;
  size_t end = bytes.size();
  while (side != Side::kRight && begin < end) {
    const Char c = ReadChar(bytes, begin);
    if (!stripped.Has(c.code_point)) break;
    begin += c.length;
  }
  while (side != Side::kLeft && end > begin) {
    const Char c = ReadCharBefore(bytes, end);
    if (!stripped.Has(c.code_point)) break;
    end -= c.length;
  }
  return text.Part(begin, end);
}

std::vector<Text> SplitText(Run& run, const Text& text, std::optional<std::string_view> separator,
                            Int max_splits, bool from_right) {
  if (!run.StepBytes(text.size())) return {};
  if (!separator.has_value()) {
    return from_right ? SplitSpacesFromRight(run, text, max_splits)
                      : SplitSpaces(run, text, max_splits);
  }
  if (separator->empty()) {
    run.ValueError("empty separator");
    return {};
  }
  if (!run.CheckMemory(text.size() / separator->size() * sizeof(size_t))) return {};
  const std::vector<size_t> cuts = from_right
                                       ? FindAllFromRight(text.bytes(), *separator, max_splits)
                                       : FindAll(text.bytes(), *separator, max_splits);
  std::vector<Text> parts;
  if (!run.CheckMemory((cuts.size() + 1) * sizeof(Text) + text.size()) ||
      !run.Step(static_cast<int64_t>(cuts.size()))) {
    return parts;
  }
  size_t begin = 0;
  for (const size_t cut : cuts) {
    parts.push_back(text.Part(begin, cut));
    begin = cut + separator->size();
  }
  parts.push_back(text.Part(begin, text.size()));
  return parts;
}

std::vector<Text> SplitLines(Run& run, const Text& text, bool keep_ends) {
  std::vector<Text> lines;
  const std::string& bytes = text.bytes();
  if (!run.StepBytes(bytes.size())) return lines;
  size_t begin = 0;
  for (size_t at = 0; at < bytes.size();) {
    const Char c = ReadChar(bytes, at);
    const size_t end = at;
    at += c.length;
    if (!IsLineBreak(c.code_point)) continue;
    if (!run.Step() || !run.CheckMemory(lines.size() * sizeof(Text))) return lines;
    if (c.code_point == '\r' && at < bytes.size() && bytes[at] == '\n') ++at;
    lines.push_back(text.Part(begin, keep_ends ? at : end));
    begin = at;
  }
  if (begin < bytes.size()) lines.push_back(text.Part(begin, bytes.size()));
  return lines;
}

Text Replaced(Run& run, const Text& text, const Text& from, const Text& to, Int max_count) {
  if (!run.StepBytes(text.size())) return Text();
  if (from.empty()) return Interspersed(run, text, to, max_count);
  if (!run.CheckMemory(text.size() / from.size() * sizeof(size_t))) return Text();
  Text out;
  size_t begin = 0;
  for (const size_t cut : FindAll(text.bytes(), from.bytes(), max_count)) {
    if (!run.CheckMemory(out.size() + to.size() + text.size()) || !run.StepBytes(to.size())) {
      return Text();
    }
    out.AppendPart(text, begin, cut);
    out.Append(to);
    begin = cut + from.size();
  }
  out.AppendPart(text, begin, text.size());
  return out;
}

Text WithCase(Run& run, const Text& text, Case change) {
  if (!run.CheckMemory(text.size() * 2) || !run.StepBytes(text.size() * 4)) return Text();
  bool begins = true;  // a word, or the text
  return CharMapper(text).Map([&](char32_t c, std::string* out) {
    switch (change) {
      case Case::kUpper:
        return AppendUpper(c, out);
      case Case::kLower:
        return AppendLower(c, out);
      case Case::kSwapped:
        return IsUpper(c)   ? AppendLower(c, out)
               : IsLower(c) ? AppendUpper(c, out)
                            : AppendChar(c, out);
      case Case::kTitle:
      case Case::kCapitalized:
        begins ? AppendTitle(c, out) : AppendLower(c, out);
        begins = change == Case::kTitle && !IsCased(c);
        return;
    }
  });
}

Text Justified(Run& run, const Text& text, Int width, const Text& fill, Side side) {
  const Int missing = width - static_cast<Int>(CountChars(text.bytes()));
  if (missing <= 0) return text;
  if (missing > Int{1} << 40 || !run.CheckMemory(static_cast<size_t>(missing) * fill.size()) ||
      !run.StepBytes(static_cast<size_t>(missing))) {
    run.Fail(Error::Kind::kLimit, "a string is too wide");
    return Text();
  }
  // Where it does not come out even, Python's center puts more on the left of an odd width.
  const Int left = side == Side::kLeft    ? 0
                   : side == Side::kRight ? missing
                                          : missing / 2 + (missing & width & 1);
  Text out;
  for (Int i = 0; i < left; ++i) out.Append(fill);
  out.Append(text);
  for (Int i = left; i < missing; ++i) out.Append(fill);
  return out;
}

Text JoinTexts(Run& run, const Text& separator, const std::vector<Text>& parts) {
  Text joined;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!run.CheckMemory(joined.size() + separator.size() + parts[i].size()) ||
        !run.StepBytes(parts[i].size() + separator.size())) {
      return joined;
    }
    if (i > 0) joined.Append(separator);
    joined.Append(parts[i]);
  }
  return joined;
}

}  // namespace sluice::jinja
