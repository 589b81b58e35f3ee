// sluice-gpu-bench: times the kernels of any device on the shapes of Llama-3.1-8B, or of something
// small, one JSON object a line: seconds, and the bytes and operations that count. As in serving
// they come in steps that are replayed, but for those that the host waits for. What they are held
// to is measured apart (sluice-gpu-ceilings), and that they are right by the tests.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "kernels/device/make_backend.h"
#include "kernels/gpu/gpu_check.h"

namespace sluice::testing {
namespace {

constexpr int kSamples = 7;
// Of a step that is replayed: as many as decoding has within an order of magnitude.
constexpr int kMostCalls = 64;
// So that large products don't take all of the time.
constexpr int kLeastStepsOfASample = 4;

struct Shape {
  int64_t hidden, mlp, vocabulary;
  int heads, kv_heads, head_dim, layers;
};
constexpr Shape kLlama8b{4096, 14336, 128256, 32, 8, 128, 32};
constexpr Shape kSmall{256, 512, 1024, 8, 2, 32, 2};

// A kernel's figures, printed.
struct Work {
  std::string name;
  double bytes = 0;
  double operations = 0;
};

class Bench {
 public:
  // A sample takes `sample_seconds` or more.
  Bench(Backend& backend, double sample_seconds)
      : backend_(backend), sample_seconds_(sample_seconds) {}

  Backend& backend() { return backend_; }

  // Memory for what is written.
  MatrixView Results(int64_t rows, int64_t cols, DType dtype) {
    auto memory = backend_.Allocate(rows * cols * SizeOf(dtype));
    SLUICE_CHECK(memory.ok());
    memory_.push_back(*std::move(memory));
    return {memory_.back()->data(), dtype, rows, cols, cols};
  }

  // Memory whose contents are random numbers, which zeros are faster than.
  MatrixView Matrix(int64_t rows, int64_t cols, DType dtype) {
    const MatrixView view = Results(rows, cols, dtype);
    std::vector<float> row(cols);
    std::vector<uint16_t> narrow(cols);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        row[c] = Uniform();
        narrow[c] = BFloat16FromFloat(row[c]);
      }
      const void* from = dtype == DType::kF32 ? static_cast<void*>(row.data()) : narrow.data();
      backend_.CopyIn({static_cast<const std::byte*>(from), cols * SizeOf(dtype)},
                      view.Rows(r, 1).data);
    }
    return view;
  }

  std::unique_ptr<PackedMatrix> Weights(const PackSpec& spec) {
    std::vector<std::byte> encoded(RowBytes(spec.format.weights, spec.num_inputs));
    std::vector<float> row(spec.num_inputs);
    for (float& value : row) value = Uniform() * 0.02f;
    EncodeRow(spec.format.weights, row, absl::MakeSpan(encoded));
    auto packed = backend_.Pack(spec, [&](int64_t begin, int64_t end, absl::Span<std::byte> out) {
      for (int64_t i = begin; i < end; ++i) {
        std::copy(encoded.begin(), encoded.end(), out.begin() + (i - begin) * encoded.size());
      }
      return absl::OkStatus();
    });
    SLUICE_CHECK(packed.ok());
    return *std::move(packed);
  }

  // The median time of `enqueue`, which waits for nothing, called many times over in a step that is
  // replayed: one by one, small kernels would take as long as the host's launches. A step has whole
  // rounds of so many calls, where they differ in turn.
  void Measure(const Work& work, const std::function<void()>& enqueue, int round = 1) {
    const int calls = CallsOfAStep(enqueue, round);
    const StepKey key{.rows = ++num_steps_};
    const auto step = [&] {
      Check(backend_.RunStep(key, [&] {
        for (int i = 0; i < calls; ++i) enqueue();
        return absl::OkStatus();
      }));
    };
    // Called, after which memory may be elsewhere; called again; recorded.
    for (int i = 0; i < 3; ++i) {
      step();
      Wait();
    }
    Print(work, calls, step);
  }

  // The same of a call that waits itself, which is part of its time.
  void MeasureWaiting(const Work& work, const std::function<void()>& call) {
    call();
    Print(work, 1, call);
  }

 private:
  float Uniform() { return static_cast<float>(random_() >> 8) / float{1 << 23} - 1; }

  static void Check(const absl::Status& status) {
    if (status.ok()) return;
    std::fprintf(stderr, "sluice-gpu-bench: %s\n", status.ToString().c_str());
    std::exit(1);
  }

  void Wait() { Check(backend_.Synchronize()); }

  int CallsOfAStep(const std::function<void()>& enqueue, int round) {
    enqueue();
    Wait();
    const double rounds = sample_seconds_ / kLeastStepsOfASample / Time(round, enqueue);
    return round * static_cast<int>(std::clamp(rounds, 1.0, double{kMostCalls} / round));
  }

  // What `run`, which makes so many calls, takes of each; done as often as a sample needs.
  void Print(const Work& work, int calls, const std::function<void()>& run) {
    int times = 1;
    while (Time(times, run) < sample_seconds_) times *= 2;
    std::vector<double> samples;
    for (int i = 0; i < kSamples; ++i) samples.push_back(Time(times, run) / times / calls);
    std::sort(samples.begin(), samples.end());
    std::printf(
        "{\"kernel\": \"%s\", \"seconds\": %.9g, \"fastest\": %.9g, \"slowest\": %.9g, "
        "\"bytes\": %.0f, \"operations\": %.0f}\n",
        work.name.c_str(), samples[kSamples / 2], samples.front(), samples.back(), work.bytes,
        work.operations);
    std::fflush(stdout);
  }

  double Time(int times, const std::function<void()>& run) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i) run();
    Wait();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  Backend& backend_;
  const double sample_seconds_;
  int64_t num_steps_ = 0;
  std::mt19937 random_{1};
  std::vector<std::unique_ptr<Buffer>> memory_;
};

struct Product {
  const char* name;
  int64_t outputs, inputs;
  int slices;
  bool gated;
};

// Of one product, so many that no cache holds any when its turn comes again; a power of two.
std::vector<std::unique_ptr<PackedMatrix>> CopiesOfWeights(Bench& bench, const Product& product,
                                                           const PackSpec& operands) {
  constexpr size_t kBeyondCaches = size_t{256} << 20;
  constexpr size_t kMostCopies = 32;
  static_assert(kMostCopies <= kMostCalls);
  std::vector<std::unique_ptr<PackedMatrix>> weights;
  PackSpec spec = operands;
  spec.num_outputs = product.outputs;
  spec.num_inputs = product.inputs;
  spec.num_slices = product.slices;
  spec.gated = product.gated;
  const auto add = [&] { weights.push_back(bench.Weights(spec)); };
  add();
  const size_t bytes = weights[0]->size_bytes();
  while (weights.size() < kMostCopies && weights.size() * bytes < kBeyondCaches) {
    for (size_t more = weights.size(); more > 0; --more) add();
  }
  return weights;
}

void MeasureProduct(Bench& bench, const Product& product, absl::Span<const int64_t> row_counts,
                    const PackSpec& operands) {
  Backend& backend = bench.backend();
  const auto weights = CopiesOfWeights(bench, product, operands);
  const std::string name = std::string(Name(operands.format.weights)) +
                           (operands.format.activations == ActivationFormat::kFp8 ? "xFP8" : "");
  // To the residual stream, as serving does, whose products in slices these are.
  GemmEpilogue epilogue{.add_to_out = product.slices > 1};
  if (product.gated) epilogue.activation = Activation::kSilu;
  for (const int64_t rows : row_counts) {
    const MatrixView x = bench.Matrix(rows, product.inputs, backend.operand_dtype());
    const int64_t cols = product.gated ? product.outputs / 2 : product.outputs;
    const MatrixView out = epilogue.add_to_out ? bench.Matrix(rows, cols, DType::kF32)
                                               : bench.Results(rows, cols, DType::kF32);
    backend.ReserveForGemm(*weights[0], rows);
    size_t next = 0;
    bench.Measure(
        {.name = absl::StrCat("gemm ", product.name, " ", name, " T ", rows),
         .bytes = static_cast<double>(weights[0]->size_bytes()),
         .operations = 2.0 * rows * product.outputs * product.inputs},
        [&] { backend.Gemm(x, *weights[next++ % weights.size()], out, epilogue); },
        static_cast<int>(weights.size()));
  }
}

// Weights are packed once for all numbers of rows: it takes longer than the products. Of `operands`
// what weights and activations are kept in counts.
void MeasureProducts(Bench& bench, const Shape& shape, absl::Span<const int64_t> row_counts,
                     const PackSpec& operands) {
  const int64_t kv = int64_t{shape.kv_heads} * shape.head_dim;
  for (const Product& product :
       {Product{"qkv", shape.heads * int64_t{shape.head_dim} + 2 * kv, shape.hidden, 1, false},
        Product{"o", shape.hidden, shape.heads * int64_t{shape.head_dim}, 8, false},
        Product{"gate_up", 2 * shape.mlp, shape.hidden, 1, true},
        Product{"down", shape.hidden, shape.mlp, 8, false},
        Product{"head", shape.vocabulary, shape.hidden, 1, false}}) {
    MeasureProduct(bench, product, row_counts, operands);
  }
}

// Decode steps: one row of each sequence, all of the same context.
void MeasureAttention(Bench& bench, const Shape& shape, int sequences, int64_t context,
                      int64_t rows, DType dtype) {
  Backend& backend = bench.backend();
  const int64_t kv = int64_t{shape.kv_heads} * shape.head_dim;
  const auto blocks = static_cast<int>((context + 15) / 16);
  auto pool = backend.NewKvPool({.num_layers = 1,
                                 .num_blocks = blocks * sequences,
                                 .num_kv_heads = shape.kv_heads,
                                 .head_dim = shape.head_dim,
                                 .dtype = dtype});
  SLUICE_CHECK(pool.ok());
  std::vector<std::vector<int32_t>> tables(sequences, std::vector<int32_t>(blocks));
  // A sequence's keys are those of the first chunk over and over: only where they lie counts.
  const int64_t chunk = std::min<int64_t>(context, 1024);
  const MatrixView keys_and_values = bench.Matrix(chunk, 2 * kv, DType::kF32);
  std::vector<AttentionSegment> segments;
  for (int s = 0; s < sequences; ++s) {
    // Scattered, as a pool that has served for a while is.
    for (int b = 0; b < blocks; ++b) tables[s][b] = b * sequences + s;
    for (int64_t first = 0; first < context; first += chunk) {
      const AttentionSegment segment{.num_rows = std::min(chunk, context - first),
                                     .first_position = first,
                                     .block_table = tables[s]};
      backend.BeginStep({&segment, 1}, segment.num_rows);
      backend.ApplyQkNormRopeAndStoreKv(
          keys_and_values.Rows(0, segment.num_rows),
          {.num_kv_heads = shape.kv_heads, .head_dim = shape.head_dim}, 0, **pool);
    }
    segments.push_back({.first_row = s * rows,
                        .num_rows = rows,
                        .first_position = context - rows,
                        .block_table = tables[s]});
  }
  const int64_t width = int64_t{shape.heads} * shape.head_dim;
  const MatrixView q = bench.Matrix(sequences * rows, width, DType::kF32);
  const MatrixView out = bench.Results(sequences * rows, width, backend.operand_dtype());
  backend.ReserveForAttention(**pool, sequences * rows);
  backend.BeginStep(segments, sequences * rows);
  const double seen = context - (rows - 1) / 2.0;
  bench.Measure({.name = absl::StrCat("attention ", std::string(Name(dtype)), " ", sequences,
                                      " x T ", rows, " at ", context),
                 .bytes = 2.0 * sequences * context * shape.kv_heads *
                          static_cast<double>(KvVectorBytes(dtype, shape.head_dim)),
                 .operations = 4.0 * sequences * rows * seen * width},
                [&] {
                  backend.PagedAttention(
                      q, **pool, 0, {.scale = 1 / std::sqrt(static_cast<float>(shape.head_dim))},
                      out);
                });
}

void MeasureRows(Bench& bench, const Shape& shape, int64_t rows) {
  Backend& backend = bench.backend();
  const MatrixView x = bench.Matrix(rows, shape.hidden, DType::kF32);
  const MatrixView y = bench.Results(rows, shape.hidden, backend.operand_dtype());
  const double bytes = static_cast<double>(rows * shape.hidden);
  bench.Measure({.name = absl::StrCat("rms_norm T ", rows),
                 .bytes = bytes * (4 + SizeOf(backend.operand_dtype()))},
                [&] { backend.RmsNorm(x, static_cast<float*>(x.data), 1e-5f, y); });
}

// What lies between a layer's first product and its attention.
void MeasureTurn(Bench& bench, const Shape& shape, int64_t rows) {
  Backend& backend = bench.backend();
  const auto blocks = static_cast<int>((rows + 15) / 16);
  auto pool = backend.NewKvPool({.num_layers = 1,
                                 .num_blocks = blocks,
                                 .num_kv_heads = shape.kv_heads,
                                 .head_dim = shape.head_dim,
                                 .dtype = DType::kBF16});
  SLUICE_CHECK(pool.ok());
  std::vector<int32_t> table(blocks);
  std::iota(table.begin(), table.end(), 0);
  const AttentionSegment segment{.num_rows = rows, .block_table = table};
  backend.BeginStep({&segment, 1}, rows);
  const int64_t heads = shape.heads + 2 * shape.kv_heads;
  const MatrixView qkv = bench.Matrix(rows, heads * shape.head_dim, DType::kF32);
  const RopeTables angles{bench.Matrix(rows, shape.head_dim / 2, DType::kF32),
                          bench.Matrix(rows, shape.head_dim / 2, DType::kF32),
                          RopeTables::Index::kRow};
  const QkNormRopeParams turn{.num_heads = shape.heads,
                              .num_kv_heads = shape.kv_heads,
                              .head_dim = shape.head_dim,
                              .rotations = &angles};
  // All is read, queries are written, keys and values stored in BF16.
  const double bytes = static_cast<double>(rows * shape.head_dim) *
                       (4 * heads + 4 * shape.heads + 4 * shape.kv_heads);
  bench.Measure({.name = absl::StrCat("turn_and_store T ", rows), .bytes = bytes},
                [&] { backend.ApplyQkNormRopeAndStoreKv(qkv, turn, 0, **pool); });
}

// What a rank of four does with the gathered partials behind a product.
void MeasureRankSum(Bench& bench, const Shape& shape, int64_t rows) {
  Backend& backend = bench.backend();
  std::vector<MatrixView> partials;
  for (int rank = 0; rank < 4; ++rank) {
    partials.push_back(bench.Matrix(rows, shape.hidden, DType::kF32));
  }
  const MatrixView residual = bench.Matrix(rows, shape.hidden, DType::kF32);
  ResidualUpdate update{.residual = residual};
  update.norm = {.weight = static_cast<float*>(residual.data), .eps = 1e-5f};
  update.normed = bench.Results(rows, shape.hidden, backend.operand_dtype());
  // Partials and residual are read, the residual and its norm written.
  const double bytes =
      static_cast<double>(rows * shape.hidden) * (4 * 4 + 2 * 4 + SizeOf(backend.operand_dtype()));
  bench.Measure({.name = absl::StrCat("sum of 4 ranks, norm T ", rows), .bytes = bytes},
                [&] { backend.TreeAddToResidual(partials, update); });
}

// Choosing tokens as decoding does, with the model's own log-probability of each.
void MeasureSampling(Bench& bench, const Shape& shape, int64_t rows) {
  Backend& backend = bench.backend();
  const MatrixView logits = bench.Matrix(rows, shape.vocabulary, DType::kF32);
  const double bytes = 4.0 * static_cast<double>(rows * shape.vocabulary);
  const SamplingOptions greedy{.temperature = 0}, all{.temperature = 0.8f};
  const SamplingOptions top_p{.temperature = 0.8f, .top_p = 0.9f};
  const std::pair<const char*, const SamplingOptions*> kinds[] = {
      {"greedy", &greedy}, {"temperature", &all}, {"top-p", &top_p}};
  for (const auto& [name, options] : kinds) {
    const std::vector<SampleRow> asked(
        rows, SampleRow{.options = options, .token_uniform = 0.4, .wants_logprob = true});
    std::vector<SampledRow> chosen(rows);
    bench.MeasureWaiting({.name = absl::StrCat("sample ", name, " T ", rows), .bytes = bytes}, [&] {
      SLUICE_CHECK(backend.Sample(logits, asked, absl::MakeSpan(chosen)).ok());
    });
  }
  const MatrixView out = bench.Results(rows, shape.vocabulary, DType::kF32);
  bench.Measure({.name = absl::StrCat("log_softmax T ", rows), .bytes = 2 * bytes},
                [&] { backend.LogSoftmax(logits, out); });
}

// The fastest that a GPU is to multiply with: of the tests' variable, for whoever leaves a way out
// leaves it out of both.
absl::StatusOr<std::optional<GpuProducts>> WantedProducts() {
  const char* const text = std::getenv("SLUICE_TEST_GPU_INSTRUCTIONS");
  if (text == nullptr) return std::nullopt;
  const auto products = ParseGpuProducts(text);
  if (products.ok()) return products;
  return absl::InvalidArgumentError(
      absl::StrCat("SLUICE_TEST_GPU_INSTRUCTIONS: ", std::string(products.status().message())));
}

absl::StatusOr<std::unique_ptr<Backend>> OpenBackend(const absl::StatusOr<DeviceId>& device) {
  if (!device.ok()) return device.status();
  const auto products = WantedProducts();
  if (!products.ok()) return products.status();
  return MakeBackend({.device = *device, .gpu_products = *products},
                     [](const std::string& why) { std::fprintf(stderr, "%s\n", why.c_str()); });
}

int Run(const std::string& device_text, const std::string& scale) {
  const auto backend = OpenBackend(ParseDevice(device_text));
  if (!backend.ok()) {
    std::fprintf(stderr, "sluice-gpu-bench: %s\n", std::string(backend.status().message()).c_str());
    return 1;
  }
  const bool is_small = scale == "small";
  const Shape& shape = is_small ? kSmall : kLlama8b;
  Bench bench(**backend, is_small ? 1e-3 : 30e-3);
  const std::vector<int64_t> row_counts =
      is_small ? std::vector<int64_t>{1, 8, 64} : std::vector<int64_t>{1, 16, 64, 256, 2048};
  MeasureProducts(bench, shape, row_counts, {.format = WeightFormat::kBF16});
  MeasureProducts(bench, shape, row_counts, {.format = WeightFormat::kFp8});
  MeasureProducts(bench, shape, row_counts,
                  {.format = {WeightFormat::kFp8, ActivationFormat::kFp8}});
  const int64_t batch = is_small ? 8 : 64;
  MeasureProducts(bench, shape, {1, batch}, {.format = WeightFormat::kInt8});
  MeasureProducts(bench, shape, {1, batch}, {.format = WeightFormat::kInt4});
  const int64_t context = is_small ? 256 : 8192;
  for (const DType dtype : {DType::kBF16, DType::kF8E4M3, DType::kF32}) {
    MeasureAttention(bench, shape, 1, context, 1, dtype);
    MeasureAttention(bench, shape, 1, context / 8, 1, dtype);
    MeasureAttention(bench, shape, 32, context, 1, dtype);
    MeasureAttention(bench, shape, 64, context / 8, 1, dtype);
    MeasureAttention(bench, shape, 1, context / 4, context / 4, dtype);
  }
  for (const int64_t rows : {int64_t{1}, int64_t{is_small ? 32 : 512}}) {
    MeasureRows(bench, shape, rows);
    MeasureTurn(bench, shape, rows);
    MeasureRankSum(bench, shape, rows);
    MeasureSampling(bench, shape, std::min<int64_t>(rows, 64));
  }
  return 0;
}

}  // namespace
}  // namespace sluice::testing

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 2 && (arguments[1] == "small" || arguments[1] == "full")) {
    return sluice::testing::Run(arguments[0], arguments[1]);
  }
  std::fprintf(stderr, "usage: sluice-gpu-bench DEVICE small|full, such as cuda:0 full\n");
  return 2;
}
