#include "services/common/connection_cause.h"

namespace sluice {

std::string ConnectionCause(const std::string& message) {
  constexpr char kChain[] = "failed to connect to all addresses";
  if (message.rfind(kChain, 0) != 0) return message;
  const size_t colon = message.rfind(": ");
  return colon == std::string::npos ? message : message.substr(colon + 2);
}

}  // namespace sluice
