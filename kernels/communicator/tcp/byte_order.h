// Numbers in messages between ranks: little-endian, whatever the host's order.
#pragma once

#include <cstddef>

namespace sluice {

template <typename Unsigned>
void StoreLittleEndian(Unsigned value, std::byte* into) {
  for (std::size_t i = 0; i < sizeof(Unsigned); ++i) {
    into[i] = static_cast<std::byte>(value >> (8 * i));
  }
}

template <typename Unsigned>
Unsigned LoadLittleEndian(const std::byte* from) {
  Unsigned value = 0;
  for (std::size_t i = 0; i < sizeof(Unsigned); ++i) {
    value |= static_cast<Unsigned>(from[i]) << (8 * i);
  }
  return value;
}

}  // namespace sluice
