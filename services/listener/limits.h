// Limits for the peers of a listening process, derived from the limits of the process itself. Plain
// values and pure functions.
#pragma once

#include <cstdint>

namespace sluice {

struct ListenerLimits {
  int connections = 1024;
  int connections_per_host = 512;
  // Streams that are open, over all connections.
  int streams = 4096;
  // Bytes that have been received but not been handed to a handler, over all connections: messages
  // of which a part is missing.
  uint64_t held_bytes = uint64_t{64} << 20;
  // Largest message that is accepted.
  int message_bytes = 32 << 20;
};

// A quarter of `memory_bytes` is for what clients' connections hold. A connection costs two of
// `descriptors`; 128 are left for files and for connections to other processes.
ListenerLimits LimitsFor(uint64_t memory_bytes, uint64_t descriptors);

// The same of this process: the limit of its control groups, or else the host's memory, and
// RLIMIT_NOFILE.
ListenerLimits LimitsOfThisProcess();

// Raises RLIMIT_NOFILE from its soft to its hard limit; where that is not allowed it stays.
void RaiseDescriptorLimit();

}  // namespace sluice
