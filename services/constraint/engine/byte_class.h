// Sets of bytes, and classes of characters coarse enough for a set of them to be one word. Pure;
// thread-safe.
#pragma once

#include <bitset>
#include <cstdint>

namespace sluice {

using ByteSet = std::bitset<256>;

// A set of classes, a bit each: lower case, upper case, digits, what is not ASCII, and each other
// character of ASCII from space to ~. Control characters have no class.
using CharClasses = uint64_t;

inline constexpr CharClasses kNotAsciiClass = CharClasses{1} << 3;
inline constexpr CharClasses kAllClasses = ~CharClasses{0};

// 0 for control characters. Bytes above 0x7F belong to characters that are not ASCII.
constexpr CharClasses ClassOfByte(uint8_t byte) {
  if (byte >= 'a' && byte <= 'z') return 1;
  if (byte >= 'A' && byte <= 'Z') return 2;
  if (byte >= '0' && byte <= '9') return 4;
  if (byte >= 0x80) return kNotAsciiClass;
  if (byte < 0x20 || byte == 0x7F) return 0;
  // The 33 others lie in four runs.
  const int index = byte <= '/'   ? byte - ' '
                    : byte <= '@' ? byte - ':' + 16
                    : byte <= '`' ? byte - '[' + 23
                                  : byte - '{' + 29;
  return CharClasses{1} << (4 + index);
}

}  // namespace sluice
