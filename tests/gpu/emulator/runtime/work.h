// What streams are asked to do, and the handles of the CUDA runtime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <variant>
#include <vector>

#include "tests/gpu/emulator/machine/launch.h"
#include "tests/gpu/emulator/runtime/overlaps.h"

struct CUstream_st;

// The runtime's handles are pointers to these.
struct CUevent_st {
  bool is_done = true;  // before it is first recorded
  CUstream_st* stream = nullptr;
};

namespace sluice::cuda::emulator {

struct CopyWork {
  void* to = nullptr;
  const void* from = nullptr;
  size_t bytes = 0;
};
struct FillWork {
  void* to = nullptr;
  int value = 0;
  size_t bytes = 0;
};
struct RecordWork {
  CUevent_st* event = nullptr;
};
// Goes on once the word is `value`.
struct AwaitWork {
  const volatile uint32_t* word = nullptr;
  uint32_t value = 0;
};
struct WriteWork {
  volatile uint32_t* word = nullptr;
  uint32_t value = 0;
};

using Work = std::variant<LaunchRequest, CopyWork, FillWork, RecordWork, AwaitWork, WriteWork>;

}  // namespace sluice::cuda::emulator

struct CUgraph_st {
  std::vector<sluice::cuda::emulator::Work> work;
};
struct CUgraphExec_st {
  std::vector<sluice::cuda::emulator::Work> work;
};
struct CUstream_st {
  std::deque<sluice::cuda::emulator::Work> work;
  sluice::cuda::emulator::Overlaps overlaps;
  CUgraph_st* capture = nullptr;
  bool capture_failed = false;
};
