// What kernels are written in, on the host: the same sources, compiled for it, for tests. The
// threads of a block are fibres (host_grid.h) that take turns where they wait for each other; tiles
// are loaded and multiplied in plain loops after the layouts that the PTX ISA documents
// (kernels/cuda/fragment.h).
//
// What it notices, and what it can't: kernels/cuda/README.md.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cuda/simt/launch_shape.h"
#include "kernels/cuda/stream.h"
#include "kernels/dtype.h"
#include "tests/gpu/host/simt/host_grid.h"
#include "tests/gpu/host/simt/host_tiles.h"

#define SIMT_NAMESPACE on_host
#define SIMT_KERNEL(max_threads, min_blocks) inline void
#define SIMT_DEVICE inline
#define SIMT_UNROLL
#define SIMT_UNROLL_FOUR
#define SIMT_ROLLED
#define SIMT_TASK const

namespace sluice::cuda::SIMT_NAMESPACE {

// Enqueues shape.blocks blocks of shape.threads threads that run kKernel(task), each block with
// shape.shared_bytes of memory that its threads share.
template <auto kKernel, class Task>
void Launch(Stream stream, LaunchShape shape, const Task& task) {
  EnqueueGrid(stream, shape, [task] {
    kKernel(task);
    HostThread::Current().CheckKernelWaited();
  });
}

// ---- Threads ----

// Of the block, and of the grid.
inline int Thread() { return HostThread::Current().index(); }
inline int NumThreads() { return HostThread::Current().block().shape().threads; }
inline int64_t Block() { return HostThread::Current().block().index(); }
inline int64_t NumBlocks() { return HostThread::Current().block().shape().blocks; }

// The block's, 128-byte aligned. Full of NaN at first.
template <class T>
T* SharedMemory() {
  return reinterpret_cast<T*>(HostThread::Current().block().shared_memory());
}

// Returns once all threads of the block, or of the warp, have called it.
inline void Barrier() { HostThread::Current().WaitForBlock(); }
inline void WarpBarrier() { HostThread::Current().WaitForWarp(); }
// What this thread wrote before is seen by all that see what it writes after.
inline void Fence() {}

// The value of lane `lane ^ mask`, or of lane `lane - delta` (its own where there is none). Called
// by all lanes of a warp.
template <class T>
T ShuffleXor(T value, int mask) {
  return HostThread::Current().Shuffle(value, [mask](int lane) { return lane ^ mask; });
}
template <class T>
T ShuffleUp(T value, int delta) {
  return HostThread::Current().Shuffle(
      value, [delta](int lane) { return lane < delta ? lane : lane - delta; });
}
// The value of lane `lane`. Called by all lanes of a warp.
template <class T>
T ShuffleFrom(T value, int lane) {
  return HostThread::Current().Shuffle(value, [lane](int) { return lane; });
}

// Whether this lane acts for its warp: one of them does, whichever. Called by all lanes of a warp.
inline bool IsElected() { return Thread() % kWarpSize == 0; }

// Bit l is the vote of lane l. Called by all lanes of a warp.
inline uint32_t Ballot(bool vote) { return HostThread::Current().Ballot(vote); }

// Makes it 1, which others may do at the same time.
inline void Raise(int* flag) { *flag = 1; }
// Returns what was there.
inline unsigned AtomicAdd(unsigned* to, unsigned value) {
  const unsigned before = *to;
  *to += value;
  return before;
}
// What other blocks of the grid wrote.
inline float LoadUncached(const float* from) { return *from; }

// Every kernel may begin before the kernels launched before it have ended, and every thread of it
// calls this once: then they have, and what they wrote is there. Before, it may read what no kernel
// writes (weights), and write nothing but shared memory.
inline void WaitForKernelsBefore() { HostThread::Current().WaitForKernelsBefore(); }

// Lets the kernel behind this one begin although those before it may still run. Every kernel waits, so
// that a kernel whose wait is over still finds all before it over. Without this, WaitForKernelsBefore()
// lets it begin. For short kernels that keep little of a multiprocessor: the next product then has its
// first weights under way before they end.
inline void LetKernelsBehindBegin() {}

// ---- Arithmetic ----

inline float FusedMultiplyAdd(float a, float b, float c) { return std::fma(a, b, c); }
inline float SquareRoot(float x) { return std::sqrt(x); }
inline double SquareRoot(double x) { return std::sqrt(x); }
inline int CountOnes(uint32_t bits) { return std::popcount(bits); }
// Four of the bytes 0 to 3 of `low` and 4 to 7 of `high`, as the digits of `places` name them, the lowest
// digit for the lowest byte.
inline uint32_t PermuteBytes(uint32_t low, uint32_t high, uint32_t places) {
  const uint64_t bytes = uint64_t{high} << 32 | low;
  uint32_t chosen = 0;
  for (int i = 0; i < 4; ++i) {
    chosen |= static_cast<uint32_t>(bytes >> ((places >> (4 * i) & 7) * 8) & 0xff) << (8 * i);
  }
  return chosen;
}
inline float Exp(float x) { return std::exp(x); }
inline float Exp2(float x) { return std::exp2(x); }
inline float Log(float x) { return std::log(x); }
inline double Log(double x) { return std::log(x); }
inline double Power(double x, double y) { return std::pow(x, y); }
inline float ErrorFunctionComplement(float x) { return std::erfc(x); }
inline float NextBelow(float x) { return std::nextafter(x, -HUGE_VALF); }

template <class To, class From>
To SameBits(From from) {
  To to;
  static_assert(sizeof(to) == sizeof(from));
  std::memcpy(&to, &from, sizeof(to));
  return to;
}
inline float FloatFromBits(uint32_t bits) { return SameBits<float>(bits); }
inline uint32_t BitsOf(float value) { return SameBits<uint32_t>(value); }
inline double DoubleFromBits(uint64_t bits) { return SameBits<double>(bits); }
inline uint64_t BitsOf(double value) { return SameBits<uint64_t>(value); }

// Two numbers rounded to BF16, to nearest even, in one word.
inline uint32_t PackBFloat16(float low, float high) {
  return BFloat16FromFloat(low) | uint32_t{BFloat16FromFloat(high)} << 16;
}
// Each half of a minus that of b.
inline uint32_t SubtractBFloat16(uint32_t a, uint32_t b) {
  const auto half = [](uint32_t pair, int shift) {
    return FloatFromBFloat16(static_cast<uint16_t>(pair >> shift));
  };
  return PackBFloat16(half(a, 0) - half(b, 0), half(a, 16) - half(b, 16));
}

// Each half of a times that of b, rounded once; numbers below the least normal one count, too.
inline uint32_t MultiplyBFloat16(uint32_t a, uint32_t b) {
  const auto half = [](uint32_t pair, int shift) {
    return FloatFromBFloat16(static_cast<uint16_t>(pair >> shift));
  };
  return PackBFloat16(half(a, 0) * half(b, 0), half(a, 16) * half(b, 16));
}

// ---- Tiles ----

// Copies 16 aligned bytes to shared memory, or zeroes where `is_real` is false (`global` is then
// not read). Done only once this thread has waited for the group that the copy was committed with.
inline void CopyAsync(void* shared, const void* global, bool is_real) {
  HostThread::Current().CopyAsync(shared, global, 16, is_real);
}
// The same of 4 bytes.
inline void CopyWordAsync(void* shared, const void* global, bool is_real) {
  HostThread::Current().CopyAsync(shared, global, 4, is_real);
}
// Makes a group of the copies since the last call.
inline void CommitCopies() { HostThread::Current().CommitCopies(); }
// Waits for all groups of this thread but the newest kMostPending. Other threads see the copies
// after a barrier.
template <int kMostPending>
void WaitForCopies() {
  HostThread::Current().WaitForCopies(kMostPending);
}

// ldmatrix.x4: lane l names row l % 8 of matrix l / 8, 8 elements of 16 bits in shared memory, and
// gets ElementOfLoadedMatrix() of each of the four.
inline void LoadMatrices(const void* row, uint32_t (&out)[4]) { HostLoadMatrices(row, false, out); }
inline void LoadTransposed(const void* row, uint32_t (&out)[4]) {
  HostLoadMatrices(row, true, out);
}

// mma.m16n8k16: c += A B, numbers of A and B in BF16, sums in F32.
inline void MultiplyTiles(const uint32_t (&a)[4], uint32_t b0, uint32_t b1, float (&c)[4]) {
  HostMultiplyTiles(a, b0, b1, c);
}

// ---- Tiles of four warps (wgmma): out of order with everything else until they are waited for ----

// What this thread wrote to shared memory, and the copies it waited for, are seen by multiplies
// that begin after the block's next barrier.
inline void ShowToMultiplies() { HostThread::Current().ShowToMultiplies(); }
// Goes before multiplies whose registers were written by other instructions.
inline void BeginMultiplies() {}
// wgmma.m64nNk16: c += A B, or c = A B where `adds` is false; numbers of A and B in BF16, sums in F32.
// Each warp has 16 rows of A in its registers, as MultiplyTiles has them; B^T [N, 16] lies in shared
// memory where the descriptor (shared_descriptor.h) says; c[n] is the fragment of columns 8 n to
// 8 n + 7. Until they are waited for, neither a, c nor B may change.
template <int kColumns>
void MultiplyShared(const uint32_t (&a)[4], uint64_t b, float (&c)[kColumns][4], bool adds) {
  HostThread::Current().Multiply(
      {a, b, &c[0][0], kColumns, adds, HostMultiply::Numbers::kBFloat16});
}
// wgmma.m64nNk32 of codes of FP8, two of them where there was a BF16 number: in registers and in
// shared memory they lie as those.
template <int kColumns>
void MultiplySharedFp8(const uint32_t (&a)[4], uint64_t b, float (&c)[kColumns][4], bool adds) {
  HostThread::Current().Multiply({a, b, &c[0][0], kColumns, adds, HostMultiply::Numbers::kFp8});
}
// Goes between sums that other instructions write and the multiplies that add to them, and between
// the wait for multiplies and what reads their sums: keeps a compiler, which takes a multiply's sums
// to be there when it was asked for, from moving either. While none of their multiplies is under way.
template <int kColumns>
void HoldSums(float (&/*c*/)[kColumns][4]) {}
// Makes a group of the multiplies since the last call.
inline void CommitMultiplies() { HostThread::Current().CommitMultiplies(); }
// Waits for all groups of this warp but the newest kMostPending.
template <int kMostPending>
void WaitForMultiplies() {
  HostThread::Current().WaitForMultiplies(kMostPending);
}
// Where shared memory lies, as descriptors name it.
inline uint32_t SharedAddress(const void* shared) {
  return HostThread::Current().SharedAddress(shared);
}

// ---- Barriers in shared memory, copies in bulk, clusters (compute capability 9.0) ----

// mbarrier, 8 bytes of shared memory: a phase of it ends when as many threads have arrived as it was
// set up for and all bytes that they announced have come; then the next begins.
using MemoryBarrier = uint64_t;

// By one thread; the others use it after a barrier of the block or cluster, whichever they are of.
inline void InitBarrier(MemoryBarrier* barrier, int arrivals) {
  HostThread::Current().InitBarrier(barrier, arrivals);
}
// What InitBarrier wrote is seen by copies and by the cluster's other blocks after the next barrier.
inline void ShowBarriers() { HostThread::Current().ShowBarriers(); }
// Arrives, and announces `bytes`.
inline void ArriveAndExpect(MemoryBarrier* barrier, uint32_t bytes) {
  HostThread::Current().Arrive(barrier, HostThread::Current().rank(), bytes);
}
// Arrives at the barrier that lies at the same place in the cluster's block `rank`.
inline void ArriveAt(MemoryBarrier* barrier, int rank) {
  HostThread::Current().Arrive(barrier, rank, 0);
}
// Returns once the phase of this parity is over, the one under way or the one before it: at once
// for parity 1 of a new barrier. What the threads that arrived did, and the bytes, are seen then.
inline void WaitForPhase(MemoryBarrier* barrier, uint32_t parity) {
  HostThread::Current().WaitForPhase(barrier, parity);
}

// Copies to shared memory, and counts the bytes at the barrier once they are there. Addresses and
// bytes are multiples of 16. What is copied was written by a kernel before.
inline void CopyBulk(void* shared, const void* global, uint32_t bytes, MemoryBarrier* barrier) {
  HostThread& thread = HostThread::Current();
  thread.CopyBulk(shared, global, bytes, barrier, 1u << thread.rank());
}
// The same to this place of each of the cluster's kBlocks blocks, and its barrier at that place.
template <int kBlocks>
void CopyBulkToAll(void* shared, const void* global, uint32_t bytes, MemoryBarrier* barrier) {
  HostThread::Current().CopyBulk(shared, global, bytes, barrier, (1u << kBlocks) - 1);
}

// What kernels before wrote, and this thread waited for, is seen by copies in bulk that it asks for
// from here on.
inline void ShowToBulkCopies() {}

// Which of the cluster's blocks this is.
inline int RankInCluster() { return HostThread::Current().rank(); }
// Returns once all threads of the cluster have called it. Barriers that were shown are seen by all
// then; other memory is not passed on.
inline void ClusterBarrier() { HostThread::Current().WaitForCluster(); }
// Returns once the block's first kThreads threads have called it.
template <int kThreads>
void PartBarrier() {
  HostThread::Current().WaitForPart(kThreads);
}

// How many registers a thread of these four warps has from here on; called by all of them.
template <int kRegisters>
void TakeRegisters() {}
template <int kRegisters>
void GiveRegistersBack() {}

struct alignas(16) Words {
  uint32_t word[4];
};
struct alignas(8) WordPair {
  uint32_t word[2];
};

}  // namespace sluice::cuda::SIMT_NAMESPACE
