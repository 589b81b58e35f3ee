// sluice-gpu-ceilings: what a GPU can do at best, which its kernels are held to: bytes per second of
// a copy within its memory, and operations per second of cuBLASLt's best product of BF16 matrices
// with F32 sums on random numbers. JSON objects, each a line as soon as it is known; cuBLASLt is
// opened at run time, and its part is missing, with the reason, where the library is.
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr int kSamples = 7;

void Check(cudaError_t error, const char* doing) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "sluice-gpu-ceilings: %s: %s: %s\n", doing, cudaGetErrorName(error),
               cudaGetErrorString(error));
  std::exit(1);
}

void* Allocate(size_t bytes) {
  void* memory = nullptr;
  Check(cudaMalloc(&memory, bytes), "allocating");
  return memory;
}

// The median time in seconds of what `enqueue` puts on the default stream, `times` over.
template <class Enqueue>
double Time(int times, const Enqueue& enqueue) {
  cudaEvent_t begin, end;
  Check(cudaEventCreate(&begin), "making an event");
  Check(cudaEventCreate(&end), "making an event");
  enqueue();
  std::vector<double> samples;
  for (int sample = 0; sample < kSamples; ++sample) {
    Check(cudaEventRecord(begin, nullptr), "recording");
    for (int i = 0; i < times; ++i) enqueue();
    Check(cudaEventRecord(end, nullptr), "recording");
    Check(cudaEventSynchronize(end), "waiting");
    float milliseconds = 0;
    Check(cudaEventElapsedTime(&milliseconds, begin, end), "timing");
    samples.push_back(milliseconds / 1e3 / times);
  }
  std::nth_element(samples.begin(), samples.begin() + kSamples / 2, samples.end());
  return samples[kSamples / 2];
}

// Bytes read and written per second.
double CopyBandwidth() {
  size_t free_bytes = 0, total = 0;
  Check(cudaMemGetInfo(&free_bytes, &total), "asking for memory");
  const size_t bytes = std::min(size_t{4} << 30, free_bytes / 4) / 4096 * 4096;
  void *from = Allocate(bytes), *to = Allocate(bytes);
  Check(cudaMemset(from, 0x5a, bytes), "filling");
  const double seconds = Time(5, [&] {
    Check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, nullptr), "copying");
  });
  Check(cudaFree(from), "freeing");
  Check(cudaFree(to), "freeing");
  return 2.0 * static_cast<double>(bytes) / seconds;
}

// The calls of cuBLASLt that a product takes.
struct Lt {
  void* library = nullptr;
  std::string failure;
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtMatmulDescCreate) new_product = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_product = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) new_layout = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) new_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) find = nullptr;
  decltype(&cublasLtMatmul) multiply = nullptr;

  template <class Function>
  void Find(const char* name, Function& into) {
    into = reinterpret_cast<Function>(dlsym(library, name));
    if (into == nullptr) failure = std::string("libcublasLt has no ") + name;
  }

  static Lt Open() {
    Lt lt;
    // What is called has been the same since version 12.
    for (const char* name : {"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13",
                             "libcublasLt.so", "libcublasLt.so.12"}) {
      lt.library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
      if (lt.library != nullptr) break;
      if (const char* const error = dlerror(); lt.failure.empty() && error) lt.failure = error;
    }
    if (lt.library == nullptr) {
      if (lt.failure.empty()) lt.failure = "libcublasLt.so.13 was not found";
      return lt;
    }
    lt.failure.clear();
    lt.Find("cublasLtCreate", lt.create);
    lt.Find("cublasLtMatmulDescCreate", lt.new_product);
    lt.Find("cublasLtMatmulDescSetAttribute", lt.set_product);
    lt.Find("cublasLtMatrixLayoutCreate", lt.new_layout);
    lt.Find("cublasLtMatmulPreferenceCreate", lt.new_preference);
    lt.Find("cublasLtMatmulPreferenceSetAttribute", lt.set_preference);
    lt.Find("cublasLtMatmulAlgoGetHeuristic", lt.find);
    lt.Find("cublasLtMatmul", lt.multiply);
    return lt;
  }
};

void* RandomBf16(int64_t count, unsigned seed) {
  std::vector<uint16_t> pattern(size_t{1} << 20);
  std::mt19937 random(seed);
  // Signs and mantissas at random, exponents around 1.
  for (uint16_t& value : pattern) value = static_cast<uint16_t>((random() & 0x80ff) | 0x3f00);
  void* const memory = Allocate(count * 2);
  for (int64_t done = 0; done < count; done += static_cast<int64_t>(pattern.size())) {
    const auto part = std::min<int64_t>(count - done, static_cast<int64_t>(pattern.size()));
    Check(cudaMemcpy(static_cast<uint16_t*>(memory) + done, pattern.data(), part * 2,
                     cudaMemcpyHostToDevice),
          "filling");
  }
  return memory;
}

// Operations per second of out[M, N] = X[M, K] W[N, K]^T, or a negative number where cuBLASLt
// refuses. Column-major, that is out^T = (W^T)^T X^T.
double ProductRate(const Lt& lt, cublasLtHandle_t handle, int64_t m, int64_t n, int64_t k) {
  constexpr size_t kWorkspace = size_t{64} << 20;
  void *x = RandomBf16(m * k, 1), *w = RandomBf16(n * k, 2), *out = Allocate(m * n * 4),
       *workspace = Allocate(kWorkspace);
  cublasLtMatmulDesc_t product;
  cublasLtMatrixLayout_t w_layout, x_layout, out_layout;
  cublasLtMatmulPreference_t preference;
  const cublasOperation_t transposed = CUBLAS_OP_T;
  const size_t workspace_bytes = kWorkspace;
  lt.new_product(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  lt.set_product(product, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed));
  lt.new_layout(&w_layout, CUDA_R_16BF, k, n, k);
  lt.new_layout(&x_layout, CUDA_R_16BF, k, m, k);
  lt.new_layout(&out_layout, CUDA_R_32F, n, m, n);
  lt.new_preference(&preference);
  lt.set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes,
                    sizeof(workspace_bytes));
  cublasLtMatmulHeuristicResult_t found[8];
  int count = 0;
  lt.find(handle, product, w_layout, x_layout, out_layout, out_layout, preference, 8, found,
          &count);
  const float one = 1, zero = 0;
  double best = -1;
  for (int i = 0; i < count; ++i) {
    bool works = true;
    const double seconds = Time(10, [&] {
      works = works && lt.multiply(handle, product, &one, w, w_layout, x, x_layout, &zero, out,
                                   out_layout, out, out_layout, &found[i].algo, workspace,
                                   kWorkspace, nullptr) == CUBLAS_STATUS_SUCCESS;
    });
    if (works) best = std::max(best, 2.0 * m * n * k / seconds);
  }
  for (void* memory : {x, w, out, workspace}) Check(cudaFree(memory), "freeing");
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const int device = argc > 1 ? std::atoi(argv[1]) : 0;
  Check(cudaSetDevice(device), "choosing the GPU");
  cudaDeviceProp properties;
  Check(cudaGetDeviceProperties(&properties, device), "asking for properties");
  int driver = 0, runtime = 0;
  Check(cudaDriverGetVersion(&driver), "asking for the driver's version");
  Check(cudaRuntimeGetVersion(&runtime), "asking for the runtime's version");
  std::printf(
      "{\"gpu\": \"%s\", \"compute_capability\": \"%d.%d\", \"multiprocessors\": %d, "
      "\"memory_bytes\": %zu, \"l2_bytes\": %d, \"driver\": %d, \"runtime\": %d",
      properties.name, properties.major, properties.minor, properties.multiProcessorCount,
      properties.totalGlobalMem, properties.l2CacheSize, driver, runtime);
  std::printf(", \"copy_bytes_per_second\": %.6g}\n", CopyBandwidth());
  std::fflush(stdout);
  const Lt lt = Lt::Open();
  cublasLtHandle_t handle = nullptr;
  if (!lt.failure.empty() || lt.create(&handle) != CUBLAS_STATUS_SUCCESS) {
    std::printf("{\"cublaslt\": \"%s\"}\n",
                lt.failure.empty() ? "cublasLtCreate failed" : lt.failure.c_str());
    return 0;
  }
  const int64_t shapes[][3] = {{8192, 8192, 8192}, {2048, 28672, 4096}, {2048, 4096, 14336}};
  for (const auto& [m, n, k] : shapes) {
    std::printf("{\"bf16_operations_per_second\": {\"%ldx%ldx%ld\": %.6g}}\n", static_cast<long>(m),
                static_cast<long>(n), static_cast<long>(k), ProductRate(lt, handle, m, n, k));
    std::fflush(stdout);
  }
  return 0;
}
