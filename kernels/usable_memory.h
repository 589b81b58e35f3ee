// How much memory this process may take of its host.
#pragma once

#include <cstdint>
#include <string>

namespace sluice {

// Bytes that the control groups of this process may hold (cgroups(7), versions 1 and 2: the memory
// limit of a container), all processes in them together; the largest number where none has a limit.
// `root` as in LeastGroupLimit().
uint64_t MemoryLimit(const std::string& root);

}  // namespace sluice
