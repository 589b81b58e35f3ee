// Reader of the GGUF container, versions 2 and 3: metadata by key, tensors by name, all within the
// file's bytes, little-endian. Pure functions; what they return borrows from the file.
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "services/model/gguf/gguf_types.h"

namespace sluice {

// Numbered as in the file.
enum class GgufValueType : uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
};

// One value of the metadata, or an array of them, checked to lie within the file.
class GgufValue {
 public:
  GgufValue() = default;
  GgufValue(GgufValueType type, bool is_array, uint64_t count, absl::Span<const std::byte> bytes)
      : type_(type), is_array_(is_array), count_(count), bytes_(bytes) {}

  GgufValueType type() const { return type_; }  // of an array's elements
  bool is_array() const { return is_array_; }
  uint64_t count() const { return count_; }  // of an array's elements
  absl::Span<const std::byte> bytes() const { return bytes_; }

  // The value where it is of such a type, else nullopt. Integers fit 63 bits.
  std::optional<int64_t> Int() const;
  std::optional<double> Number() const;  // an integer, too
  std::optional<bool> Bool() const;
  std::optional<std::string_view> Text() const;
  std::optional<std::vector<int64_t>> Ints() const;
  std::optional<std::vector<double>> Numbers() const;
  std::optional<std::vector<std::string_view>> Texts() const;

  // For messages: at most some 60 characters, printable.
  std::string ForMessage() const;

 private:
  GgufValueType type_ = GgufValueType::kUint8;
  bool is_array_ = false;
  uint64_t count_ = 1;
  absl::Span<const std::byte> bytes_;
};

struct GgufTensor {
  const GgufType* type = nullptr;
  std::vector<uint64_t> shape;        // rows first; the last dimension is cut into blocks
  absl::Span<const std::byte> bytes;  // of all blocks
};

using GgufMetadata = std::map<std::string, GgufValue, std::less<>>;
using GgufTensors = std::map<std::string, GgufTensor, std::less<>>;

struct GgufContents {
  GgufMetadata metadata;
  GgufTensors tensors;
};

// Parses a whole file held in memory. `source` names it in messages. INVALID_ARGUMENT, naming the
// key or tensor, where the file is truncated, a count or length exceeds it, a key or name is there
// twice, a value or a tensor has an unknown type, a row is no multiple of its blocks, or tensors
// overlap, leave gaps or are not aligned; UNIMPLEMENTED for versions and block formats not read.
absl::StatusOr<GgufContents> ParseGguf(absl::Span<const std::byte> file, const std::string& source);

// Whether a file begins as GGUF does.
bool HasGgufMagic(absl::Span<const std::byte> file);

}  // namespace sluice
