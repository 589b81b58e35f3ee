#include "kernels/device/self_check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/latent_ops.h"
#include "kernels/recurrent_ops.h"
#include "kernels/reference/reference_backend.h"

namespace sluice {
namespace {

using Floats = std::vector<float>;

template <class T>
absl::Span<const std::byte> BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(T)};
}

// One backend at work: the operands that it has been given, and the first failure.
class Bench {
 public:
  explicit Bench(Backend& backend) : backend(backend) {}

  // [rows, cols] F32, or in `dtype`.
  MatrixView Matrix(const Floats& values, int64_t cols, DType dtype = DType::kF32) {
    const auto rows = static_cast<int64_t>(values.size()) / cols;
    auto memory = backend.Allocate(values.size() * SizeOf(dtype));
    status.Update(memory.status());
    if (!memory.ok()) return {nullptr, dtype, rows, cols, cols};
    if (dtype == DType::kF32) {
      backend.CopyIn(BytesOf(values), (*memory)->data());
    } else {
      std::vector<uint16_t> narrow;
      for (const float value : values) narrow.push_back(BFloat16FromFloat(value));
      backend.CopyIn(BytesOf(narrow), (*memory)->data());
    }
    memory_.push_back(*std::move(memory));
    return {memory_.back()->data(), dtype, rows, cols, cols};
  }
  MatrixView Operand(const Floats& values, int64_t cols) {
    return Matrix(values, cols, backend.operand_dtype());
  }
  const float* Vector(const Floats& values) {
    return Matrix(values, static_cast<int64_t>(values.size())).Row(0);
  }
  MatrixView Zeroes(int64_t rows, int64_t cols) { return Matrix(Floats(rows * cols), cols); }

  Floats Read(MatrixView matrix) {
    Floats values(matrix.rows * matrix.cols);
    status.Update(
        backend.CopyOut(matrix.data, absl::MakeSpan(reinterpret_cast<std::byte*>(values.data()),
                                                    values.size() * sizeof(float))));
    return values;
  }

  Backend& backend;
  absl::Status status;

 private:
  std::vector<std::unique_ptr<Buffer>> memory_;
};

// What both backends are given.
class Draw {
 public:
  Floats operator()(size_t count, float scale = 1) {
    Floats values(count);
    for (float& value : values) {
      value = scale * (static_cast<float>(random_() >> 8) / float{1 << 23} - 1);
    }
    return values;
  }

 private:
  std::mt19937 random_{20};
};

// Computes with the backend of the bench, and returns what came out.
using Operation = std::function<Floats(Bench&)>;

absl::Status Compare(const std::string& name, Backend& backend, const Operation& operation) {
  const auto plain = MakeReferenceBackend(backend.operand_dtype());
  Bench tested(backend), trusted(*plain);
  const Floats actual = operation(tested), expected = operation(trusted);
  if (!tested.status.ok()) return tested.status;
  if (actual.size() != expected.size()) {
    return absl::InternalError(absl::StrCat(name, " of ", std::string(backend.name()), " gives ",
                                            actual.size(), " results for ", expected.size()));
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::abs(actual[i] - expected[i]) <= 1e-3 * (1 + std::abs(expected[i]))) continue;
    return absl::InternalError(absl::StrCat(name, " of ", std::string(backend.name()), " gives ",
                                            actual[i], " for ", expected[i]));
  }
  return absl::OkStatus();
}

RowReader RowsIn(WeightFormat format, const Floats& weights, int64_t num_inputs) {
  return [&weights, num_inputs, format](int64_t begin, int64_t end, absl::Span<std::byte> out) {
    const size_t row_bytes = RowBytes(format, num_inputs);
    for (int64_t n = begin; n < end; ++n) {
      EncodeRow(format, absl::MakeConstSpan(weights).subspan(n * num_inputs, num_inputs),
                out.subspan((n - begin) * row_bytes, row_bytes));
    }
    return absl::OkStatus();
  };
}

std::string NameOf(const MatrixFormat& format) {
  return absl::StrCat(std::string(Name(format.weights)), " weights",
                      format.activations == ActivationFormat::kFp8 ? " and inputs" : "");
}

absl::Status CheckProduct(Backend& backend, const MatrixFormat& format, int64_t rows, bool gated) {
  constexpr int64_t kInputs = 256, kOutputs = 70;
  Draw draw;
  const Floats weights = draw(kOutputs * kInputs, 0.2f), x = draw(rows * kInputs);
  const Floats bias = draw(kOutputs), before = draw(rows * kOutputs);
  const int64_t columns = gated ? kOutputs / 2 : kOutputs;
  const auto product = [&](Bench& bench) -> Floats {
    const auto packed = bench.backend.Pack({.num_outputs = kOutputs,
                                            .num_inputs = kInputs,
                                            .format = format,
                                            .num_slices = 2,
                                            .gated = gated},
                                           RowsIn(format.weights, weights, kInputs));
    bench.status.Update(packed.status());
    if (!packed.ok()) return {};
    const MatrixView out =
        bench.Matrix(Floats(before.begin(), before.begin() + rows * columns), columns);
    GemmEpilogue epilogue{.bias = bench.Vector(bias), .add_to_out = true};
    if (gated) epilogue.activation = Activation::kSilu;
    bench.backend.Gemm(bench.Operand(x, kInputs), **packed, out, epilogue);
    return bench.Read(out);
  };
  return Compare(absl::StrCat("a product of ", rows, " rows with ", NameOf(format)), backend,
                 product);
}

absl::Status CheckProducts(Backend& backend) {
  absl::Status status;
  for (const MatrixFormat& format : MatrixFormats()) {
    // GPUs round their weights to BF16, whose products are checked.
    if (IsPublished(format.weights) && backend.memory().has_value()) continue;
    for (const int64_t rows : {1, 3, 6, 17}) {
      for (const bool gated : {false, true}) {
        if (status.ok()) status = CheckProduct(backend, format, rows, gated);
      }
    }
  }
  return status;
}

// A prefill, and a decode step that has more than one split behind it: queries and keys normed and
// turned, keys and values stored, and what rows see of them.
absl::Status CheckAttention(Backend& backend, DType dtype, RopeLayout layout) {
  constexpr int kBlock = 16, kPairs = 10;
  constexpr int64_t kHeadDim = 24, kGroup = 2;
  constexpr int64_t kPositions = 530, kBegin = 520, kWidth = (kGroup + 2) * kHeadDim;
  Draw draw;
  const Floats qkv = draw(kPositions * kWidth), norm = draw(kHeadDim, 3),
               cos = draw(kPositions * kPairs), sin = draw(kPositions * kPairs);
  std::vector<int32_t> table((kPositions + kBlock - 1) / kBlock);
  std::iota(table.rbegin(), table.rend(), 0);
  const auto attend = [&](Bench& bench) -> Floats {
    Backend& by = bench.backend;
    const auto pool = by.NewKvPool({.num_layers = 1,
                                    .num_blocks = static_cast<int>(table.size()),
                                    .block_size = kBlock,
                                    .num_kv_heads = 1,
                                    .head_dim = kHeadDim,
                                    .dtype = dtype});
    bench.status.Update(pool.status());
    if (!pool.ok()) return {};
    const AttentionSegment all{.num_rows = kPositions, .block_table = table};
    by.BeginStep({&all, 1}, kPositions);
    // A row's number is its position.
    const RopeTables angles{
        bench.Matrix(cos, kPairs), bench.Matrix(sin, kPairs),
        layout == RopeLayout::kHalfSplit ? RopeTables::Index::kPosition : RopeTables::Index::kRow};
    const MatrixView rows = bench.Matrix(qkv, kWidth);
    by.ApplyQkNormRopeAndStoreKv(rows,
                                 {.num_heads = kGroup,
                                  .num_kv_heads = 1,
                                  .head_dim = kHeadDim,
                                  .query_norm = bench.Vector(norm),
                                  .key_norm = bench.Vector(norm),
                                  .norm_eps = 1e-5f,
                                  .rotations = &angles,
                                  .layout = layout},
                                 0, **pool);
    const AttentionSegment last{
        .num_rows = kPositions - kBegin, .first_position = kBegin, .block_table = table};
    by.BeginStep({&last, 1}, last.num_rows);
    const MatrixView queries = rows.Columns(0, kHeadDim * kGroup);
    const MatrixView out = bench.Zeroes(last.num_rows, kHeadDim * kGroup);
    by.PagedAttention(queries.Rows(kBegin, last.num_rows), **pool, 0, {.scale = 0.2f}, out);
    Floats values = bench.Read(out);
    for (int64_t row = kBegin; row < kPositions; ++row) {
      const Floats rotated = bench.Read(queries.Rows(row, 1));
      values.insert(values.end(), rotated.begin(), rotated.end());
    }
    return values;
  };
  return Compare(absl::StrCat("attention over ", std::string(Name(dtype)), " keys"), backend,
                 attend);
}

// The same over latents: queries mapped to them by head, and a prefill's last rows.
absl::Status CheckLatents(Backend& backend, DType dtype) {
  constexpr int kBlock = 16, kHeads = 3, kNope = 10, kRope = 8, kLatent = 24;
  constexpr int64_t kPositions = 530, kStored = kLatent + kRope;
  Draw draw;
  const Floats q = draw(kPositions * kHeads * (kNope + kRope)), kv = draw(kPositions * kStored),
               norm = draw(kLatent, 3), cos = draw(kPositions * kRope / 2),
               sin = draw(kPositions * kRope / 2), map = draw(kHeads * kLatent * kNope, 0.3f);
  std::vector<int32_t> table((kPositions + kBlock - 1) / kBlock);
  std::iota(table.rbegin(), table.rend(), 0);
  const auto attend = [&](Bench& bench) -> Floats {
    Backend& by = bench.backend;
    const auto pool = by.NewKvPool({.num_layers = 1,
                                    .num_blocks = static_cast<int>(table.size()),
                                    .block_size = kBlock,
                                    .num_kv_heads = 1,
                                    .head_dim = kStored,
                                    .dtype = dtype,
                                    .latent_dim = kLatent});
    bench.status.Update(pool.status());
    if (!pool.ok()) return {};
    std::vector<std::unique_ptr<PackedMatrix>> owned;
    std::vector<const PackedMatrix*> maps;
    for (int head = 0; head < kHeads; ++head) {
      const auto begin = map.begin() + head * kLatent * kNope;
      const Floats of_head(begin, begin + kLatent * kNope);
      auto packed = by.Pack({.num_outputs = kLatent, .num_inputs = kNope},
                            RowsIn(WeightFormat::kF32, of_head, kNope));
      bench.status.Update(packed.status());
      if (!packed.ok()) return {};
      owned.push_back(*std::move(packed));
      maps.push_back(owned.back().get());
    }
    const AttentionSegment all{.num_rows = kPositions, .block_table = table};
    by.BeginStep({&all, 1}, kPositions);
    const RopeTables angles{bench.Matrix(cos, kRope / 2), bench.Matrix(sin, kRope / 2)};
    const MatrixView rows = bench.Matrix(q, kHeads * (kNope + kRope));
    const MatrixView absorbed = bench.Zeroes(kPositions, kHeads * kStored);
    const MatrixView out = bench.Zeroes(kPositions, kHeads * kLatent);
    by.latents()->PrepareLatentAttention(rows, bench.Matrix(kv, kStored),
                                         {.num_heads = kHeads,
                                          .nope_dim = kNope,
                                          .rope_dim = kRope,
                                          .latent_dim = kLatent,
                                          .latent_norm = bench.Vector(norm),
                                          .norm_eps = 1e-6f,
                                          .rotations = &angles},
                                         0, **pool, absorbed);
    by.latents()->GemmOfHeads({rows, kNope + kRope}, maps, {absorbed, kStored});
    by.PagedAttention(absorbed, **pool, 0, {.scale = 0.2f}, out);
    return bench.Read(out.Rows(kPositions - 10, 10));
  };
  return Compare(absl::StrCat("attention over ", std::string(Name(dtype)), " latents"), backend,
                 attend);
}

// A prompt across two boundaries, and a decode step behind it.
absl::Status CheckRecurrence(Backend& backend, bool has_correction) {
  constexpr int64_t kPositions = 2 * StatePoolSpec::kRun + 3;
  const StatePoolSpec spec{.num_layers = 1,
                           .num_slots = 3,
                           .num_heads = 2,
                           .num_key_heads = 1,
                           .key_dim = 18,
                           .value_dim = 36,
                           .conv_width = 4};
  const int64_t channels = spec.channels(), width = spec.values_width();
  Draw draw;
  const Floats mixed = draw(kPositions * channels), gate = draw(kPositions * width),
               beta = draw(kPositions * 2), decay = draw(kPositions * 2), conv = draw(4 * channels),
               conv_bias = draw(channels), heads = draw(2), norm = draw(spec.value_dim, 3);
  const std::vector<int32_t> table = {2, 0, 1};
  const auto recur = [&](Bench& bench) -> Floats {
    Backend& by = bench.backend;
    const auto pool = by.recurrence()->NewStatePool(spec);
    bench.status.Update(pool.status());
    if (!pool.ok()) return {};
    const Floats log_rate = {-4, -3};
    const RecurrenceParams params{.has_correction = has_correction,
                                  .conv = bench.Vector(conv),
                                  .conv_bias = bench.Vector(conv_bias),
                                  .decay_bias = bench.Vector(heads),
                                  .log_rate = bench.Vector(log_rate),
                                  .norm = bench.Vector(norm),
                                  .norm_eps = 1e-5F,
                                  .skip = bench.Vector(heads),
                                  .most_step = 10};
    const RecurrenceInputs all{.mixed = bench.Matrix(mixed, channels),
                               .gate = bench.Matrix(gate, width),
                               .beta = bench.Matrix(beta, 2),
                               .decay = bench.Matrix(decay, 2)};
    const MatrixView out = bench.Zeroes(kPositions, width);
    for (const auto& [first, count] :
         {std::pair<int64_t, int64_t>{0, kPositions - 1}, {kPositions - 1, 1}}) {
      const int64_t first_run = std::max<int64_t>(first - 1, 0) / StatePoolSpec::kRun;
      by.BeginStep({}, count);
      const StateSegment segment{
          .num_rows = count,
          .first_position = first,
          .slots = absl::MakeConstSpan(table).subspan(static_cast<size_t>(first_run))};
      by.recurrence()->BeginStates({&segment, 1});
      by.recurrence()->Recur({.mixed = all.mixed.Rows(first, count),
                              .gate = all.gate.Rows(first, count),
                              .beta = all.beta.Rows(first, count),
                              .decay = all.decay.Rows(first, count)},
                             params, 0, **pool, out.Rows(first, count));
    }
    return bench.Read(out);
  };
  return Compare("the recurrence of states", backend, recur);
}

absl::Status CheckRows(Backend& backend) {
  constexpr int64_t kCols = 66, kRows = 3;
  Draw draw;
  const Floats x = draw(kRows * kCols, 4), other = draw(kRows * kCols), weight = draw(kCols);
  // Operations on x, in place.
  const auto check = [&](const char* name,
                         const std::function<void(Bench&, MatrixView)>& operation) {
    return Compare(name, backend, [&](Bench& bench) {
      const MatrixView matrix = bench.Matrix(x, kCols);
      operation(bench, matrix);
      return bench.Read(matrix);
    });
  };
  absl::Status status = check(
      "RmsNorm", [&](Bench& b, MatrixView m) { b.backend.RmsNorm(m, b.Vector(weight), 1e-5f, m); });
  status.Update(check("LayerNorm", [&](Bench& b, MatrixView m) {
    b.backend.LayerNorm(m, b.Vector(weight), b.Vector(other), 1e-5f, m);
  }));
  status.Update(check("Scale, AddResidual or TreeAdd", [&](Bench& b, MatrixView m) {
    b.backend.Scale(1.5f, m);
    const MatrixView terms[] = {m, b.Matrix(other, kCols)};
    b.backend.AddResidual(terms[1], m);
    b.backend.TreeAdd(terms, m);
  }));
  // Of as many ranks as there may be, with either norm.
  for (const auto& [ranks, centred] : {std::pair{1, false}, {2, true}, {4, false}, {8, true}}) {
    status.Update(
        check("TreeAddToResidual", [&, count = ranks, centred = centred](Bench& b, MatrixView m) {
          std::vector<MatrixView> terms;
          for (int i = 0; i < count; ++i) terms.push_back(b.Matrix(i % 2 == 0 ? other : x, kCols));
          ResidualUpdate update{.residual = b.Matrix(other, kCols), .bias = b.Vector(weight)};
          update.norm = {.weight = b.Vector(weight),
                         .bias = centred ? b.Vector(other) : nullptr,
                         .eps = 1e-5f,
                         .centred = centred};
          update.normed = m;
          b.backend.TreeAddToResidual(terms, update);
          b.backend.AddResidual(update.residual, m);
        }));
  }
  status.Update(check("LogSoftmax", [&](Bench& b, MatrixView m) { b.backend.LogSoftmax(m, m); }));
  status.Update(Compare("TopK", backend, [&](Bench& b) {
    Floats values(kRows * 5);
    std::vector<int32_t> ids(values.size());
    b.status.Update(
        b.backend.TopK(b.Matrix(x, kCols), 5, absl::MakeSpan(values), absl::MakeSpan(ids)));
    values.insert(values.end(), ids.begin(), ids.end());
    return values;
  }));
  status.Update(Compare("GatherRows or GatherElements", backend, [&](Bench& b) {
    const MatrixView out = b.Zeroes(2, kCols);
    b.backend.GatherRows(b.Matrix(x, kCols, DType::kBF16), {2, 0}, out);
    Floats values(1);
    b.status.Update(b.backend.GatherElements(out, {{.row = 1, .col = 60}}, absl::MakeSpan(values)));
    const Floats rows = b.Read(out);
    values.insert(values.end(), rows.begin(), rows.end());
    return values;
  }));
  return status;
}

// Draws from all of a row, and from what is left of one.
absl::Status CheckSampling(Backend& backend) {
  constexpr int64_t kVocabulary = 200;
  Draw draw;
  const Floats logits = draw(3 * kVocabulary, 6);
  const SamplingOptions greedy{.temperature = 0}, all{.temperature = 0.8f};
  const SamplingOptions filtered{.top_k = 50, .top_p = 0.9f, .min_p = 0.01f};
  const std::vector<uint32_t> allowed((kVocabulary + 31) / 32, 0x7fff7fff);
  const LogitEdit edit{.id = 3, .bias = 4, .penalty = 0.5f};
  const std::vector<SampleRow> rows = {
      {.options = &greedy, .wants_logprob = true},
      {.options = &all, .edits = {&edit, 1}, .token_uniform = 0.4, .wants_logprob = true},
      {.options = &filtered, .allowed = allowed, .token_uniform = 0.7, .num_top = 5}};
  return Compare("Sample", backend, [&](Bench& bench) {
    std::vector<SampledRow> results(rows.size());
    bench.status.Update(
        bench.backend.Sample(bench.Matrix(logits, kVocabulary), rows, absl::MakeSpan(results)));
    Floats values;
    for (SampledRow& result : results) {
      result.top.push_back(result.token);
      values.push_back(result.logprob);
      for (const auto& [id, probability] : result.top) {
        values.push_back(static_cast<float>(id));
        values.push_back(static_cast<float>(probability));
      }
    }
    return values;
  });
}

}  // namespace

absl::Status SelfCheck(Backend& backend) {
  absl::Status status = CheckProducts(backend);
  for (const auto& [dtype, layout] : {std::pair{DType::kF32, RopeLayout::kHalfSplit},
                                      {DType::kBF16, RopeLayout::kInterleaved},
                                      {DType::kF8E4M3, RopeLayout::kHalfSplit}}) {
    if (status.ok()) status = CheckAttention(backend, dtype, layout);
    if (status.ok() && backend.latents() != nullptr) status = CheckLatents(backend, dtype);
  }
  if (backend.recurrence() != nullptr && backend.operand_dtype() == DType::kF32) {
    for (const bool has_correction : {true, false}) {
      if (status.ok()) status = CheckRecurrence(backend, has_correction);
    }
  }
  if (status.ok()) status = CheckRows(backend);
  return status.ok() ? CheckSampling(backend) : status;
}

namespace {

struct RowRange {
  int64_t begin, count;
};

std::vector<RowRange> RangesOf(const BatchSizes& sizes) {
  const int64_t last = (sizes.rows - 1) / 128 * 128;
  std::vector<RowRange> ranges;
  for (const RowRange range : {RowRange{0, 1}, RowRange{0, 16}, RowRange{0, 32}, RowRange{0, 64},
                               RowRange{64, 64}, RowRange{last, 32}, RowRange{last, 64},
                               RowRange{last + 64, 64}, RowRange{0, RowsThatShareSlices(sizes)}}) {
    const int64_t count = std::min(range.count, sizes.rows - range.begin);
    if (count > 0) ranges.push_back({range.begin, count});
  }
  return ranges;
}

absl::Status CheckBatchSizes(Backend& backend, const MatrixFormat& format,
                             const BatchSizes& sizes) {
  const int64_t inputs = BatchSizes::kSlices * sizes.inputs_per_slice;
  Draw draw;
  const Floats weights = draw(sizes.outputs * inputs, 0.2f);
  Bench bench(backend);
  const auto packed = backend.Pack({.num_outputs = sizes.outputs,
                                    .num_inputs = inputs,
                                    .format = format,
                                    .num_slices = BatchSizes::kSlices},
                                   RowsIn(format.weights, weights, inputs));
  if (!packed.ok()) return packed.status();
  const MatrixView x = bench.Operand(draw(sizes.rows * inputs), inputs);
  const MatrixView all = bench.Zeroes(sizes.rows, sizes.outputs);
  backend.Gemm(x, **packed, all);
  for (const auto& [begin, count] : RangesOf(sizes)) {
    const MatrixView out = bench.Zeroes(count, sizes.outputs);
    backend.Gemm(x.Rows(begin, count), **packed, out);
    const Floats alone = bench.Read(out), among = bench.Read(all.Rows(begin, count));
    if (!bench.status.ok()) return bench.status;
    if (std::memcmp(alone.data(), among.data(), alone.size() * sizeof(float)) == 0) continue;
    return absl::InternalError(absl::StrCat(
        "a product of ", count, " rows from ", begin, " on with ", NameOf(format), " of ",
        std::string(backend.name()), " has other bits than among ", sizes.rows));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckBatchSizes(Backend& backend, const BatchSizes& sizes) {
  absl::Status status;
  for (const MatrixFormat& format : MatrixFormats()) {
    // Where batches matter, on GPUs, other formats are packed as one of these.
    const bool is_native = TraitsOf(format.weights).on_gpu == format.weights;
    if (!is_native || format.weights == WeightFormat::kF32) continue;
    if (status.ok()) status = CheckBatchSizes(backend, format, sizes);
  }
  return status;
}

}  // namespace sluice
