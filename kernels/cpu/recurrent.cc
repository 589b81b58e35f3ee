#include "kernels/cpu/recurrent.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/recurrent.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/activation-inl.h"
#include "kernels/cpu/simd-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace sluice {
namespace HWY_NAMESPACE {
namespace {

constexpr int64_t kRun = StatePoolSpec::kRun;

float ScalarSigmoid(float x) {
  const OneFloatTag d;
  return hn::GetLane(Sigmoid(d, hn::Set(d, x)));
}

double SoftPlus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

// Rows of a matrix, `stride` floats apart, of which each output takes the first `width` columns.
struct Rows {
  const float* first = nullptr;
  int64_t count = 0;
  int64_t stride = 0;
  int64_t width = 0;
};

// out[n][v] += the sum over j of coefficients[n][j] * row j [v], in ascending order; from 0 where
// `kFromZero`.
template <int kOutputs, int kVectors, bool kFromZero, class D>
HWY_INLINE void AddRowsAt(D d, const Rows& rows, int64_t v, const float* const* coefficients,
                          float* const* out) {
  const int64_t lanes = hn::Lanes(d);
  hn::Vec<D> sums[kOutputs * kVectors];
  HWY_UNROLL(8)
  for (int n = 0; n < kOutputs; ++n) {
    HWY_UNROLL(4)
    for (int i = 0; i < kVectors; ++i) {
      sums[n * kVectors + i] = kFromZero ? hn::Zero(d) : hn::LoadU(d, out[n] + v + i * lanes);
    }
  }
  const float* row = rows.first + v;
  for (int64_t j = 0; j < rows.count; ++j, row += rows.stride) {
    HWY_UNROLL(4)
    for (int i = 0; i < kVectors; ++i) {
      const auto values = hn::LoadU(d, row + i * lanes);
      HWY_UNROLL(8)
      for (int n = 0; n < kOutputs; ++n) {
        sums[n * kVectors + i] =
            hn::MulAdd(hn::Set(d, coefficients[n][j]), values, sums[n * kVectors + i]);
      }
    }
  }
  HWY_UNROLL(8)
  for (int n = 0; n < kOutputs; ++n) {
    HWY_UNROLL(4)
    for (int i = 0; i < kVectors; ++i) {
      hn::StoreU(sums[n * kVectors + i], d, out[n] + v + i * lanes);
    }
  }
}

template <int kOutputs, bool kFromZero>
void AddRowsTo(const Rows& rows, const float* const* coefficients, float* const* out) {
  constexpr int kVectors = 4;
  const FloatTag d;
  const int64_t lanes = hn::Lanes(d);
  int64_t v = 0;
  for (; v + kVectors * lanes <= rows.width; v += kVectors * lanes) {
    AddRowsAt<kOutputs, kVectors, kFromZero>(d, rows, v, coefficients, out);
  }
  for (; v + lanes <= rows.width; v += lanes) {
    AddRowsAt<kOutputs, 1, kFromZero>(d, rows, v, coefficients, out);
  }
  for (; v < rows.width; ++v) {
    AddRowsAt<kOutputs, 1, kFromZero>(OneFloatTag(), rows, v, coefficients, out);
  }
}

// One layer of a step.
struct RecurrenceOfLayer {
  const RecurrenceInputs& inputs;
  const RecurrenceParams& params;
  int layer;
  const CpuStatePool& pool;
  const StatePoolSpec& spec;
  MatrixView out;

  float* SlotOf(const StateSegment& segment, int64_t position) const {
    const int64_t first = std::max<int64_t>(segment.first_position - 1, 0) / kRun;
    const int64_t index = position / kRun - first;
    SLUICE_CHECK(0 <= index && index < std::ssize(segment.slots));
    return pool.Slot(layer, segment.slots[index]);
  }
};

// The positions that a segment has of its run number `run`, counted from its first.
StateSegment PartOfRun(const StateSegment& segment, int64_t run) {
  const int64_t boundary = (segment.first_position / kRun + run) * kRun;
  const int64_t begin = std::max(boundary, segment.first_position);
  const int64_t end = std::min(boundary + kRun, segment.first_position + segment.num_rows);
  return {.first_row = segment.first_row + begin - segment.first_position,
          .num_rows = std::max<int64_t>(0, end - begin),
          .first_position = begin,
          .slots = segment.slots};
}

// ---- The convolution ----

// Rows of one run of a segment.
struct PartOfSegment {
  const StateSegment* segment = nullptr;
  StateSegment rows;  // without tables

  int64_t first() const { return rows.first_position; }
  bool crosses() const { return first() % kRun == 0 && first() > 0; }
};

// Channels [begin, end) of the rows.
void ConvolvePart(const RecurrenceOfLayer& of, const PartOfSegment& part, int64_t begin,
                  int64_t end) {
  const int64_t channels = of.spec.channels(), before = of.spec.conv_width - 1;
  const int64_t size = end - begin;
  float* const inputs = of.SlotOf(*part.segment, part.first()) + of.spec.inputs_begin() + begin;
  if (part.first() == 0) {
    for (int64_t j = 0; j < before; ++j) std::fill_n(inputs + j * channels, size, 0.0f);
  } else if (part.crosses()) {
    const float* const previous =
        of.SlotOf(*part.segment, part.first() - 1) + of.spec.inputs_begin() + begin;
    for (int64_t j = 0; j < before; ++j) {
      std::copy_n(previous + (kRun + j) * channels, size, inputs + j * channels);
    }
  }
  const float* const conv = of.params.conv + begin;
  const float* const bias = of.params.conv_bias == nullptr ? nullptr : of.params.conv_bias + begin;
  for (int64_t r = 0; r < part.rows.num_rows; ++r) {
    const int64_t i = (part.first() + r) % kRun;
    float* const row = of.inputs.mixed.Row(part.rows.first_row + r) + begin;
    std::copy_n(row, size, inputs + (before + i) * channels);
    ForEachVector(size, [&](auto d, int64_t c) HWY_ATTR {
      auto sum = hn::Zero(d);
      for (int64_t j = 0; j <= before; ++j) {
        sum = hn::MulAdd(hn::LoadU(d, conv + j * channels + c),
                         hn::LoadU(d, inputs + (i + j) * channels + c), sum);
      }
      if (bias != nullptr) sum = hn::Add(sum, hn::LoadU(d, bias + c));
      hn::StoreU(hn::Mul(sum, Sigmoid(d, sum)), d, row + c);
    });
  }
}

// ---- Keys and queries ----

void MakeUnit(float* x, int64_t size, double factor) {
  const double squares = FixedOrderSum(size, [x](auto d, int64_t i) HWY_ATTR {
    const auto v = hn::LoadU(d, x + i);
    return hn::Mul(v, v);
  });
  const auto scale = static_cast<float>(factor / std::sqrt(squares + 1e-6));
  for (int64_t i = 0; i < size; ++i) x[i] *= scale;
}

// Of one key head of the rows: keys go to the slot, with their columns side by side.
void PlaceKeys(const RecurrenceOfLayer& of, const PartOfSegment& part, int64_t head) {
  const int64_t size = of.spec.key_dim;
  float* const slot =
      of.SlotOf(*part.segment, part.first()) + of.spec.keys_begin() + head * size * kRun;
  for (int64_t r = 0; r < part.rows.num_rows; ++r) {
    float* const query = of.inputs.mixed.Row(part.rows.first_row + r) + head * size;
    float* const key = query + of.spec.keys_width();
    if (of.params.has_correction) {
      MakeUnit(query, size, 1 / std::sqrt(static_cast<double>(size)));
      MakeUnit(key, size, 1);
    }
    float* const keys = slot + (part.first() + r) % kRun;
    for (int64_t d = 0; d < size; ++d) keys[d * kRun] = key[d];
  }
}

// ---- The rule ----

// One head's part of a slot.
struct HeadOfSlot {
  HeadOfSlot(const StatePoolSpec& spec, float* slot, int64_t head)
      : memory(slot + head * spec.key_dim * spec.value_dim),
        keys(slot + spec.keys_begin() + head / spec.heads_per_key_head() * spec.key_dim * kRun),
        written(slot + spec.written_begin() + head * kRun * spec.value_dim),
        factors(slot + spec.factors_begin() + head * kRun) {}

  float* memory;   // [key_dim, value_dim]
  float* keys;     // [key_dim, kRun]
  float* written;  // [kRun, value_dim]
  float* factors;  // [kRun]
};

// fade[j] = the product of factors j + 1 .. last. Returns that of all of 0 .. last.
float FadeUntil(const float* factors, int64_t last, float* fade) {
  fade[last] = 1;
  for (int64_t j = last; j > 0; --j) fade[j - 1] = fade[j] * factors[j];
  return fade[0] * factors[0];
}

// The memory after a whole run, from that before it, none where `has_memory` is false. It may be
// the same.
void AdvanceMemory(const StatePoolSpec& spec, const HeadOfSlot& from, bool has_memory,
                   float* memory) {
  constexpr int kTogether = 4;
  float fade[kRun];
  const float since = FadeUntil(from.factors, kRun - 1, fade);
  const Rows written{from.written, kRun, spec.value_dim, spec.value_dim};
  const int64_t width = spec.value_dim;
  for (int64_t first = 0; first < spec.key_dim; first += kTogether) {
    const int64_t count = std::min<int64_t>(kTogether, spec.key_dim - first);
    float weights[kTogether][kRun];
    const float* coefficients[kTogether];
    float* rows[kTogether];
    for (int64_t n = 0; n < count; ++n) {
      const float* keys = from.keys + (first + n) * kRun;
      for (int64_t j = 0; j < kRun; ++j) weights[n][j] = fade[j] * keys[j];
      coefficients[n] = weights[n];
      rows[n] = memory + (first + n) * width;
      const float* before = from.memory + (first + n) * width;
      for (int64_t v = 0; v < width; ++v) rows[n][v] = has_memory ? since * before[v] : 0.0f;
    }
    if (count == kTogether) {
      AddRowsTo<kTogether, false>(written, coefficients, rows);
    } else {
      for (int64_t n = 0; n < count; ++n) {
        AddRowsTo<1, false>(written, coefficients + n, rows + n);
      }
    }
  }
}

// What a position is asked and answers, for one head.
struct HeadRow {
  const float* query;
  const float* key;
  const float* value;
  float beta = 1;  // or the time step
  float* said;     // [value_dim]: what the memory says of the key
  float* answer;   // [value_dim]: and of the query
};

// What the memory as it was at the boundary says of neighbouring rows, read once for two of them.
void ReadMemory(const StatePoolSpec& spec, const HeadOfSlot& head, bool has_correction,
                absl::Span<const HeadRow> rows) {
  const Rows memory{head.memory, spec.key_dim, spec.value_dim, spec.value_dim};
  const float* vectors[4];
  float* sums[4];
  size_t count = 0;
  for (const HeadRow& row : rows) {
    vectors[count] = row.query;
    sums[count++] = row.answer;
    if (!has_correction) continue;
    vectors[count] = row.key;
    sums[count++] = row.said;
  }
  switch (count) {
    case 1:
      return AddRowsTo<1, true>(memory, vectors, sums);
    case 2:
      return AddRowsTo<2, true>(memory, vectors, sums);
    default:
      return AddRowsTo<4, true>(memory, vectors, sums);
  }
}

// The outputs of slot row i, in row.answer, which has what ReadMemory finds; stores what is written.
void RecurAt(const StatePoolSpec& spec, const HeadOfSlot& head, bool has_correction,
             bool has_memory, int64_t i, const HeadRow& row) {
  const int64_t width = spec.value_dim;
  float fade[kRun], key_products[kRun], query_products[kRun];
  const float since = FadeUntil(head.factors, i, fade);
  const float* const vectors[] = {row.query, row.key};
  float* const products[] = {query_products, key_products};
  // Whole vectors: what lies behind column i counts for nothing.
  const int64_t columns = (i + kMaxFloatLanes) / kMaxFloatLanes * kMaxFloatLanes;
  const Rows keys{head.keys, spec.key_dim, kRun, columns};
  float* const sums[] = {row.answer, row.said};
  const auto scale = [&](float* x) {
    if (!has_memory) {
      std::fill_n(x, width, 0.0f);
      return;
    }
    for (int64_t v = 0; v < width; ++v) x[v] *= since;
  };
  scale(row.answer);
  if (has_correction) {
    AddRowsTo<2, true>(keys, vectors, products);
    scale(row.said);
  } else {
    AddRowsTo<1, true>(keys, vectors, products);
  }
  for (int64_t j = 0; j <= i; ++j) query_products[j] *= fade[j];
  float* const written = head.written + i * width;
  const float* const coefficients[] = {query_products, key_products};
  const Rows earlier{head.written, i, width, width};
  if (has_correction) {
    for (int64_t j = 0; j < i; ++j) key_products[j] *= fade[j];
    AddRowsTo<2, false>(earlier, coefficients, sums);
    for (int64_t v = 0; v < width; ++v) written[v] = row.beta * (row.value[v] - row.said[v]);
  } else {
    AddRowsTo<1, false>(earlier, coefficients, sums);
    for (int64_t v = 0; v < width; ++v) written[v] = row.beta * row.value[v];
  }
  const float* const own[] = {query_products + i};
  AddRowsTo<1, false>({written, 1, width, width}, own, sums);
}

// out = answer / rms * norm * silu(gate).
void NormAndGate(const RecurrenceParams& params, const float* answer, const float* gate,
                 int64_t width, float* out) {
  const double squares = FixedOrderSum(width, [answer](auto d, int64_t i) HWY_ATTR {
    const auto v = hn::LoadU(d, answer + i);
    return hn::Mul(v, v);
  });
  const auto scale =
      static_cast<float>(1 / std::sqrt(squares / static_cast<double>(width) + params.norm_eps));
  ForEachVector(width, [&](auto d, int64_t i) HWY_ATTR {
    const auto z = hn::LoadU(d, gate + i);
    const auto normed = hn::Mul(hn::Mul(hn::LoadU(d, answer + i), hn::Set(d, scale)),
                                hn::LoadU(d, params.norm + i));
    hn::StoreU(hn::Mul(normed, hn::Mul(z, Sigmoid(d, z))), d, out + i);
  });
}

// out = (answer + skip * value) * silu(gate).
void SkipAndGate(float skip, const float* answer, const float* value, const float* gate,
                 int64_t width, float* out) {
  ForEachVector(width, [&](auto d, int64_t i) HWY_ATTR {
    const auto z = hn::LoadU(d, gate + i);
    const auto sum =
        hn::MulAdd(hn::Set(d, skip), hn::LoadU(d, value + i), hn::LoadU(d, answer + i));
    hn::StoreU(hn::Mul(sum, hn::Mul(z, Sigmoid(d, z))), d, out + i);
  });
}

// One head's memory at the boundary that the rows begin with.
void CrossBoundary(const RecurrenceOfLayer& of, const PartOfSegment& part, int64_t head) {
  const HeadOfSlot previous(of.spec, of.SlotOf(*part.segment, part.first() - 1), head);
  const HeadOfSlot slot(of.spec, of.SlotOf(*part.segment, part.first()), head);
  AdvanceMemory(of.spec, previous, part.first() > kRun, slot.memory);
}

// One head of the rows, in order. `scratch` has room for the answers of two.
void RecurHead(const RecurrenceOfLayer& of, const PartOfSegment& part, int64_t head,
               float* scratch) {
  constexpr int64_t kTogether = 2;
  const StatePoolSpec& spec = of.spec;
  const RecurrenceParams& params = of.params;
  const int64_t width = spec.value_dim, key_head = head / spec.heads_per_key_head();
  const double rate = -std::exp(double{params.log_rate[head]});
  const bool has_memory = part.first() >= kRun;
  const HeadOfSlot slot(spec, of.SlotOf(*part.segment, part.first()), head);
  for (int64_t first = 0; first < part.rows.num_rows; first += kTogether) {
    const int64_t count = std::min(kTogether, part.rows.num_rows - first);
    HeadRow rows[kTogether];
    for (int64_t r = 0; r < count; ++r) {
      const float* const mixed = of.inputs.mixed.Row(part.rows.first_row + first + r);
      rows[r] = {.query = mixed + key_head * spec.key_dim,
                 .key = mixed + spec.keys_width() + key_head * spec.key_dim,
                 .value = mixed + 2 * spec.keys_width() + head * width,
                 .said = scratch + 2 * r * width,
                 .answer = scratch + (2 * r + 1) * width};
    }
    if (has_memory) {
      ReadMemory(spec, slot, params.has_correction, {rows, static_cast<size_t>(count)});
    }
    for (int64_t r = 0; r < count; ++r) {
      const int64_t t = part.rows.first_row + first + r, i = (part.first() + first + r) % kRun;
      HeadRow& row = rows[r];
      const double plus =
          SoftPlus(double{of.inputs.decay.Row(t)[head]} + double{params.decay_bias[head]});
      const float* const gate = of.inputs.gate.Row(t) + head * width;
      float* const out = of.out.Row(t) + head * width;
      if (params.has_correction) {
        slot.factors[i] = static_cast<float>(std::exp(rate * plus));
        row.beta = ScalarSigmoid(of.inputs.beta.Row(t)[head]);
      } else {
        row.beta = static_cast<float>(
            std::clamp(plus, double{params.least_step}, double{params.most_step}));
        slot.factors[i] = static_cast<float>(std::exp(rate * row.beta));
      }
      RecurAt(spec, slot, params.has_correction, has_memory, i, row);
      if (params.has_correction) {
        NormAndGate(params, row.answer, gate, width, out);
      } else {
        SkipAndGate(params.skip[head], row.answer, row.value, gate, width, out);
      }
    }
  }
}

// Run by run, as the next one may take the slot of the one before it.
void RecurRows(CpuContext& context, absl::Span<const StateSegment> segments,
               const RecurrenceInputs& inputs, const RecurrenceParams& params, int layer,
               const CpuStatePool& pool, MatrixView out) {
  const StatePoolSpec& spec = pool.spec();
  const RecurrenceOfLayer of{inputs, params, layer, pool, spec, out};
  constexpr int64_t kChannels = 256;
  const int64_t channel_runs = (spec.channels() + kChannels - 1) / kChannels;
  const int64_t heads = spec.num_heads, key_heads = spec.num_key_heads;
  const auto parts = reinterpret_cast<PartOfSegment*>(
      context.operand.Bytes(0, (segments.size() + 1) * sizeof(PartOfSegment)));
  for (int64_t run = 0;; ++run) {
    int64_t count = 0;
    for (const StateSegment& segment : segments) {
      const StateSegment rows = PartOfRun(segment, run);
      if (rows.num_rows > 0) new (&parts[count++]) PartOfSegment{&segment, rows};
    }
    if (count == 0) return;
    // Memories and inputs of the convolution lie apart.
    context.pool.ParallelFor(count * (heads + channel_runs), [&](int64_t index, int) HWY_ATTR {
      const PartOfSegment& part = parts[index / (heads + channel_runs)];
      const int64_t task = index % (heads + channel_runs);
      if (task < heads) {
        if (part.crosses()) CrossBoundary(of, part, task);
        return;
      }
      const int64_t begin = (task - heads) * kChannels;
      ConvolvePart(of, part, begin, std::min(begin + kChannels, spec.channels()));
    });
    context.pool.ParallelFor(count * key_heads, [&](int64_t index, int) HWY_ATTR {
      PlaceKeys(of, parts[index / key_heads], index % key_heads);
    });
    context.pool.ParallelFor(count * heads, [&](int64_t index, int worker) HWY_ATTR {
      RecurHead(of, parts[index / heads], index % heads,
                context.scratch.Floats(worker, 4 * spec.value_dim));
    });
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sluice
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice {

HWY_EXPORT(RecurRows);

absl::StatusOr<std::unique_ptr<StatePool>> CpuStatePool::Create(const StatePoolSpec& spec) {
  SLUICE_CHECK(spec.num_layers > 0 && spec.num_slots > 0 && spec.conv_width >= 2);
  SLUICE_CHECK(spec.num_key_heads > 0 && spec.num_heads % spec.num_key_heads == 0);
  SLUICE_CHECK(spec.conv_width - 1 <= StatePoolSpec::kRun);
  absl::StatusOr<HostMemory> memory =
      HostMemory::Reserve(size_t{1} * spec.num_layers * spec.num_slots * spec.bytes_per_slot());
  if (!memory.ok()) return memory.status();
  return std::unique_ptr<StatePool>(new CpuStatePool(spec, *std::move(memory)));
}

absl::StatusOr<std::unique_ptr<StatePool>> CpuRecurrence::NewStatePool(const StatePoolSpec& spec) {
  absl::StatusOr<std::unique_ptr<StatePool>> pool = CpuStatePool::Create(spec);
  if (!pool.ok()) return pool.status();
  PlaceOnNodes(static_cast<const CpuStatePool&>(**pool).Slot(0, 0), (*pool)->size_bytes(),
               layout_.Nodes());
  return pool;
}

void CpuRecurrence::CopyStates(absl::Span<const KvBlockCopy> copies, StatePool& pool) {
  auto& states = static_cast<CpuStatePool&>(pool);
  const StatePoolSpec& spec = states.spec();
  // By layer: within one, the order of the copies matters.
  ForRowRuns(context_, spec.num_layers, spec.floats_per_slot() * std::ssize(copies),
             [&](int64_t begin, int64_t end) {
               for (auto layer = static_cast<int>(begin); layer < end; ++layer) {
                 for (const KvBlockCopy& copy : copies) {
                   std::memmove(states.Slot(layer, copy.destination),
                                states.Slot(layer, copy.source), spec.bytes_per_slot());
                 }
               }
             });
}

void CpuRecurrence::Recur(const RecurrenceInputs& inputs, const RecurrenceParams& params, int layer,
                          StatePool& pool, MatrixView out) {
  auto& states = static_cast<CpuStatePool&>(pool);
  const StatePoolSpec& spec = states.spec();
  SLUICE_CHECK(inputs.mixed.cols == spec.channels() && out.cols == spec.values_width());
  SLUICE_CHECK(inputs.gate.cols == out.cols && inputs.decay.cols == spec.num_heads);
  SLUICE_CHECK(!params.has_correction || inputs.beta.cols == spec.num_heads);
  HWY_DYNAMIC_DISPATCH(RecurRows)(context_, states_.all(), inputs, params, layer, states, out);
}

}  // namespace sluice
#endif  // HWY_ONCE
