// A block's shared memory, which knows who wrote and read each word of it. Until it is written it is all
// ones: NaN in every format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/gpu/emulator/machine/clocks.h"

namespace sluice::cuda::emulator {

// Who accesses, and what comes before that.
struct Accessor {
  uint32_t who = 0;
  const VectorClock* clock = nullptr;
  // Null of copies in bulk. Fences between its ordinary accesses and those of copies and multiplies that it has made so far.
  const uint32_t* proxy_fences = nullptr;
};

class SharedMemory {
 public:
  explicit SharedMemory(size_t size_bytes);

  size_t size_bytes() const { return bytes_.size(); }

  // Whether an access is within the memory, `alignment` bytes aligned, and ordered behind those that
  // it must come behind: empty, or what is wrong. `address` counts from kSharedBase. What a race
  // detector notices is said by the first that comes later, in whichever order they are carried out.
  std::string Read(uint64_t address, size_t bytes, size_t alignment, const Accessor& reader,
                   void* to);
  std::string Write(uint64_t address, size_t bytes, size_t alignment, const Accessor& writer,
                    const void* from);
  // By a multiply: what threads wrote they must have shown to it, by a fence.
  std::string ReadByEngine(uint64_t address, size_t bytes, const Accessor& reader, void* to);
  // Atomic accesses don't race with each other.
  std::string Atomic(uint64_t address, const Accessor& writer, uint32_t add, uint32_t* before);

 private:
  struct Word {
    Moment write;
    Moment read;
    uint32_t fences_when_written = 0;
    uint32_t other_reads = 0;  // + 1: an index of other_reads_, where reads were not ordered
    bool by_thread = false;
    bool atomically = false;
    const uint32_t* writers_fences = nullptr;
  };

  std::string CheckPlace(uint64_t address, size_t bytes, size_t alignment) const;
  std::string NoteRead(Word& word, const Accessor& reader);
  std::string NoteWrite(Word& word, const Accessor& writer);
  static size_t IndexOf(uint64_t address);

  std::vector<std::byte> bytes_;
  std::vector<Word> words_;  // of four bytes
  std::vector<std::vector<Moment>> other_reads_;
};

}  // namespace sluice::cuda::emulator
