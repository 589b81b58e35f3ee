// Characters of UTF-8 text as code points. Pure; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice {

// The character at `at`, which moves behind it. REQUIRES: valid UTF-8, which does not end there.
inline uint32_t NextCodePoint(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const uint32_t lead = byte(at++);
  if (lead < 0x80) return lead;
  const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
  uint32_t code = lead & (0x3F >> more);
  for (int i = 0; i < more && at < text.size(); ++i) code = code << 6 | (byte(at++) & 0x3F);
  return code;
}

}  // namespace sluice
