#include "kernels/weight_format.h"

#include <cstring>
#include <vector>

#include "kernels/check.h"

namespace sluice {
namespace {

constexpr size_t kScaleBytes = 2;

// Groups of a row, whose bytes must be as many.
int64_t GroupsOf(const WeightFormatTraits& traits, size_t num_inputs, size_t bytes) {
  const int64_t groups = static_cast<int64_t>(num_inputs) / traits.group;
  SLUICE_CHECK(groups * traits.group == static_cast<int64_t>(num_inputs));
  SLUICE_CHECK(groups * traits.group_bytes == static_cast<int64_t>(bytes));
  return groups;
}

}  // namespace

void EncodeRow(WeightFormat format, absl::Span<const float> row, absl::Span<std::byte> out) {
  const WeightFormatTraits& traits = TraitsOf(format);
  traits.encode(row.data(), GroupsOf(traits, row.size(), out.size()), out.data());
}

void DecodeRow(WeightFormat format, absl::Span<const std::byte> bytes, absl::Span<float> row) {
  const WeightFormatTraits& traits = TraitsOf(format);
  traits.decode(bytes.data(), GroupsOf(traits, row.size(), bytes.size()), row.data());
}

void RecodeRows(WeightFormat from, absl::Span<const std::byte> rows, WeightFormat to,
                int64_t num_inputs, absl::Span<std::byte> out) {
  const size_t in_bytes = RowBytes(from, num_inputs);
  const size_t out_bytes = RowBytes(to, num_inputs);
  std::vector<float> row(static_cast<size_t>(num_inputs));
  for (; !rows.empty(); rows.remove_prefix(in_bytes), out.remove_prefix(out_bytes)) {
    DecodeRow(from, rows.first(in_bytes), absl::MakeSpan(row));
    EncodeRow(to, row, out.first(out_bytes));
  }
}

void ReadQuotients(WeightFormat format, const std::byte* group, int8_t* quotients) {
  TraitsOf(format).read_codes(group + kScaleBytes, quotients);
}

void RegroupRows(WeightFormat from, absl::Span<const std::byte> groups, WeightFormat to,
                 absl::Span<std::byte> out) {
  const WeightFormatTraits& source = TraitsOf(from);
  const WeightFormatTraits& target = TraitsOf(to);
  SLUICE_CHECK(target.group_bytes == target.group + static_cast<int64_t>(kScaleBytes));
  const int64_t parts = source.group / target.group;
  SLUICE_CHECK(groups.size() / source.group_bytes * parts * target.group_bytes == out.size());
  int8_t quotients[kMostGroup];
  std::byte* next = out.data();
  for (size_t i = 0; i < groups.size(); i += source.group_bytes) {
    source.read_codes(&groups[i] + kScaleBytes, quotients);
    for (int64_t part = 0; part < parts; ++part, next += target.group_bytes) {
      std::memcpy(next, &groups[i], kScaleBytes);
      std::memcpy(next + kScaleBytes, quotients + part * target.group, target.group);
    }
  }
}

}  // namespace sluice
