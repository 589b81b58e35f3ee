#include "services/model/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/model/json_fields.h"
#include "services/model/stand_in.h"

namespace sluice {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are used as they are stored");

using nlohmann::json;

constexpr uint64_t kPrefixBytes = 8;  // the header's length
constexpr uint64_t kMaxHeaderBytes = 100'000'000;

constexpr StoredType kStoredTypes[] = {
    {"BOOL", 1, std::nullopt},    {"U8", 1, std::nullopt},        {"I8", 1, std::nullopt},
    {"F8_E5M2", 1, std::nullopt}, {"F8_E4M3", 1, DType::kF8E4M3}, {"F8_E8M0", 1, std::nullopt},
    {"I16", 2, std::nullopt},     {"U16", 2, std::nullopt},       {"F16", 2, DType::kF16},
    {"BF16", 2, DType::kBF16},    {"I32", 4, DType::kI32},        {"U32", 4, std::nullopt},
    {"F32", 4, DType::kF32},      {"F64", 8, std::nullopt},       {"I64", 8, std::nullopt},
    {"U64", 8, std::nullopt},     {"C64", 8, std::nullopt},
};

std::string KnownTypes() {
  return absl::StrJoin(kStoredTypes, ", ", [](std::string* out, const StoredType& type) {
    absl::StrAppend(out, type.name);
  });
}

// Offsets into the data, that is, from the header's end.
struct Offsets {
  uint64_t begin = 0;
  uint64_t end = 0;
};

std::string OffsetsText(Offsets offsets) {
  return absl::StrCat("[", offsets.begin, ", ", offsets.end, ")");
}

// Parses one file; errors carry its name, and that of the tensor at fault.
class Parser {
 public:
  Parser(absl::Span<const std::byte> file, const std::string& source)
      : file_(file), source_(source) {}

  absl::StatusOr<TensorFileContents> Parse();

 private:
  absl::StatusOr<std::string> HeaderText();
  absl::Status AddEntry(const std::string& name, const json& value);
  absl::Status AddMetadata(const json& value);
  absl::Status AddTensor(const std::string& name, const json& value);
  absl::Status CheckCoverage() const;

  absl::Status Error(absl::string_view message) const {
    return absl::InvalidArgumentError(absl::StrCat(source_, ": ", message));
  }
  absl::Status TensorError(const std::string& name, absl::string_view message) const {
    return Error(absl::StrCat("tensor \"", absl::Utf8SafeCHexEscape(name), "\" ", message));
  }

  const absl::Span<const std::byte> file_;
  const std::string& source_;
  absl::Span<const std::byte> data_;
  TensorFileContents contents_;
  std::vector<std::pair<Offsets, const std::string*>> placed_;  // names borrow from contents_
};

absl::StatusOr<TensorFileContents> Parser::Parse() {
  const auto text = HeaderText();
  if (!text.ok()) return text.status();
  data_ = file_.subspan(kPrefixBytes + text->size());
  const auto header = ParseJson(*text, absl::StrCat(source_, ": header"));
  if (!header.ok()) return header.status();
  if (!header->is_object()) return Error("the header is no JSON object");
  for (const auto& [name, value] : header->items()) {
    if (absl::Status added = AddEntry(name, value); !added.ok()) return added;
  }
  if (absl::Status covered = CheckCoverage(); !covered.ok()) return covered;
  return std::move(contents_);
}

absl::StatusOr<std::string> Parser::HeaderText() {
  if (file_.size() < kPrefixBytes) {
    return Error(absl::StrCat("has ", file_.size(), " bytes; a safetensors file begins with 8"));
  }
  uint64_t length;
  std::memcpy(&length, file_.data(), sizeof(length));
  if (length > kMaxHeaderBytes) {
    return Error(absl::StrCat("says its header has ", length, " bytes; accepted: at most ",
                              kMaxHeaderBytes));
  }
  if (length > file_.size() - kPrefixBytes) {
    return Error(absl::StrCat("is truncated: it has ", file_.size(), " bytes, its header alone ",
                              length, " after the first 8"));
  }
  return std::string(reinterpret_cast<const char*>(file_.data()) + kPrefixBytes, length);
}

absl::Status Parser::AddEntry(const std::string& name, const json& value) {
  return name == "__metadata__" ? AddMetadata(value) : AddTensor(name, value);
}

absl::Status Parser::AddMetadata(const json& value) {
  if (value.is_null()) return absl::OkStatus();  // as some writers have it where there is none
  if (!value.is_object()) return Error("__metadata__ is no JSON object");
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) {
      return Error(absl::StrCat("__metadata__.", absl::Utf8SafeCHexEscape(key), " is ",
                                ValueText(text), "; accepted: a string"));
    }
    contents_.metadata.emplace(key, text.get_ref<const std::string&>());
  }
  return absl::OkStatus();
}

absl::StatusOr<StoredType> ParseType(const json& value) {
  const auto found = value.find("dtype");
  const std::string name =
      found != value.end() && found->is_string() ? found->get<std::string>() : "";
  for (const StoredType& type : kStoredTypes) {
    if (name == type.name) return type;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("has dtype ", found == value.end() ? "missing" : ValueText(*found),
                   "; accepted: ", KnownTypes()));
}

// A list of integers from 0 to 2^64 - 1; `count` of them unless it is negative.
absl::StatusOr<std::vector<uint64_t>> ParseSizes(const json& value, const char* field, int count) {
  const auto found = value.find(field);
  if (found == value.end()) return absl::InvalidArgumentError(absl::StrCat("has no ", field));
  const bool well_formed = found->is_array() &&
                           (count < 0 || found->size() == static_cast<size_t>(count)) &&
                           std::all_of(found->begin(), found->end(),
                                       [](const json& item) { return item.is_number_unsigned(); });
  if (well_formed) return found->get<std::vector<uint64_t>>();
  return absl::InvalidArgumentError(
      absl::StrCat("has ", field, " ", ValueText(*found), "; accepted: a list of ",
                   count < 0 ? "" : absl::StrCat(count, " "), "integers from 0"));
}

// shape's product times the element size, or nothing where that exceeds 64 bits.
std::optional<uint64_t> BytesOf(absl::Span<const uint64_t> shape, const StoredType& type) {
  // A zero anywhere empties the tensor, however large the other dimensions.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  uint64_t bytes = static_cast<uint64_t>(type.size);
  for (const uint64_t dimension : shape) {
    if (__builtin_mul_overflow(bytes, dimension, &bytes)) return std::nullopt;
  }
  return bytes;
}

absl::Status Parser::AddTensor(const std::string& name, const json& value) {
  if (!value.is_object()) {
    return TensorError(name, absl::StrCat("is ", ValueText(value), "; accepted: a JSON object"));
  }
  const auto type = ParseType(value);
  if (!type.ok()) return TensorError(name, type.status().message());
  const auto shape = ParseSizes(value, "shape", -1);
  if (!shape.ok()) return TensorError(name, shape.status().message());
  const auto pair = ParseSizes(value, "data_offsets", 2);
  if (!pair.ok()) return TensorError(name, pair.status().message());

  const Offsets offsets{(*pair)[0], (*pair)[1]};
  if (offsets.begin > offsets.end || offsets.end > data_.size()) {
    return TensorError(
        name, absl::StrCat("has data_offsets ", OffsetsText(offsets), ", beyond the file's ",
                           data_.size(), " bytes of data: truncated or damaged"));
  }
  const std::optional<uint64_t> bytes = BytesOf(*shape, *type);
  if (bytes != offsets.end - offsets.begin) {
    return TensorError(
        name,
        absl::StrCat("has data_offsets ", OffsetsText(offsets), ", ", offsets.end - offsets.begin,
                     " bytes, but ", type->name, " of shape ", ShapeText(*shape), " takes ",
                     bytes.has_value() ? absl::StrCat(*bytes) : "more than 64 bits can say"));
  }
  const auto [added, inserted] = contents_.tensors.emplace(
      name, StoredTensor{*type, *shape, data_.subspan(offsets.begin, *bytes)});
  placed_.emplace_back(offsets, &added->first);
  return absl::OkStatus();
}

// The tensors cover the data exactly: each begins where the one before it ends.
absl::Status Parser::CheckCoverage() const {
  auto placed = placed_;
  std::sort(placed.begin(), placed.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first.begin, a.first.end) < std::pair(b.first.begin, b.first.end);
  });
  uint64_t covered = 0;
  const std::string* previous = nullptr;
  for (const auto& [offsets, name] : placed) {
    if (offsets.begin != covered) {
      return TensorError(
          *name,
          absl::StrCat("has data_offsets ", OffsetsText(offsets),
                       offsets.begin < covered ? ", which overlap with" : ", a gap after",
                       previous == nullptr
                           ? " the data's beginning"
                           : absl::StrCat(" those of \"", absl::Utf8SafeCHexEscape(*previous),
                                          "\", which end"),
                       " at ", covered));
    }
    covered = offsets.end;
    previous = name;
  }
  if (covered == data_.size()) return absl::OkStatus();
  return Error(absl::StrCat("has ", data_.size(), " bytes of data, its tensors end at ", covered));
}

}  // namespace

absl::StatusOr<TensorFileContents> ParseSafetensors(absl::Span<const std::byte> file,
                                                    const std::string& source) {
  return Parser(file, source).Parse();
}

absl::StatusOr<TensorFile> OpenSafetensors(const std::string& path) {
  auto file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  const std::string_view beginning(reinterpret_cast<const char*>(file->bytes().data()),
                                   std::min<size_t>(file->bytes().size(), 64));
  if (absl::Status real = CheckIsNoStandIn(beginning, path); !real.ok()) return real;
  auto contents = ParseSafetensors(file->bytes(), path);
  if (!contents.ok()) return contents.status();
  return TensorFile(*std::move(file), *std::move(contents));
}

}  // namespace sluice
