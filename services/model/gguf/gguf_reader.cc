#include "services/model/gguf/gguf_reader.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

constexpr int kMaxDepth = 2;  // arrays inside arrays

// Bytes of a value of a fixed size; 0 for the others.
uint64_t SizeOfValue(GgufValueType type) {
  switch (type) {
    case GgufValueType::kUint8:
    case GgufValueType::kInt8:
    case GgufValueType::kBool:
      return 1;
    case GgufValueType::kUint16:
    case GgufValueType::kInt16:
      return 2;
    case GgufValueType::kUint32:
    case GgufValueType::kInt32:
    case GgufValueType::kFloat32:
      return 4;
    case GgufValueType::kUint64:
    case GgufValueType::kInt64:
    case GgufValueType::kFloat64:
      return 8;
    case GgufValueType::kString:
    case GgufValueType::kArray:
      return 0;
  }
  return 0;
}

template <typename T>
std::optional<int64_t> IntOf(GgufReader& reader) {
  const std::optional<T> value = reader.Scalar<T>();
  if (!value.has_value()) return std::nullopt;
  if constexpr (sizeof(T) == 8 && !std::is_signed_v<T>) {
    if (*value > static_cast<T>(INT64_MAX)) return std::nullopt;
  }
  return static_cast<int64_t>(*value);
}

std::optional<int64_t> NextInt(GgufReader& reader, GgufValueType type) {
  switch (type) {
    case GgufValueType::kUint8:
      return IntOf<uint8_t>(reader);
    case GgufValueType::kInt8:
      return IntOf<int8_t>(reader);
    case GgufValueType::kUint16:
      return IntOf<uint16_t>(reader);
    case GgufValueType::kInt16:
      return IntOf<int16_t>(reader);
    case GgufValueType::kUint32:
      return IntOf<uint32_t>(reader);
    case GgufValueType::kInt32:
      return IntOf<int32_t>(reader);
    case GgufValueType::kUint64:
      return IntOf<uint64_t>(reader);
    case GgufValueType::kInt64:
      return IntOf<int64_t>(reader);
    default:
      return std::nullopt;
  }
}

std::optional<double> NextNumber(GgufReader& reader, GgufValueType type) {
  if (type == GgufValueType::kFloat32) return reader.Scalar<float>();
  if (type == GgufValueType::kFloat64) return reader.Scalar<double>();
  const std::optional<int64_t> number = NextInt(reader, type);
  if (!number.has_value()) return std::nullopt;
  return static_cast<double>(*number);
}

// All elements of an array, read by next(reader); nullopt where one is of another type.
template <typename T, typename Next>
std::optional<std::vector<T>> Elements(const GgufValue& array, Next next) {
  if (!array.is_array()) return std::nullopt;
  GgufReader reader(array.bytes());
  std::vector<T> elements;
  for (uint64_t i = 0; i < array.count(); ++i) {
    const std::optional<T> element = next(reader);
    if (!element.has_value()) return std::nullopt;
    elements.push_back(*element);
  }
  return elements;
}

}  // namespace

std::optional<std::string_view> GgufReader::Text() {
  const auto length = Scalar<uint64_t>();
  if (!length.has_value()) return std::nullopt;
  const auto bytes = Take(*length);
  if (!bytes.has_value()) return std::nullopt;
  return std::string_view(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

bool GgufReader::Skip(GgufValueType type, uint64_t count, int depth) {
  if (const uint64_t size = SizeOfValue(type); size > 0) {
    return count <= file_.size() / size && Take(count * size).has_value();
  }
  for (uint64_t i = 0; i < count; ++i) {
    if (type == GgufValueType::kString) {
      if (!Text().has_value()) return false;
      continue;
    }
    const auto inner = Scalar<uint32_t>();
    const auto inner_count = Scalar<uint64_t>();
    if (depth == 0 || !inner_count.has_value() || *inner > kLastGgufValueType) return false;
    if (!Skip(static_cast<GgufValueType>(*inner), *inner_count, depth - 1)) return false;
  }
  return true;
}

std::optional<GgufValue> GgufReader::Value(GgufValueType type) {
  const bool is_array = type == GgufValueType::kArray;
  uint64_t count = 1;
  if (is_array) {
    const auto element = Scalar<uint32_t>();
    const auto given = Scalar<uint64_t>();
    if (!given.has_value() || *element > kLastGgufValueType) return std::nullopt;
    type = static_cast<GgufValueType>(*element);
    count = *given;
  }
  const size_t begin = position_;
  if (!Skip(type, count, kMaxDepth)) return std::nullopt;
  return GgufValue(type, is_array, count, file_.subspan(begin, position_ - begin));
}

std::optional<int64_t> GgufValue::Int() const {
  if (is_array_) return std::nullopt;
  GgufReader reader(bytes_);
  return NextInt(reader, type_);
}

std::optional<double> GgufValue::Number() const {
  if (is_array_) return std::nullopt;
  GgufReader reader(bytes_);
  return NextNumber(reader, type_);
}

std::optional<bool> GgufValue::Bool() const {
  if (is_array_ || type_ != GgufValueType::kBool) return std::nullopt;
  return bytes_[0] != std::byte{0};
}

std::optional<std::string_view> GgufValue::Text() const {
  if (is_array_ || type_ != GgufValueType::kString) return std::nullopt;
  GgufReader reader(bytes_);
  return reader.Text();
}

std::optional<std::vector<int64_t>> GgufValue::Ints() const {
  return Elements<int64_t>(*this, [this](GgufReader& reader) { return NextInt(reader, type_); });
}

std::optional<std::vector<double>> GgufValue::Numbers() const {
  return Elements<double>(*this, [this](GgufReader& reader) { return NextNumber(reader, type_); });
}

std::optional<std::vector<std::string_view>> GgufValue::Texts() const {
  if (type_ != GgufValueType::kString) return std::nullopt;
  return Elements<std::string_view>(*this, [](GgufReader& reader) { return reader.Text(); });
}

std::string GgufValue::ForMessage() const {
  constexpr size_t kMaxLength = 60;
  if (is_array_) return absl::StrCat("an array of ", count_);
  if (const auto text = Text()) {
    const std::string_view shown = text->substr(0, kMaxLength);
    return absl::StrCat("\"", absl::CHexEscape({shown.data(), shown.size()}), "\"");
  }
  if (const auto truth = Bool()) return *truth ? "true" : "false";
  if (const auto number = Int()) return absl::StrCat(*number);
  if (const auto number = Number()) return absl::StrCat(*number);
  return "an integer beyond 63 bits";
}

}  // namespace sluice
