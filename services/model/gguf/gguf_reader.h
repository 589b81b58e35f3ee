// Reads the encodings of a GGUF file one after another, never beyond its end. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "absl/types/span.h"
#include "services/model/gguf/gguf_container.h"

namespace sluice {

inline constexpr uint32_t kLastGgufValueType = static_cast<uint32_t>(GgufValueType::kFloat64);

class GgufReader {
 public:
  // `file` is borrowed.
  explicit GgufReader(absl::Span<const std::byte> file) : file_(file) {}

  absl::Span<const std::byte> file() const { return file_; }
  size_t size() const { return file_.size(); }
  size_t position() const { return position_; }

  // These move on by what they read; nullopt where the file ends before.
  std::optional<absl::Span<const std::byte>> Take(uint64_t bytes) {
    if (bytes > file_.size() - position_) return std::nullopt;
    const auto taken = file_.subspan(position_, bytes);
    position_ += bytes;
    return taken;
  }
  template <typename T>
  std::optional<T> Scalar() {
    const auto bytes = Take(sizeof(T));
    if (!bytes.has_value()) return std::nullopt;
    T value;
    std::memcpy(&value, bytes->data(), sizeof(T));
    return value;
  }
  // A length of 64 bits and as many bytes.
  std::optional<std::string_view> Text();
  // A value, or an array of scalars, texts or arrays of scalars or texts.
  std::optional<GgufValue> Value(GgufValueType type);

 private:
  bool Skip(GgufValueType type, uint64_t count, int depth);

  absl::Span<const std::byte> file_;
  size_t position_ = 0;  // at most size()
};

}  // namespace sluice
