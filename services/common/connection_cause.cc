#include "services/common/connection_cause.h"

#include <algorithm>
#include <array>

namespace sluice {

std::string ConnectionCause(const std::string& message) {
  // One for each way of choosing among addresses: the first, or one after the other.
  constexpr std::array kChains = {"failed to connect to all addresses",
                                  "connections to all backends failing"};
  const bool is_chain = std::any_of(kChains.begin(), kChains.end(), [&](const char* chain) {
    return message.rfind(chain, 0) == 0;
  });
  if (!is_chain) return message;
  const size_t colon = message.rfind(": ");
  return colon == std::string::npos ? message : message.substr(colon + 2);
}

}  // namespace sluice
