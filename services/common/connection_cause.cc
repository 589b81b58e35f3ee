#include "services/common/connection_cause.h"

#include <algorithm>
#include <array>
#include <utility>

namespace sluice {
namespace {

// OpenSSL's reasons, which are about records and handshakes, as what they mean for who connects.
std::string InWords(const std::string& cause) {
  constexpr std::array<std::pair<const char*, const char*>, 2> kMeanings = {
      {{"wrong version number", "it does not speak TLS"},
       {"certificate verify failed",
        "its certificate comes from no authority that is trusted here"}}};
  for (const auto& [reason, meaning] : kMeanings) {
    if (cause.find(reason) != std::string::npos) return meaning;
  }
  return cause;
}

}  // namespace

std::string ConnectionCause(const std::string& message) {
  // One for each way of choosing among addresses: the first, or one after the other.
  constexpr std::array kChains = {"failed to connect to all addresses",
                                  "connections to all backends failing"};
  const bool is_chain = std::any_of(kChains.begin(), kChains.end(), [&](const char* chain) {
    return message.rfind(chain, 0) == 0;
  });
  if (!is_chain) return message;
  const size_t colon = message.rfind(": ");
  return InWords(colon == std::string::npos ? message : message.substr(colon + 2));
}

}  // namespace sluice
