// What pipelines in shared memory are made of, on the host: barriers that count threads and bytes
// (mbarrier), and copies in bulk that arrive at them late, in any order. As the PTX ISA documents
// them ("mbarrier", "cp.async.bulk").
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

namespace sluice::cuda {

// The barriers in a block's shared memory, by their offset there. A phase of one ends when as many
// threads have arrived as it was set up for, and all bytes that were announced have come; bytes that
// come before they are announced are owed to it.
class HostBarriers {
 public:
  void Init(uint32_t barrier, int arrivals);
  // Those set up before may be used from here on.
  void Show();
  // `bytes`: that the thread announces.
  void Arrive(uint32_t barrier, uint32_t bytes);
  void Complete(uint32_t barrier, uint32_t bytes);
  // Whether the phase of this parity is over: the one under way, or the one before it.
  bool IsOver(uint32_t barrier, uint32_t parity);
  // Ends the process where bytes have come that nobody announced, or the reverse. Forgets all.
  void EndBlock();
  // Of the first barrier that waits for bytes; zero where none does.
  int64_t BytesAwaited() const;

 private:
  struct Barrier {
    int arrivals, pending;
    int64_t bytes = 0;  // announced, and not there yet
    uint32_t phase = 0;
    bool is_shown = false;
  };
  Barrier& At(uint32_t barrier);
  static void EndPhaseIfDone(Barrier& barrier);

  std::map<uint32_t, Barrier> by_offset_;
};

// Copies under way to the blocks of a cluster.
class BulkCopies {
 public:
  struct Copy {
    std::byte* to;
    const std::byte* from;
    uint32_t bytes;
    HostBarriers* barriers;
    uint32_t barrier;
  };
  void Add(const Copy& copy) { under_way_.push_back(copy); }
  // Has one of them arrive; whether there was one.
  bool Land();
  // The same now and then.
  void LandMaybe();
  bool empty() const { return under_way_.empty(); }

 private:
  std::vector<Copy> under_way_;
  std::minstd_rand random_;
};

}  // namespace sluice::cuda
