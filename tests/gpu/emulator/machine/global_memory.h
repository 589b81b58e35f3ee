// The memory that kernels reach besides their own: allocations of the device, and of the host where
// it was pinned or registered. An address is that of the host. It knows which launch and block wrote
// each word last and read it last, and so whether what orders them was waited for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sluice::cuda::emulator {

// A launch among those of its stream. Launches are numbered from 1 as they are carried out, in all
// streams together.
struct LaunchOrder {
  uint32_t stream = 0;
  uint32_t number = 0;
  // All launches of the stream up to this one are over when it begins: the one before may not be, where
  // they may overlap (programmatic dependent launch).
  uint32_t over_at_start = 0;
  // ... and when griddepcontrol.wait returns.
  uint32_t over_after_wait = 0;
};

// Driven by one thread at a time.
class GlobalMemory {
 public:
  // Relaxed ones may be made by several threads at a time, and order nothing.
  enum class Access { kRead, kWrite, kRelaxedWrite, kAtomic };

  ~GlobalMemory();

  void Add(const void* begin, size_t size_bytes);
  void Remove(const void* begin);

  // The allocation that an address is in; size 0: none.
  struct Found {
    uint64_t begin = 0;
    size_t size_bytes = 0;
  };
  Found Find(uint64_t address) const;
  // Whether all of it is within one allocation and aligned: empty, or what is wrong.
  std::string Check(uint64_t address, size_t bytes, size_t alignment) const;

  // ---- While a launch is carried out ----

  void BeginLaunch(const LaunchOrder& order);
  // What Check() says, and whether the access comes behind all that it must come behind: what other
  // launches do that may not be over, and what other blocks do that this one has not heard of.
  struct Accessor {
    uint32_t block = 0;
    bool has_waited = false;  // for the launches before
  };
  std::string Note(Access access, uint64_t address, size_t bytes, size_t alignment,
                   const Accessor& accessor);
  // A fence of the whole GPU: what the block did before it is passed on by its next atomic access.
  void Fence(uint32_t block);

 private:
  struct Word {
    uint32_t writer = 0, reader = 0;  // launches
    uint32_t writer_block = 0, reader_block = 0;
    uint32_t writer_fences = 0, reader_fences = 0;  // of that block before it
  };
  struct Allocation {
    size_t size_bytes = 0;
    Word* words = nullptr;  // of four bytes; pages come when they are touched
  };
  struct BlockState {
    uint32_t fences = 0;
    std::map<uint32_t, uint32_t> heard;  // by block: how many of its fences this one knows of
  };

  const Allocation* FindAllocation(uint64_t address) const;
  std::string NoteRead(Word& word, const Accessor& accessor);
  std::string NoteWrite(Word& word, const Accessor& accessor);
  void NoteAtomic(Word& word, uint64_t address, const Accessor& accessor);
  std::string CheckLaunch(uint32_t launch, const char* did, const Accessor& accessor) const;
  bool HasHeard(uint32_t block, uint32_t of, uint32_t fences) const;

  std::map<uint64_t, Allocation> allocations_;
  // Most accesses are where the last one was.
  mutable uint64_t last_begin_ = 0;
  mutable const Allocation* last_ = nullptr;

  LaunchOrder order_;
  std::vector<uint32_t> streams_;  // by launch
  std::map<uint32_t, BlockState> blocks_;
  std::map<uint64_t, std::map<uint32_t, uint32_t>> passed_on_;  // by address of an atomic access
};

}  // namespace sluice::cuda::emulator
