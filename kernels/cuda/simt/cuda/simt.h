// What kernels are written in, on NVIDIA's GPUs (compute capability 8.0 and later): threads,
// barriers, shuffles, and the instructions that load and multiply tiles, as the PTX ISA documents
// them. tests/gpu/host/simt/simt.h is the same on the host, and explains each.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cuda/simt/launch_shape.h"
#include "kernels/cuda/stream.h"

#define SIMT_NAMESPACE on_gpu
#define SIMT_KERNEL(max_threads, min_blocks) \
  __global__ void __launch_bounds__(max_threads, min_blocks)
#define SIMT_DEVICE __device__ __forceinline__
#define SIMT_UNROLL _Pragma("unroll")
// Loops of unknown length whose reads are to be under way together.
#define SIMT_UNROLL_FOUR _Pragma("unroll 4")
// Loops whose bodies would take too many registers side by side.
#define SIMT_ROLLED _Pragma("unroll 1")
// What a kernel is asked, which it may refer to: it stays in constant memory.
#define SIMT_TASK const __grid_constant__

namespace sluice::cuda::SIMT_NAMESPACE {

// Whether the process lets kernels begin while those before them end (LetKernelsOverlap).
inline std::atomic<bool>& OverlapIsWanted() {
  static std::atomic<bool> wanted = true;
  return wanted;
}
// ... and the GPU can ("programmatic dependent launch").
inline bool MayOverlap() {
  static const bool may = [] {
    int device = 0, major = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) ==
               cudaSuccess &&
           major >= 9;
  }();
  return may && OverlapIsWanted();
}

// All kernels that this program may launch, known before main().
inline std::vector<const void*>& KnownKernels() {
  static std::vector<const void*> kernels;
  return kernels;
}
template <auto kKernel>
inline const bool kIsKnown = [] {
  KnownKernels().push_back(reinterpret_cast<const void*>(kKernel));
  return true;
}();

// After PrepareKernels() for the device (prepare_kernels.h). A failure to launch shows at the stream's next
// wait (cudaGetLastError).
template <auto kKernel, class Task>
void Launch(Stream stream, LaunchShape shape, const Task& task) {
  if (shape.blocks == 0 || !kIsKnown<kKernel>) return;
  cudaLaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (MayOverlap()) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (shape.cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {static_cast<unsigned>(shape.cluster), 1, 1};
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(shape.blocks));
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = attributes;
  config.numAttrs = count;
  cudaLaunchKernelEx(&config, kKernel, task);
}

// ---- Threads ----

SIMT_DEVICE int Thread() { return static_cast<int>(threadIdx.x); }
SIMT_DEVICE int NumThreads() { return static_cast<int>(blockDim.x); }
SIMT_DEVICE int64_t Block() { return blockIdx.x; }
SIMT_DEVICE int64_t NumBlocks() { return gridDim.x; }

template <class T>
SIMT_DEVICE T* SharedMemory() {
  extern __shared__ __align__(1024) unsigned char sluice_shared_memory[];
  return reinterpret_cast<T*>(sluice_shared_memory);
}

SIMT_DEVICE void Barrier() { __syncthreads(); }
SIMT_DEVICE void WarpBarrier() { __syncwarp(); }
// Not __threadfence(), which orders all that all threads do: slower, and more than a message needs.
SIMT_DEVICE void Fence() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

template <class T>
SIMT_DEVICE T ShuffleXor(T value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
template <class T>
SIMT_DEVICE T ShuffleUp(T value, int delta) {
  return __shfl_up_sync(0xffffffffu, value, delta);
}
template <class T>
SIMT_DEVICE T ShuffleFrom(T value, int lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}

// By this instruction ptxas knows that there is one; where threads are compared, it has every copy in
// bulk made by all lanes in turn.
SIMT_DEVICE bool IsElected() {
  uint32_t elected;
  asm volatile("{ .reg .pred one; elect.sync _|one, 0xffffffff; selp.u32 %0, 1, 0, one; }"
               : "=r"(elected));
  return elected != 0;
}

SIMT_DEVICE uint32_t Ballot(bool vote) { return __ballot_sync(0xffffffffu, vote); }

SIMT_DEVICE unsigned AtomicAdd(unsigned* to, unsigned value) { return atomicAdd(to, value); }
SIMT_DEVICE void Raise(int* flag) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], 1;" ::"l"(__cvta_generic_to_global(flag))
               : "memory");
}
SIMT_DEVICE float LoadUncached(const float* from) { return __ldcg(from); }

SIMT_DEVICE void LetKernelsBehindBegin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
SIMT_DEVICE void WaitForKernelsBefore() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// ---- Arithmetic ----

SIMT_DEVICE float FusedMultiplyAdd(float a, float b, float c) { return __fmaf_rn(a, b, c); }
SIMT_DEVICE float SquareRoot(float x) { return __fsqrt_rn(x); }
SIMT_DEVICE double SquareRoot(double x) { return __dsqrt_rn(x); }
SIMT_DEVICE int CountOnes(uint32_t bits) { return __popc(bits); }
SIMT_DEVICE uint32_t PermuteBytes(uint32_t low, uint32_t high, uint32_t places) {
  return __byte_perm(low, high, places);
}
SIMT_DEVICE float Exp(float x) { return expf(x); }
SIMT_DEVICE float Exp2(float x) { return exp2f(x); }
SIMT_DEVICE float Log(float x) { return logf(x); }
SIMT_DEVICE double Log(double x) { return log(x); }
SIMT_DEVICE double Power(double x, double y) { return pow(x, y); }
SIMT_DEVICE float ErrorFunctionComplement(float x) { return erfcf(x); }
SIMT_DEVICE float NextBelow(float x) { return nextafterf(x, -INFINITY); }
SIMT_DEVICE float FloatFromBits(uint32_t bits) { return __uint_as_float(bits); }
SIMT_DEVICE uint32_t BitsOf(float value) { return __float_as_uint(value); }
SIMT_DEVICE double DoubleFromBits(uint64_t bits) { return __longlong_as_double(bits); }
SIMT_DEVICE uint64_t BitsOf(double value) { return __double_as_longlong(value); }

SIMT_DEVICE uint32_t PackBFloat16(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
// a * 1 - b: exact wherever the difference of the pairs is.
SIMT_DEVICE uint32_t SubtractBFloat16(uint32_t a, uint32_t b) {
  uint32_t pair;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;"
      : "=r"(pair)
      : "r"(a), "r"(0x3f803f80u), "r"(b ^ 0x80008000u));
  return pair;
}

SIMT_DEVICE uint32_t MultiplyBFloat16(uint32_t a, uint32_t b) {
  uint32_t pair;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(pair) : "r"(a), "r"(b), "r"(0x80008000u));
  return pair;
}

// ---- Tiles ----

SIMT_DEVICE uint32_t SharedAddress(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

SIMT_DEVICE void CopyAsync(void* shared, const void* global, bool is_real) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(SharedAddress(shared)), "l"(__cvta_generic_to_global(global)),
                 "r"(is_real ? 16 : 0)
               : "memory");
}
SIMT_DEVICE void CopyWordAsync(void* shared, const void* global, bool is_real) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
               :
               : "r"(SharedAddress(shared)), "l"(__cvta_generic_to_global(global)),
                 "r"(is_real ? 4 : 0)
               : "memory");
}
SIMT_DEVICE void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kMostPending>
SIMT_DEVICE void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kMostPending) : "memory");
}

SIMT_DEVICE void LoadMatrices(const void* row, uint32_t (&out)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(SharedAddress(row))
               : "memory");
}
SIMT_DEVICE void LoadTransposed(const void* row, uint32_t (&out)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(SharedAddress(row))
               : "memory");
}

SIMT_DEVICE void MultiplyTiles(const uint32_t (&a)[4], uint32_t b0, uint32_t b1, float (&c)[4]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// ---- Tiles of four warps: compute capability 9.0, in code made for it alone (sm_90a) ----

SIMT_DEVICE void ShowToMultiplies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
SIMT_DEVICE void BeginMultiplies() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
SIMT_DEVICE void CommitMultiplies() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kMostPending>
SIMT_DEVICE void WaitForMultiplies() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kMostPending) : "memory");
}

// Neither is what reads them moved before this, nor what wrote them behind it: an instruction that goes
// on by itself is over for the compiler once it has begun.
template <int kColumns>
SIMT_DEVICE void HoldSums(float (&c)[kColumns][4]) {
  SIMT_UNROLL
  for (auto& column : c) {
    SIMT_UNROLL
    for (float& sum : column) asm volatile("" : "+f"(sum)::"memory");
  }
}

#define SLUICE_SUMS_4(c, n) "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])
#define SLUICE_SUMS_8(c, n) SLUICE_SUMS_4(c, n), SLUICE_SUMS_4(c, n + 1)
#define SLUICE_SUMS_16(c, n) SLUICE_SUMS_8(c, n), SLUICE_SUMS_8(c, n + 2)
#define SLUICE_SUMS_32(c, n) SLUICE_SUMS_16(c, n), SLUICE_SUMS_16(c, n + 4)
#define SLUICE_SUMS_64(c, n) SLUICE_SUMS_32(c, n), SLUICE_SUMS_32(c, n + 8)
// The sums are operands 0 to count - 1; those of A, the descriptor and whether to add follow.
#define SLUICE_WGMMA(tokens, inputs_and_types, flags, sums, a0, a1, a2, a3, b, adds)             \
  "{ .reg .pred adds; setp.ne.b32 adds, %" adds                                                  \
  ", 0; wgmma.mma_async.sync.aligned.m64n" tokens inputs_and_types " {" sums "}, {%" a0 ", %" a1 \
  ", %" a2 ", %" a3 "}, %" b ", adds, " flags "; }"
#define SLUICE_FACTORS(a, b, adds) \
  "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(adds))
#define SLUICE_OPERANDS_0_TO_7 "%0, %1, %2, %3, %4, %5, %6, %7"
#define SLUICE_OPERANDS_0_TO_31                                                 \
  SLUICE_OPERANDS_0_TO_7                                                        \
  ", %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, " \
  "%23, %24, %25, %26, %27, %28, %29, %30, %31"
#define SLUICE_OPERANDS_0_TO_63                                                   \
  SLUICE_OPERANDS_0_TO_31                                                         \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, " \
  "%47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "   \
  "%62, %63"

// A multiply of 16, 64 or 128 tokens.
#define SLUICE_MULTIPLY_SHARED(name, inputs_and_types, flags)                                      \
  SIMT_DEVICE void name(const uint32_t(&a)[4], uint64_t b, float(&c)[2][4], bool adds) {           \
    asm volatile(SLUICE_WGMMA("16", inputs_and_types, flags, SLUICE_OPERANDS_0_TO_7, "8", "9",     \
                              "10", "11", "12", "13")                                              \
                 : SLUICE_SUMS_8(c, 0)                                                             \
                 : SLUICE_FACTORS(a, b, adds));                                                    \
  }                                                                                                \
  SIMT_DEVICE void name(const uint32_t(&a)[4], uint64_t b, float(&c)[8][4], bool adds) {           \
    asm volatile(SLUICE_WGMMA("64", inputs_and_types, flags, SLUICE_OPERANDS_0_TO_31, "32", "33",  \
                              "34", "35", "36", "37")                                              \
                 : SLUICE_SUMS_32(c, 0)                                                            \
                 : SLUICE_FACTORS(a, b, adds));                                                    \
  }                                                                                                \
  SIMT_DEVICE void name(const uint32_t(&a)[4], uint64_t b, float(&c)[16][4], bool adds) {          \
    asm volatile(SLUICE_WGMMA("128", inputs_and_types, flags, SLUICE_OPERANDS_0_TO_63, "64", "65", \
                              "66", "67", "68", "69")                                              \
                 : SLUICE_SUMS_64(c, 0)                                                            \
                 : SLUICE_FACTORS(a, b, adds));                                                    \
  }

SLUICE_MULTIPLY_SHARED(MultiplyShared, "k16.f32.bf16.bf16", "1, 1, 0")
SLUICE_MULTIPLY_SHARED(MultiplySharedFp8, "k32.f32.e4m3.e4m3", "1, 1")

#undef SLUICE_MULTIPLY_SHARED
#undef SLUICE_OPERANDS_0_TO_63
#undef SLUICE_OPERANDS_0_TO_31
#undef SLUICE_OPERANDS_0_TO_7
#undef SLUICE_FACTORS
#undef SLUICE_WGMMA
#undef SLUICE_SUMS_64
#undef SLUICE_SUMS_32
#undef SLUICE_SUMS_16
#undef SLUICE_SUMS_8
#undef SLUICE_SUMS_4

// ---- Barriers in shared memory, copies in bulk, clusters: compute capability 9.0 ----

using MemoryBarrier = uint64_t;

SIMT_DEVICE void InitBarrier(MemoryBarrier* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SharedAddress(barrier)),
               "r"(arrivals)
               : "memory");
}
SIMT_DEVICE void ShowBarriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
SIMT_DEVICE void ArriveAndExpect(MemoryBarrier* barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(
                   SharedAddress(barrier)),
               "r"(bytes)
               : "memory");
}
// No wider scope than a block's, by default: what is passed on are bytes that copies brought, which
// their barrier publishes, and reads that are over. With the scope of a cluster ptxas puts a fence of
// the whole GPU before every arrival, and empties the first-level cache after every wait.
SIMT_DEVICE void ArriveAt(MemoryBarrier* barrier, int rank) {
  asm volatile(
      "{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; "
      "mbarrier.arrive.shared::cluster.b64 _, [there]; }" ::"r"(SharedAddress(barrier)),
      "r"(rank)
      : "memory");
}
SIMT_DEVICE void WaitForPhase(MemoryBarrier* barrier, uint32_t parity) {
  uint32_t is_over = 0;
  while (is_over == 0) {
    asm volatile(
        "{ .reg .pred over; mbarrier.try_wait.parity.shared::cta.b64 over, [%1], "
        "%2; selp.u32 %0, 1, 0, over; }"
        : "=r"(is_over)
        : "r"(SharedAddress(barrier)), "r"(parity)
        : "memory");
  }
}

SIMT_DEVICE void CopyBulk(void* shared, const void* global, uint32_t bytes,
                          MemoryBarrier* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(SharedAddress(shared)),
      "l"(__cvta_generic_to_global(global)), "r"(bytes), "r"(SharedAddress(barrier))
      : "memory");
}
template <int kBlocks>
SIMT_DEVICE void CopyBulkToAll(void* shared, const void* global, uint32_t bytes,
                               MemoryBarrier* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1], %2, [%3], %4;" ::"r"(SharedAddress(shared)),
      "l"(__cvta_generic_to_global(global)), "r"(bytes), "r"(SharedAddress(barrier)),
      "h"(static_cast<uint16_t>((1u << kBlocks) - 1))
      : "memory");
}

SIMT_DEVICE void ShowToBulkCopies() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

SIMT_DEVICE int RankInCluster() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}
SIMT_DEVICE void ClusterBarrier() {
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}
template <int kThreads>
SIMT_DEVICE void PartBarrier() {
  asm volatile("barrier.sync 1, %0;" ::"n"(kThreads) : "memory");
}

template <int kRegisters>
SIMT_DEVICE void TakeRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
SIMT_DEVICE void GiveRegistersBack() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// 16 bytes at a time, and 8.
struct alignas(16) Words {
  uint32_t word[4];
};
struct alignas(8) WordPair {
  uint32_t word[2];
};

}  // namespace sluice::cuda::SIMT_NAMESPACE
