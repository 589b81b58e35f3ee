// What gRPC and Protocol Buffers need once in a process of Sluice.
#pragma once

namespace sluice {

// Called by whoever serves or dials, before. Thread-safe; only the first call does anything.
void PrepareGrpc();

}  // namespace sluice
