// Text that knows which of its bytes came with the context and which the template wrote. A plain
// value.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::jinja {

struct TextRange {
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const TextRange&) const = default;
};

class Text {
 public:
  Text() = default;
  // `is_untrusted` for bytes that came with the context.
  explicit Text(std::string bytes, bool is_untrusted = false);

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

  // Rising, neither empty nor touching one another.
  const std::vector<TextRange>& untrusted() const { return untrusted_; }
  bool HasUntrusted() const { return !untrusted_.empty(); }
  bool IsUntrustedAt(size_t byte) const;

  void Append(std::string_view bytes, bool is_untrusted = false);
  void Append(const Text& text) { AppendPart(text, 0, text.size()); }
  // Bytes [begin, end) of `text`. REQUIRES: begin <= end <= text.size(); not text of its own.
  void AppendPart(const Text& text, size_t begin, size_t end);
  Text Part(size_t begin, size_t end) const;

  void Reserve(size_t bytes) { bytes_.reserve(bytes); }
  // About what it takes of memory.
  size_t MemoryBytes() const { return bytes_.size() + untrusted_.size() * sizeof(TextRange); }

 private:
  std::vector<TextRange>::const_iterator FirstEndingAfter(size_t byte) const;
  void MarkUntrusted(size_t begin, size_t end);

  std::string bytes_;
  std::vector<TextRange> untrusted_;
};

}  // namespace sluice::jinja
