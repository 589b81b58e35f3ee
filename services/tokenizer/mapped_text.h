// A text on its way through the pipeline and, where offsets are wanted, where it comes from.
// Cheap to make from an unchanged text: it copies only when rewritten. Not thread-safe; the
// original must outlive it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "services/tokenizer/source_map.h"

namespace sluice {

class MappedText {
 public:
  // `map`, where offsets are wanted, is that of `text`.
  MappedText(std::string_view text, std::optional<SourceMap> map)
      : view_(text), map_(std::move(map)) {}
  MappedText(const MappedText&) = delete;
  MappedText& operator=(const MappedText&) = delete;

  std::string_view text() const { return view_; }
  // nullptr where offsets are not wanted.
  const SourceMap* map() const { return map_.has_value() ? &*map_ : nullptr; }

  // Replaces the text. `map` is the new text's, made with map()->Rewritten(), where map() is set.
  void Rewrite(std::string text, std::optional<SourceMap> map) {
    buffer_ = std::move(text);
    view_ = buffer_;
    map_ = std::move(map);
  }

 private:
  std::string_view view_;
  std::string buffer_;
  std::optional<SourceMap> map_;
};

}  // namespace sluice
