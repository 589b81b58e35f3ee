#include "services/model/tensor_convert.h"

#include <cstdint>
#include <cstring>

#include "kernels/check.h"

namespace sluice {
namespace {

template <typename From, typename To, typename Convert>
void ConvertEach(const std::byte* in, absl::Span<std::byte> out, Convert convert) {
  const size_t count = out.size() / sizeof(To);
  for (size_t i = 0; i < count; ++i) {
    From from;
    std::memcpy(&from, in + i * sizeof(From), sizeof(From));
    const To to = convert(from);
    std::memcpy(out.data() + i * sizeof(To), &to, sizeof(To));
  }
}

}  // namespace

void ConvertElements(DType from, const std::byte* in, DType to, absl::Span<std::byte> out) {
  SLUICE_CHECK(from == DType::kF32 || from == DType::kF16 || from == DType::kBF16);
  SLUICE_CHECK(to == DType::kF32 || to == DType::kBF16);
  if (out.empty()) return;
  if (from == to) {
    std::memcpy(out.data(), in, out.size());
  } else if (from == DType::kF16 && to == DType::kF32) {
    ConvertEach<uint16_t, float>(in, out, [](uint16_t bits) { return FloatFromHalf(bits); });
  } else if (from == DType::kBF16) {
    ConvertEach<uint16_t, float>(in, out, [](uint16_t bits) { return FloatFromBFloat16(bits); });
  } else if (from == DType::kF32) {
    ConvertEach<float, uint16_t>(in, out, [](float value) { return BFloat16FromFloat(value); });
  } else {
    ConvertEach<uint16_t, uint16_t>(
        in, out, [](uint16_t bits) { return BFloat16FromFloat(FloatFromHalf(bits)); });
  }
}

}  // namespace sluice
