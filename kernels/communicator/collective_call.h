// Which call of a Communicator a message belongs to, so that ranks whose calls differ learn it
// instead of mixing up bytes. Plain values.
#pragma once

#include <cstdint>
#include <string>

namespace sluice {

enum CollectiveOperation : std::uint32_t { kBroadcast = 1, kAllGather = 2, kAllToAll = 3 };

// "Broadcast of 64 bytes from rank 2". `operation` may be a peer's, and so no CollectiveOperation.
std::string DescribeCollective(std::uint32_t operation, std::uint32_t root, std::uint64_t bytes);

}  // namespace sluice
