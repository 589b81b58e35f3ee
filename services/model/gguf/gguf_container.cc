#include "services/model/gguf/gguf_container.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/model/gguf/gguf_reader.h"

namespace sluice {
namespace {

static_assert(std::endian::native == std::endian::little, "values are used as they are stored");

constexpr char kMagic[] = {'G', 'G', 'U', 'F'};
constexpr uint64_t kMaxDimensions = 4;
constexpr uint64_t kMaxAlignment = uint64_t{1} << 20;
constexpr uint64_t kDefaultAlignment = 32;
constexpr char kAlignmentKey[] = "general.alignment";

// A tensor of the index whose bytes are still to be found.
struct Entry {
  const std::string* name = nullptr;  // in GgufContents
  GgufTensor* tensor = nullptr;       // likewise
  uint64_t offset = 0;                // from the beginning of the data
  uint64_t bytes = 0;
};

std::string Quoted(std::string_view name) {
  return absl::StrCat(
      "\"", absl::CHexEscape(absl::string_view(name.data(), std::min<size_t>(name.size(), 200))),
      "\"");
}

// The bytes of a tensor, or nothing where they exceed 64 bits. REQUIRES: whole blocks.
std::optional<uint64_t> BytesOf(const GgufTensor& tensor) {
  uint64_t weights = 1;
  for (const uint64_t dimension : tensor.shape) {
    if (__builtin_mul_overflow(weights, dimension, &weights)) return std::nullopt;
  }
  uint64_t bytes = 0;
  const uint64_t blocks = weights / static_cast<uint64_t>(tensor.type->weights);
  if (__builtin_mul_overflow(blocks, static_cast<uint64_t>(tensor.type->bytes), &bytes)) {
    return std::nullopt;
  }
  return bytes;
}

// Parses one file; errors carry its name, and that of the key or tensor at fault.
class ContainerParser {
 public:
  ContainerParser(absl::Span<const std::byte> file, const std::string& source)
      : reader_(file), source_(source) {}

  absl::StatusOr<GgufContents> Parse() {
    absl::Status status = ReadHeader();
    for (uint64_t i = 0; i < num_values_ && status.ok(); ++i) status = ReadValue(i);
    for (uint64_t i = 0; i < num_tensors_ && status.ok(); ++i) status = ReadEntry(i);
    if (status.ok()) status = PlaceTensors();
    if (!status.ok()) return status;
    return std::move(contents_);
  }

 private:
  absl::Status Error(absl::string_view message,
                     absl::StatusCode code = absl::StatusCode::kInvalidArgument) const {
    return absl::Status(code, absl::StrCat(source_, ": ", message));
  }
  absl::Status TensorError(const std::string& name, absl::string_view message) const {
    return Error(absl::StrCat("tensor ", Quoted(name), " ", message));
  }
  absl::Status Truncated(absl::string_view where) const {
    return Error(absl::StrCat("is truncated or damaged: it has ", reader_.size(),
                              " bytes and ends in ", where));
  }

  absl::Status ReadHeader() {
    const auto magic = reader_.Take(sizeof(kMagic));
    if (!magic.has_value() || !HasGgufMagic(*magic))
      return Error("does not begin as GGUF files do");
    const auto version = reader_.Scalar<uint32_t>();
    if (!version.has_value()) return Truncated("its header");
    if (*version != 2 && *version != 3) {
      const bool swapped = *version != 0 && __builtin_bswap32(*version) <= 3;
      return Error(swapped ? "is big-endian; accepted: little-endian"
                           : absl::StrCat("is of GGUF version ", *version, "; accepted: 2, 3"),
                   absl::StatusCode::kUnimplemented);
    }
    const auto num_tensors = reader_.Scalar<uint64_t>(), num_values = reader_.Scalar<uint64_t>();
    if (!num_values.has_value()) return Truncated("its header");
    num_tensors_ = *num_tensors;
    num_values_ = *num_values;
    // Each takes more bytes than one; so that a lying count is said to be one.
    if (num_tensors_ > reader_.size() || num_values_ > reader_.size()) {
      return Error(absl::StrCat("has ", num_tensors_, " tensors and ", num_values_,
                                " values by its header, in ", reader_.size(), " bytes"));
    }
    return absl::OkStatus();
  }

  absl::Status ReadValue(uint64_t index) {
    const auto key = reader_.Text();
    if (!key.has_value()) return Truncated(absl::StrCat("key ", index, " of ", num_values_));
    const auto type = reader_.Scalar<uint32_t>();
    if (!type.has_value()) return Truncated(absl::StrCat("key ", Quoted(*key)));
    if (*type > kLastGgufValueType) {
      return Error(absl::StrCat("key ", Quoted(*key), " has a value of type ", *type,
                                "; accepted: 0 to ", kLastGgufValueType));
    }
    const auto value = reader_.Value(static_cast<GgufValueType>(*type));
    if (!value.has_value()) {
      return Error(absl::StrCat("key ", Quoted(*key),
                                " has a value that is damaged or reaches beyond the file's ",
                                reader_.size(), " bytes"));
    }
    if (contents_.metadata.emplace(*key, *value).second) return absl::OkStatus();
    return Error(absl::StrCat("has the key ", Quoted(*key), " twice"));
  }

  absl::Status ReadEntry(uint64_t index) {
    const auto text = reader_.Text();
    const auto num_dimensions = reader_.Scalar<uint32_t>();
    const std::string where = absl::StrCat("entry ", index, " of ", num_tensors_, " tensors");
    if (!text.has_value() || !num_dimensions.has_value()) return Truncated(where);
    const std::string name(*text);
    if (*num_dimensions < 1 || *num_dimensions > kMaxDimensions) {
      return TensorError(name, absl::StrCat("has ", *num_dimensions, " dimensions; accepted: 1 to ",
                                            kMaxDimensions));
    }
    GgufTensor tensor;
    for (uint32_t i = 0; i < *num_dimensions; ++i) {
      const auto dimension = reader_.Scalar<uint64_t>();
      if (!dimension.has_value()) return Truncated(where);
      tensor.shape.insert(tensor.shape.begin(), *dimension);
    }
    const auto type = reader_.Scalar<uint32_t>();
    const auto offset = reader_.Scalar<uint64_t>();
    if (!offset.has_value()) return Truncated(where);
    tensor.type = FindGgufType(*type);
    if (tensor.type == nullptr) {
      return absl::UnimplementedError(absl::StrCat(source_, ": tensor ", Quoted(name),
                                                   " is stored as ", GgufTypeName(*type),
                                                   "; accepted: ", WeightGgufTypes()));
    }
    return AddEntry(name, std::move(tensor), *offset);
  }

  absl::Status AddEntry(const std::string& name, GgufTensor tensor, uint64_t offset) {
    if (tensor.shape.back() % static_cast<uint64_t>(tensor.type->weights) != 0) {
      return TensorError(
          name, absl::StrCat("has rows of ", tensor.shape.back(), " weights in ", tensor.type->name,
                             "; accepted: multiples of ", tensor.type->weights));
    }
    const std::optional<uint64_t> bytes = BytesOf(tensor);
    if (!bytes.has_value()) {
      return TensorError(name, absl::StrCat("has the shape [", absl::StrJoin(tensor.shape, ", "),
                                            "], more than 64 bits can count"));
    }
    const auto [added, is_new] = contents_.tensors.emplace(name, std::move(tensor));
    if (!is_new) return Error(absl::StrCat("has the tensor ", Quoted(name), " twice"));
    entries_.push_back({&added->first, &added->second, offset, *bytes});
    return absl::OkStatus();
  }

  absl::StatusOr<uint64_t> Alignment() const {
    const auto found = contents_.metadata.find(kAlignmentKey);
    if (found == contents_.metadata.end()) return kDefaultAlignment;
    const auto alignment = static_cast<uint64_t>(found->second.Int().value_or(0));
    if (std::has_single_bit(alignment) && alignment <= kMaxAlignment) return alignment;
    return Error(absl::StrCat(kAlignmentKey, " is ", found->second.ForMessage(),
                              "; accepted: a power of two up to ", kMaxAlignment));
  }

  // Each tensor begins at the next multiple of the alignment after the one before it.
  absl::Status PlaceTensors() {
    const absl::StatusOr<uint64_t> alignment = Alignment();
    if (!alignment.ok()) return alignment.status();
    const auto aligned = [&](uint64_t at) {
      return (at + *alignment - 1) / *alignment * *alignment;
    };
    const uint64_t start = std::min<uint64_t>(aligned(reader_.position()), reader_.size());
    const absl::Span<const std::byte> data = reader_.file().subspan(start);
    std::stable_sort(entries_.begin(), entries_.end(),
                     [](const Entry& a, const Entry& b) { return a.offset < b.offset; });
    uint64_t expected = 0;
    for (const Entry& entry : entries_) {
      if (entry.offset != expected) {
        return TensorError(*entry.name, absl::StrCat("begins at ", entry.offset,
                                                     " of the data; accepted: ", expected,
                                                     ", where the one before it ends"));
      }
      if (entry.offset > data.size() || entry.bytes > data.size() - entry.offset) {
        return TensorError(*entry.name,
                           absl::StrCat("takes ", entry.bytes, " bytes from ", entry.offset,
                                        " on, beyond the file's ", data.size(),
                                        " bytes of data: truncated or damaged"));
      }
      entry.tensor->bytes = data.subspan(entry.offset, entry.bytes);
      expected = aligned(entry.offset + entry.bytes);
    }
    return absl::OkStatus();
  }

  GgufReader reader_;
  const std::string& source_;
  uint64_t num_tensors_ = 0;
  uint64_t num_values_ = 0;
  GgufContents contents_;
  std::vector<Entry> entries_;
};

}  // namespace

bool HasGgufMagic(absl::Span<const std::byte> file) {
  return file.size() >= sizeof(kMagic) && std::memcmp(file.data(), kMagic, sizeof(kMagic)) == 0;
}

absl::StatusOr<GgufContents> ParseGguf(absl::Span<const std::byte> file,
                                       const std::string& source) {
  return ContainerParser(file, source).Parse();
}

}  // namespace sluice
