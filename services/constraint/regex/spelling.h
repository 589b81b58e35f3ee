// Spelling of texts in bytes, such as JSON escapes.
#pragma once

#include <cstdint>

namespace sluice {

enum class Spelling : uint8_t {
  kPlain,       // as UTF-8
  kJsonString,  // as the inside of a JSON string and the quote that ends it
};

}  // namespace sluice
