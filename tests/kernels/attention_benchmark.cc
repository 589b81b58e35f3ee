#include "tests/kernels/attention_benchmark.h"

#include <cmath>
#include <string>
#include <vector>

#include "kernels/reference/reference_backend.h"
#include "tests/kernels/checked_result.h"
#include "tests/kernels/testing/paged_sequence.h"
#include "tests/kernels/testing/primitives.h"
#include "tests/kernels/testing/tensors.h"

namespace sluice::testing {
namespace {

constexpr int kBlock = 16;

AttentionOptions OptionsOf(const HeadShape& heads) {
  return {.scale = 1 / std::sqrt(static_cast<float>(heads.head_dim))};
}

int64_t KvWidth(const HeadShape& heads) { return int64_t{heads.kv_heads} * heads.head_dim; }

KvPoolSpec PoolSpec(const HeadShape& heads, const AttentionShape& shape, DType dtype) {
  return {.num_layers = shape.layers,
          .num_blocks = static_cast<int>((shape.context + kBlock - 1) / kBlock * shape.sequences),
          .block_size = kBlock,
          .num_kv_heads = heads.kv_heads,
          .head_dim = heads.head_dim,
          .dtype = dtype};
}

// Sequence number `index`, with its keys and values in blocks of its own.
Sequence Stored(const HeadShape& heads, const AttentionShape& shape, int64_t index,
                Backend& backend, KvPool& pool, Random& random) {
  Sequence sequence{HostMatrix(0, 0), RandomMatrix(random, shape.context, KvWidth(heads)),
                    RandomMatrix(random, shape.context, KvWidth(heads)),
                    BlocksInOrder(shape.context, kBlock)};
  for (int32_t& block : sequence.block_table) {
    block += static_cast<int32_t>(index * sequence.block_table.size());
  }
  const DeviceMatrix k(backend, sequence.k), v(backend, sequence.v);
  const AttentionSegment segment = sequence.Segment(0, shape.context);
  backend.BeginStep({&segment, 1}, shape.context);
  for (int layer = 0; layer < shape.layers; ++layer) {
    StoreKv(backend, k.view(), v.view(), layer, pool);
  }
  return sequence;
}

void CheckAttention(Backend& backend, const HeadShape& heads, DType dtype) {
  const AttentionShape shape{.sequences = 1, .rows = 40, .context = 40};
  Random random(1);
  const Sequence sequence{RandomMatrix(random, 40, KvWidth(heads) * heads.group),
                          RandomMatrix(random, 40, KvWidth(heads)),
                          RandomMatrix(random, 40, KvWidth(heads)), BlocksInOrder(40, kBlock)};
  const auto attend = [&](Backend& by) {
    const auto pool = NewKvPool(by, PoolSpec(heads, shape, dtype));
    return AttendChunk(by, *pool, 0, sequence, 0, 40, OptionsOf(heads));
  };
  const auto reference = MakeReferenceBackend();
  ExpectNear("attention", attend(backend), attend(*reference), 1e-5);
}

}  // namespace

void MeasureAttention(Meter& meter, Backend& backend, const HeadShape& heads,
                      const AttentionShape& shape, DType dtype) {
  CheckAttention(backend, heads, dtype);
  Random random(2);
  const auto pool = NewKvPool(backend, PoolSpec(heads, shape, dtype));
  std::vector<Sequence> sequences;
  std::vector<AttentionSegment> segments;
  for (int64_t i = 0; i < shape.sequences; ++i) {
    sequences.push_back(Stored(heads, shape, i, backend, *pool, random));
  }
  for (int64_t i = 0; i < shape.sequences; ++i) {
    segments.push_back(
        sequences[i].Segment(shape.context - shape.rows, shape.rows, i * shape.rows));
  }
  const int64_t rows = shape.sequences * shape.rows;
  const int64_t width = KvWidth(heads) * heads.group;
  backend.BeginStep(segments, rows);
  const DeviceMatrix q(backend, RandomMatrix(random, rows, width)), out(backend, rows, width);
  const double positions = static_cast<double>(shape.sequences * shape.context);
  const double visible = static_cast<double>(rows) * (static_cast<double>(shape.context) -
                                                      static_cast<double>(shape.rows - 1) / 2);
  meter.Measure(
      {.kernel = std::string(heads.name) + " attention " + std::to_string(shape.sequences) +
                 " x T " + std::to_string(shape.rows) + " at " + std::to_string(shape.context),
       .format = std::string(Name(dtype)),
       .bytes = 2 * positions * shape.layers * static_cast<double>(KvWidth(heads) * SizeOf(dtype)),
       .operations = 4 * visible * shape.layers * static_cast<double>(width),
       .group = "attention"},
      [&] {
        for (int layer = 0; layer < shape.layers; ++layer) {
          backend.PagedAttention(q.view(), *pool, layer, OptionsOf(heads), out.view());
        }
      });
}

}  // namespace sluice::testing
