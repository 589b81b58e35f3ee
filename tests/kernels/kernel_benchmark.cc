// Times the CPU kernels on shapes of real models, each after checking its result against the
// reference, and sets them beside what this machine can do at best, measured in the same run.
//
//   sluice-kernel-bench [threads]      all cores by default
//
// A share of the bandwidth above 100% means that the operands fit the caches. On a machine with
// other work, one thread gives figures to trust: it is timed by its own CPU time.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "hwy/highway.h"
#include "kernels/check.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/reference/reference_backend.h"
#include "tests/kernels/ceilings.h"
#include "tests/kernels/testing/paged_sequence.h"
#include "tests/kernels/testing/tensors.h"

namespace sluice::testing {
namespace {

template <class... Args>
std::string Text(const char* format, Args... args) {
  char text[96];
  std::snprintf(text, sizeof(text), format, static_cast<long long>(args)...);
  return text;
}

void CheckNear(const HostMatrix& actual, const HostMatrix& expected, double tolerance) {
  const ::testing::AssertionResult near = IsNear(actual, expected, tolerance);
  if (near) return;
  std::fprintf(stderr, "wrong result: %s\n", near.message());
  std::exit(1);
}

struct AttentionShape {
  int64_t sequences;
  int64_t rows;     // of each sequence in the step
  int64_t context;  // positions of each sequence, those rows included
};

class Benchmark {
 public:
  explicit Benchmark(int num_threads)
      : pool_(num_threads),
        backend_(MakeCpuBackend({.num_threads = num_threads})),
        reference_(MakeReferenceBackend()) {}

  void MeasureCeilings() {
    bandwidth_ = MeasureReadBandwidth(pool_);
    flops_ = MeasureFlops(pool_);
    const int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
    std::printf("%s, %d threads: reads %.1f GB/s, multiply-adds %.1f GFLOP/s\n\n",
                hwy::TargetName(targets & -targets), pool_.num_threads(), bandwidth_ / 1e9,
                flops_ / 1e9);
    std::printf("%-40s %-5s %12s %9s %6s %10s %6s\n", "kernel", "dtype", "time us", "GB/s", "share",
                "GFLOP/s", "share");
  }

  void Region() {
    const double seconds =
        BestSeconds([&] { pool_.ParallelFor(pool_.num_threads(), [](int64_t, int) {}); });
    Print("parallel loop, empty", "", seconds, 0, 0);
  }

  void Gemm(int64_t rows, int64_t inputs, int64_t outputs, WeightFormat format, int num_slices) {
    CheckGemm(std::min<int64_t>(rows, 9), inputs, format, num_slices);
    const auto weights =
        Pack(*backend_, RandomMatrix(random_, outputs, inputs), format, num_slices);
    const DeviceMatrix x(*backend_, RandomMatrix(random_, rows, inputs));
    const DeviceMatrix out(*backend_, rows, outputs);
    const double seconds = BestSeconds([&] { backend_->Gemm(x.view(), *weights, out.view()); });
    Print(Text("gemm T %lld, K %lld, N %lld, %lld slices", rows, inputs, outputs, num_slices),
          Name(format), seconds, static_cast<double>(weights->size_bytes()),
          2.0 * rows * inputs * outputs);
  }

  void Attention(const AttentionShape& shape, DType dtype) {
    CheckAttention(dtype);
    const auto pool = NewKvPool(*backend_, Pool(shape, dtype));
    std::vector<Sequence> sequences;
    std::vector<AttentionSegment> segments;
    for (int64_t i = 0; i < shape.sequences; ++i) {
      sequences.push_back(Stored(shape, i, *backend_, *pool));
    }
    for (int64_t i = 0; i < shape.sequences; ++i) {
      segments.push_back(
          sequences[i].Segment(shape.context - shape.rows, shape.rows, i * shape.rows));
    }
    const int64_t rows = shape.sequences * shape.rows;
    const DeviceMatrix q(*backend_, RandomMatrix(random_, rows, kKvWidth * kGroup));
    const DeviceMatrix out(*backend_, rows, kKvWidth * kGroup);
    const double seconds = BestSeconds([&] {
      backend_->PagedAttention(q.view(), *pool, 0, segments, {.scale = kScale}, out.view());
    });
    const double visible = static_cast<double>(rows) * (shape.context - (shape.rows - 1) / 2.0);
    Print(Text("attention %lld x T %lld at %lld", shape.sequences, shape.rows, shape.context),
          Name(dtype), seconds, 2.0 * shape.sequences * shape.context * kKvWidth * SizeOf(dtype),
          4 * visible * kKvWidth * kGroup);
  }

  using RowOperation =
      std::function<void(Backend&, const DeviceMatrix& in, const DeviceMatrix& out)>;

  void RowKernel(const char* name, int64_t rows, int64_t in_width, int64_t out_width,
                 const RowOperation& run) {
    const HostMatrix x = RandomMatrix(random_, rows, in_width);
    const DeviceMatrix in(*backend_, x), out(*backend_, rows, out_width);
    const DeviceMatrix expected_in(*reference_, x), expected(*reference_, rows, out_width);
    run(*backend_, in, out);
    run(*reference_, expected_in, expected);
    CheckNear(out.Read(), expected.Read(), 2e-5);
    Print(Text((std::string(name) + " T %lld, %lld").c_str(), rows, in_width), "F32",
          BestSeconds([&] { run(*backend_, in, out); }), 4.0 * rows * (in_width + out_width), 0);
  }

 private:
  // Heads of an 8-billion-parameter Llama.
  static constexpr int kKvHeads = 8, kGroup = 4, kHeadDim = 128, kBlock = 16;
  static constexpr int64_t kKvWidth = kKvHeads * kHeadDim;
  static constexpr float kScale = 0.0883883476f;

  static KvPoolSpec Pool(const AttentionShape& shape, DType dtype) {
    return {.num_layers = 1,
            .num_blocks = static_cast<int>((shape.context + kBlock - 1) / kBlock * shape.sequences),
            .block_size = kBlock,
            .num_kv_heads = kKvHeads,
            .head_dim = kHeadDim,
            .dtype = dtype};
  }

  // Sequence number `index`, with its keys and values in blocks of its own.
  Sequence Stored(const AttentionShape& shape, int64_t index, Backend& backend, KvPool& pool) {
    Sequence sequence{HostMatrix(0, 0), RandomMatrix(random_, shape.context, kKvWidth),
                      RandomMatrix(random_, shape.context, kKvWidth),
                      BlocksInOrder(shape.context, kBlock)};
    for (int32_t& block : sequence.block_table) {
      block += static_cast<int32_t>(index * sequence.block_table.size());
    }
    const DeviceMatrix k(backend, sequence.k), v(backend, sequence.v);
    const AttentionSegment segment = sequence.Segment(0, shape.context);
    backend.StoreKv(k.view(), v.view(), {&segment, 1}, 0, pool);
    return sequence;
  }

  void CheckGemm(int64_t rows, int64_t inputs, WeightFormat format, int num_slices) {
    const HostMatrix x = RandomMatrix(random_, rows, inputs);
    const HostMatrix w = RandomMatrix(random_, 100, inputs);
    const auto multiply = [&](Backend& backend) {
      const DeviceMatrix in(backend, x), out(backend, rows, w.rows);
      backend.Gemm(in.view(), *Pack(backend, w, format, num_slices), out.view());
      return out.Read();
    };
    CheckNear(multiply(*backend_), multiply(*reference_), 1e-5 * std::sqrt(inputs));
  }

  void CheckAttention(DType dtype) {
    const AttentionShape shape{.sequences = 1, .rows = 40, .context = 40};
    const Sequence sequence{RandomMatrix(random_, 40, kKvWidth * kGroup),
                            RandomMatrix(random_, 40, kKvWidth),
                            RandomMatrix(random_, 40, kKvWidth), BlocksInOrder(40, kBlock)};
    const auto attend = [&](Backend& backend) {
      const auto pool = NewKvPool(backend, Pool(shape, dtype));
      return AttendChunk(backend, *pool, 0, sequence, 0, 40, {.scale = kScale});
    };
    CheckNear(attend(*backend_), attend(*reference_), 1e-5);
  }

  // The smallest time of a call, over at least ten samples and a third of a second. A sample is as
  // many calls as the clock needs to tell them from none.
  double BestSeconds(const std::function<void()>& call) const {
    int calls = 1;
    while (SampleSeconds(call, calls) < 50e-6) calls *= 2;
    const double begin = Seconds(pool_.num_threads());
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 10 || Seconds(pool_.num_threads()) - begin < 0.35; ++i) {
      best = std::min(best, SampleSeconds(call, calls) / calls);
    }
    return best;
  }

  double SampleSeconds(const std::function<void()>& call, int calls) const {
    const double start = Seconds(pool_.num_threads());
    for (int i = 0; i < calls; ++i) call();
    return Seconds(pool_.num_threads()) - start;
  }

  void Print(const std::string& kernel, std::string_view dtype, double seconds, double bytes,
             double operations) const {
    std::printf("%-40s %-5s %12.1f %9.1f %5.0f%% %10.1f %5.0f%%\n", kernel.c_str(),
                std::string(dtype).c_str(), seconds * 1e6, bytes / seconds / 1e9,
                100 * bytes / seconds / bandwidth_, operations / seconds / 1e9,
                100 * operations / seconds / flops_);
    std::fflush(stdout);
  }

  ThreadPool pool_;
  const std::unique_ptr<Backend> backend_;
  const std::unique_ptr<Backend> reference_;
  Random random_{1};
  double bandwidth_ = 0;
  double flops_ = 0;
};

void Run(int num_threads) {
  Benchmark benchmark(num_threads);
  benchmark.MeasureCeilings();
  benchmark.Region();
  for (const WeightFormat format : {WeightFormat::kBF16, WeightFormat::kF32}) {
    for (const int64_t rows : {1, 2, 4, 8, 32, 128, 512}) {
      benchmark.Gemm(rows, 4096, 4096, format, 1);
    }
    benchmark.Gemm(1, 14336, 4096, format, 8);
    benchmark.Gemm(512, 14336, 4096, format, 8);
    benchmark.Gemm(1, 4096, 32000, format, 1);
    benchmark.Gemm(1, 288, 768, format, 1);
    benchmark.Gemm(1, 256, 256, format, 1);
  }
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    benchmark.Attention({.sequences = 1, .rows = 1, .context = 16384}, dtype);
    benchmark.Attention({.sequences = 16, .rows = 1, .context = 1024}, dtype);
    benchmark.Attention({.sequences = 1, .rows = 512, .context = 512}, dtype);
    benchmark.Attention({.sequences = 1, .rows = 256, .context = 4096}, dtype);
  }
  for (const int64_t rows : {1, 512}) {
    benchmark.RowKernel("rms_norm", rows, 4096, 4096, [](Backend& backend, auto& in, auto& out) {
      backend.RmsNorm(in.view(), in.data(), 1e-5f, out.view());  // the first row as weights
    });
  }
  benchmark.RowKernel("log_softmax", 1, 128256, 128256, [](Backend& backend, auto& in, auto& out) {
    backend.LogSoftmax(in.view(), out.view());
  });
}

}  // namespace
}  // namespace sluice::testing

int main(int argc, char** argv) {
  const int num_threads = argc > 1 ? std::atoi(argv[1]) : 0;
  if (argc > 2 || num_threads < 0 || (argc == 2 && num_threads == 0)) {
    std::fprintf(stderr, "usage: %s [threads]; threads is a number above 0\n", argv[0]);
    return 2;
  }
  sluice::testing::Run(num_threads);
  return 0;
}
