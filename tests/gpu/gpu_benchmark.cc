// sluice-gpu-bench: times the kernels of any device on the shapes of Llama-3.1-8B, or of something
// small, one JSON object a line: seconds, and the bytes and operations that count. As in serving
// they come in steps that are replayed, but for those that the host waits for. Beside what a GPU
// takes stands what kernels/cuda/roofline.h predicts of an H100 or H200. Ceilings are measured
// apart (sluice-gpu-ceilings), and the tests say whether results are right.
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
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "kernels/cuda/products_path.h"
#include "kernels/cuda/roofline.h"
#include "kernels/device/make_backend.h"
#include "kernels/gpu/gpu_check.h"
#include "kernels/gpu/gpu_devices.h"

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
  std::optional<cuda::KernelCost> predicted;
};

// Which kernels are measured, and what is said of them.
struct Choice {
  std::regex only;      // part of a name; empty: all
  std::string variant;  // behind each name
  // Of the GPU that predictions are of; none: of a device that none are made for.
  std::optional<cuda::GpuRates> rates;
  cuda::GemmPath path = cuda::GemmPath::kPortable;
  int64_t least_rows_of_large_tiles = 0;
};

// Names with a number of rows, of which those that are wanted are measured.
std::string NameOf(const std::string& what, int64_t rows) {
  return absl::StrCat(what, " T ", rows);
}

class Bench {
 public:
  // A sample takes `sample_seconds` or more.
  Bench(Backend& backend, Choice choice, double sample_seconds)
      : backend_(backend), choice_(std::move(choice)), sample_seconds_(sample_seconds) {}

  Backend& backend() { return backend_; }
  const Choice& choice() const { return choice_; }
  bool Wants(const std::string& name) const { return std::regex_search(name, choice_.only); }
  // The numbers of rows of which `what` is wanted.
  std::vector<int64_t> Wanted(const std::string& what, absl::Span<const int64_t> row_counts) const {
    std::vector<int64_t> wanted;
    for (const int64_t rows : row_counts) {
      if (Wants(NameOf(what, rows))) wanted.push_back(rows);
    }
    return wanted;
  }

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

  // Random numbers in every row, which equal ones take less power than: some rows over and over,
  // no two of a tile alike.
  std::unique_ptr<PackedMatrix> Weights(const PackSpec& spec) {
    constexpr int64_t kRows = 251;
    const size_t row_bytes = RowBytes(spec.format.weights, spec.num_inputs);
    std::vector<std::byte> encoded(kRows * row_bytes);
    std::vector<float> row(spec.num_inputs);
    for (int64_t i = 0; i < kRows; ++i) {
      for (float& value : row) value = Uniform() * 0.02f;
      EncodeRow(spec.format.weights, row,
                absl::MakeSpan(encoded).subspan(i * row_bytes, row_bytes));
    }
    auto packed = backend_.Pack(spec, [&](int64_t begin, int64_t end, absl::Span<std::byte> out) {
      for (int64_t i = begin; i < end; ++i) {
        const auto from = encoded.begin() + static_cast<ptrdiff_t>(i % kRows * row_bytes);
        std::copy(from, from + static_cast<ptrdiff_t>(row_bytes),
                  out.begin() + static_cast<ptrdiff_t>((i - begin) * row_bytes));
      }
      return absl::OkStatus();
    });
    SLUICE_CHECK(packed.ok());
    return *std::move(packed);
  }

  // Logits of a model that is rather sure: some tokens far above the others, which are normal.
  MatrixView Logits(int64_t rows, int64_t vocabulary) {
    constexpr int kPeaks = 40;
    const MatrixView view = Results(rows, vocabulary, DType::kF32);
    std::normal_distribution<float> normal(0, 2);
    std::vector<float> row(vocabulary);
    for (int64_t r = 0; r < rows; ++r) {
      for (float& logit : row) logit = normal(random_);
      for (int i = 0; i < kPeaks; ++i) {
        row[random_() % vocabulary] = 20 - 4 * std::log(static_cast<float>(i + 1));
      }
      backend_.CopyIn({reinterpret_cast<const std::byte*>(row.data()), vocabulary * sizeof(float)},
                      view.Rows(r, 1).data);
    }
    return view;
  }

  // The median time of `enqueue`, which waits for nothing, called many times over in a step that is
  // replayed: one by one, small kernels would take as long as the host's launches. A step has whole
  // rounds of so many calls, where they differ in turn.
  void Measure(const Work& work, const std::function<void()>& enqueue, int round = 1) {
    if (!Wants(work.name)) return;
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
    if (!Wants(work.name)) return;
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
    const double seconds = samples[kSamples / 2];
    std::printf(
        "{\"kernel\": \"%s%s\", \"seconds\": %.9g, \"fastest\": %.9g, \"slowest\": %.9g, "
        "\"bytes\": %.0f, \"operations\": %.0f",
        work.name.c_str(), choice_.variant.c_str(), seconds, samples.front(), samples.back(),
        work.bytes, work.operations);
    if (work.predicted.has_value()) {
      std::printf(", \"predicted\": %.9g, \"ratio\": %.3f, \"bound\": \"%s\", \"waves\": %.2f",
                  work.predicted->seconds, seconds / work.predicted->seconds,
                  Name(work.predicted->bound), work.predicted->waves());
    }
    std::printf("}\n");
    std::fflush(stdout);
  }

  double Time(int times, const std::function<void()>& run) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i) run();
    Wait();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  Backend& backend_;
  const Choice choice_;
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

// What is predicted of a product of a GPU whose rates are known.
std::optional<cuda::KernelCost> Predicted(const Choice& choice, const Product& product,
                                          int64_t rows, const PackSpec& operands) {
  if (!choice.rates.has_value()) return std::nullopt;
  const cuda::ProductShape shape{product.name, product.outputs, product.inputs, product.slices,
                                 product.gated};
  const cuda::ImageFormat format = operands.format.activations == ActivationFormat::kFp8 &&
                                           choice.path == cuda::GemmPath::kPipelined
                                       ? cuda::ImageFormat::kFp8Pairs
                                       : cuda::ImageFormatOf(operands.format.weights);
  const cuda::GemmPlan plan =
      PlanGemm(rows, cuda::NumTiles(shape.outputs, shape.gated), RunsOf(shape, format), format,
               {.num_multiprocessors = choice.rates->num_multiprocessors,
                .shared_bytes = choice.rates->shared_bytes_of_block,
                .path = choice.path,
                .least_rows_of_large_tiles = choice.least_rows_of_large_tiles});
  return CostOfPlan(shape, rows, format, plan, *choice.rates);
}

void MeasureProduct(Bench& bench, const Product& product, absl::Span<const int64_t> all_row_counts,
                    const PackSpec& operands) {
  Backend& backend = bench.backend();
  const std::string name =
      absl::StrCat("gemm ", product.name, " ", std::string(Name(operands.format.weights)),
                   operands.format.activations == ActivationFormat::kFp8 ? "xFP8" : "");
  const std::vector<int64_t> row_counts = bench.Wanted(name, all_row_counts);
  if (row_counts.empty()) return;  // weights take longer than their products
  const auto weights = CopiesOfWeights(bench, product, operands);
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
        {.name = NameOf(name, rows),
         .bytes = static_cast<double>(weights[0]->size_bytes()),
         .operations = 2.0 * rows * product.outputs * product.inputs,
         .predicted = Predicted(bench.choice(), product, rows, operands)},
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

// Attention and its merges as one.
std::optional<cuda::KernelCost> PredictedAttention(const Choice& choice, const Shape& shape,
                                                   absl::Span<const AttentionSegment> segments,
                                                   DType dtype) {
  if (!choice.rates.has_value()) return std::nullopt;
  const cuda::AttentionCosts costs = CostOfAttention(
      segments, {.group = shape.heads / shape.kv_heads, .num_kv_heads = shape.kv_heads},
      shape.head_dim, dtype, *choice.rates);
  cuda::KernelCost whole = costs.decode.launches > 0 ? costs.decode : costs.prefill;
  whole.seconds = costs.decode.seconds + costs.prefill.seconds + costs.merge.seconds;
  return whole;
}

// Decode steps: one row of each sequence, all of the same context.
void MeasureAttention(Bench& bench, const Shape& shape, int sequences, int64_t context,
                      int64_t rows, DType dtype) {
  Backend& backend = bench.backend();
  const std::string name = absl::StrCat("attention ", std::string(Name(dtype)), " ", sequences,
                                        " x T ", rows, " at ", context);
  if (!bench.Wants(name)) return;
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
  bench.Measure({.name = name,
                 .bytes = 2.0 * sequences * context * shape.kv_heads *
                          static_cast<double>(KvVectorBytes(dtype, shape.head_dim)),
                 .operations = 4.0 * sequences * rows * seen * width,
                 .predicted = PredictedAttention(bench.choice(), shape, segments, dtype)},
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
  if (!bench.Wants(NameOf("sample greedy", rows)) && !bench.Wants(NameOf("sample top-p", rows)) &&
      !bench.Wants(NameOf("sample temperature", rows)) &&
      !bench.Wants(NameOf("log_softmax", rows))) {
    return;
  }
  const MatrixView logits = bench.Logits(rows, shape.vocabulary);
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

// The backend of a GPU that has passed its check by `products`, whose work is planned otherwise.
absl::StatusOr<std::unique_ptr<Backend>> OpenVariant(const DeviceId& device,
                                                     const GpuPlanOptions& plan) {
  const auto wanted = WantedProducts();
  if (!wanted.ok()) return wanted.status();
  const int index = device.index.value_or(0);
  const DriverFacts facts = QueryGpus();
  if (absl::Status usable = CheckGpu(facts, index); !usable.ok()) return usable;
  const auto products = ProductsUpTo(facts.gpus[index], *wanted);
  if (!products.ok()) return products.status();
  return MakeGpuBackend(index, {.products = products->back(), .plan = plan});
}

// What is predicted for the device, if it is a GPU: an H200 has more memory than an H100.
Choice ChoiceFor(Backend& backend, const DeviceId& device, const std::string& only) {
  Choice choice{.only = std::regex(only)};
  if (device.kind != DeviceKind::kCuda) return choice;
  const auto wanted = WantedProducts();
  const GpuProducts products =
      wanted.ok() ? wanted->value_or(GpuProducts::kFp8) : GpuProducts::kFp8;
  choice.path = cuda::PathOf(products);
  const auto memory = backend.memory();
  const bool is_h200 = memory.has_value() && memory->total_bytes > uint64_t{100} << 30;
  choice.rates = is_h200 ? cuda::kH200Rates : cuda::kH100Rates;
  return choice;
}

void MeasureAll(Bench& bench, const Shape& shape, bool is_small) {
  const std::vector<int64_t> row_counts =
      is_small ? std::vector<int64_t>{1, 8, 64} : std::vector<int64_t>{1, 16, 32, 64, 256, 2048};
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
}

// The products of a layer where plans differ, one variant after another. All have the same bits.
int Tune(const DeviceId& device, const Shape& shape, Choice choice, double sample_seconds) {
  const std::vector<int64_t> row_counts = {1, 17, 32, 48, 64, 128};
  const std::pair<const char*, GpuPlanOptions> variants[] = {
      {" [as planned]", {}},
      {" [large tiles from 17 rows]", {.least_rows_of_large_tiles = 17}},
      {" [large tiles from 33 rows]", {.least_rows_of_large_tiles = 33}},
      {" [large tiles from 65 rows]", {.least_rows_of_large_tiles = 65}},
      {" [no kernel begins early]", {.kernels_overlap = false}}};
  for (const auto& [name, plan] : variants) {
    const auto backend = OpenVariant(device, plan);
    if (!backend.ok()) {
      std::fprintf(stderr, "sluice-gpu-bench: %s\n", backend.status().ToString().c_str());
      return 1;
    }
    choice.variant = name;
    choice.least_rows_of_large_tiles = plan.least_rows_of_large_tiles;
    Bench bench(**backend, choice, sample_seconds);
    MeasureProducts(bench, shape, row_counts, {.format = WeightFormat::kBF16});
    MeasureRows(bench, shape, 1);
    MeasureTurn(bench, shape, 1);
  }
  return 0;
}

struct Flags {
  std::string device, scale, only;
  bool tune = false;
};

std::optional<Flags> ParseFlags(const std::vector<std::string>& arguments) {
  if (arguments.size() < 2) return std::nullopt;
  Flags flags{.device = arguments[0], .scale = arguments[1]};
  if (flags.scale != "small" && flags.scale != "full") return std::nullopt;
  for (size_t i = 2; i < arguments.size(); ++i) {
    if (arguments[i] == "--tune") {
      flags.tune = true;
    } else if (arguments[i] == "--only" && i + 1 < arguments.size()) {
      flags.only = arguments[++i];
    } else {
      return std::nullopt;
    }
  }
  return flags;
}

int Run(const Flags& flags) {
  const absl::StatusOr<DeviceId> device = ParseDevice(flags.device);
  const auto backend = OpenBackend(device);
  if (!backend.ok()) {
    std::fprintf(stderr, "sluice-gpu-bench: %s\n", std::string(backend.status().message()).c_str());
    return 1;
  }
  const bool is_small = flags.scale == "small";
  const Shape& shape = is_small ? kSmall : kLlama8b;
  const double sample_seconds = is_small ? 1e-3 : 30e-3;
  const Choice choice = ChoiceFor(**backend, *device, flags.only);
  if (flags.tune && device->kind == DeviceKind::kCuda) {
    return Tune(*device, shape, choice, sample_seconds);
  }
  Bench bench(**backend, choice, sample_seconds);
  MeasureAll(bench, shape, is_small);
  return 0;
}

}  // namespace
}  // namespace sluice::testing

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (const auto flags = sluice::testing::ParseFlags(arguments)) {
    return sluice::testing::Run(*flags);
  }
  std::fprintf(stderr,
               "usage: sluice-gpu-bench DEVICE small|full [--only REGEX] [--tune], such as cuda:0 "
               "full --only \"gemm.* T 64$\"\n"
               "--only: kernels whose names have a part that matches. --tune: products of a GPU by "
               "several plans.\n");
  return 2;
}
