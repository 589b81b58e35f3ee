// A text on its way through the pipeline and, where offsets are wanted, where it comes from.
// Cheap to make from an unchanged text: it copies only when rewritten. Not thread-safe; the
// original must outlive it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "services/tokenizer/text/pace.h"
#include "services/tokenizer/text/source_map.h"

namespace sluice {

class MappedText {
 public:
  // `map`, where offsets are wanted, is that of `text`. `at_begin` says that the text begins where
  // the original one does. `pace`, which is borrowed, is that of whoever changes it; null: none.
  MappedText(std::string_view text, std::optional<SourceMap> map, bool at_begin = false,
             Pace* pace = nullptr)
      : view_(text), map_(std::move(map)), at_begin_(at_begin), pace_(pace) {}
  MappedText(const MappedText&) = delete;
  MappedText& operator=(const MappedText&) = delete;

  std::string_view text() const { return view_; }
  // nullptr where offsets are not wanted.
  const SourceMap* map() const { return map_.has_value() ? &*map_ : nullptr; }
  // Whether the text begins with what the original one begins with.
  bool at_begin() const { return at_begin_; }

  // So many bytes have been worked on. False: the work ends, and what the text is does not count.
  bool Pass(size_t work) const { return Passes(pace_, work); }

  // Replaces the text by one that begins as it does. `map` is the new text's, made with
  // map()->Rewritten(), where map() is set.
  void Rewrite(std::string text, std::optional<SourceMap> map) {
    buffer_ = std::move(text);
    view_ = buffer_;
    map_ = std::move(map);
  }

 private:
  friend class TextRewriter;

  std::string_view view_;
  std::string buffer_;
  std::optional<SourceMap> map_;
  bool at_begin_;
  Pace* pace_;
};

// Makes a new text of an old one, part by part, with its map where the old one has one. Not
// thread-safe; the old text must stay as it is up to the end.
class TextRewriter {
 public:
  // `map`, where offsets are wanted, holds what is known of `text` from byte `map_begin` on.
  TextRewriter(std::string_view text, const SourceMap* map, size_t map_begin = 0,
               Pace* pace = nullptr)
      : old_(text), old_map_(map), map_begin_(map_begin), pace_(pace) {
    new_.reserve(text.size() + text.size() / 8 + 16);
    if (map != nullptr) new_map_ = map->Rewritten();
  }
  explicit TextRewriter(const MappedText& text)
      : TextRewriter(text.text(), text.map(), 0, text.pace_) {}

  // Takes bytes [begin, end) over as they are.
  void Keep(size_t begin, size_t end) {
    if (new_.empty()) first_ = begin;
    new_ += old_.substr(begin, end - begin);
    if (!new_map_.has_value()) return;
    for (size_t i = begin; i < end && Passes(pace_, 1); ++i) {
      new_map_->Append(1, Source(i, i + 1));
    }
  }

  // Puts `text` where bytes [begin, end) stood.
  void Put(std::string_view text, size_t begin, size_t end) {
    if (new_.empty()) first_ = begin;
    new_ += text;
    if (new_map_.has_value()) new_map_->Append(text.size(), Source(begin, end));
  }

  // Takes back all but the first `size` bytes of the new text.
  void Truncate(size_t size) {
    new_.resize(size);
    if (new_map_.has_value()) new_map_->Truncate(size);
  }

  std::string_view old_text() const { return old_; }
  const std::string& text() const { return new_; }
  // nullptr where offsets are not wanted.
  const SourceMap* map() const { return new_map_.has_value() ? &*new_map_ : nullptr; }

  // Makes what was put together the text of `text`, from which it was made.
  void Replace(MappedText* text) {
    text->at_begin_ = text->at_begin_ && first_ == 0;
    text->Rewrite(std::move(new_), std::move(new_map_));
  }

 private:
  ByteRange Source(size_t begin, size_t end) const {
    return old_map_->Range(map_begin_ + begin, map_begin_ + end);
  }

  const std::string_view old_;
  const SourceMap* const old_map_;
  const size_t map_begin_;
  Pace* const pace_;
  std::string new_;
  size_t first_ = 0;  // where in the old text the new one's first part stood
  std::optional<SourceMap> new_map_;
};

}  // namespace sluice
