// States in place of keys and values: kernels/recurrent_ops.h.
#include <algorithm>
#include <memory>
#include <numeric>
#include <ostream>
#include <vector>

#include "kernels/recurrent_ops.h"
#include "tests/kernels/testing/backend_cases.h"
#include "tests/kernels/testing/primitives.h"
#include "tests/kernels/testing/tensors.h"

namespace sluice::testing {
namespace {

class RecurrenceTest : public BackendTest {
 protected:
  void SetUp() override {
    BackendTest::SetUp();
    if (backend().recurrence() == nullptr) GTEST_SKIP() << "has no states";
  }
};
SLUICE_FOR_ALL_BACKENDS(RecurrenceTest);

struct RecurrenceShape {
  bool has_correction = true;
  int heads = 4, key_heads = 2, key_dim = 16, value_dim = 24, conv_width = 4;
  bool conv_bias = false;

  StatePoolSpec Pool(int num_slots) const {
    return {.num_layers = 2,
            .num_slots = num_slots,
            .num_heads = heads,
            .num_key_heads = key_heads,
            .key_dim = key_dim,
            .value_dim = value_dim,
            .conv_width = conv_width};
  }
};

std::ostream& operator<<(std::ostream& stream, const RecurrenceShape& shape) {
  return stream << (shape.has_correction ? "delta rule, " : "state space, ") << shape.heads
                << " heads of " << shape.key_dim << " by " << shape.value_dim << ", "
                << shape.key_heads << " key heads, convolution of " << shape.conv_width;
}

// Those of models, and ones that nothing is a multiple of.
const RecurrenceShape kRecurrenceShapes[] = {
    {},
    {.heads = 2, .key_heads = 1, .key_dim = 128, .value_dim = 128},
    {.heads = 3, .key_heads = 3, .key_dim = 7, .value_dim = 5, .conv_width = 2, .conv_bias = true},
    {.has_correction = false, .key_heads = 1, .key_dim = 128, .value_dim = 64, .conv_bias = true},
    {.has_correction = false, .heads = 6, .key_dim = 9, .value_dim = 33, .conv_width = 3},
};

constexpr int64_t kLength = 150;  // two boundaries and some

// What a layer reads of a sequence.
struct RecurrenceData {
  RecurrenceData(Random& random, const RecurrenceShape& shape)
      : mixed(RandomMatrix(random, kLength, shape.Pool(1).channels())),
        gate(RandomMatrix(random, kLength, shape.Pool(1).values_width())),
        beta(RandomMatrix(random, kLength, shape.heads)),
        decay(RandomMatrix(random, kLength, shape.heads)),
        conv(RandomMatrix(random, shape.conv_width, shape.Pool(1).channels())),
        conv_bias(RandomMatrix(random, 1, shape.Pool(1).channels())),
        decay_bias(RandomMatrix(random, 1, shape.heads)),
        log_rate(RandomMatrix(random, 1, shape.heads)),
        norm(RandomMatrix(random, 1, shape.value_dim)),
        skip(RandomMatrix(random, 1, shape.heads)),
        blocks{3, 0, 4} {
    for (float& value : log_rate.values) value -= 4;  // so that memories last
  }

  HostMatrix mixed, gate, beta, decay, conv, conv_bias, decay_bias, log_rate, norm, skip;
  std::vector<int32_t> blocks;
};

// Some positions of a sequence.
struct RecurrencePart {
  const RecurrenceData* data = nullptr;
  int64_t first = 0, count = 0;
};

HostMatrix Joined(const std::vector<RecurrencePart>& parts, HostMatrix RecurrenceData::*member) {
  HostMatrix all(0, (parts.front().data->*member).cols);
  for (const RecurrencePart& part : parts) {
    const HostMatrix rows = (part.data->*member).Rows(part.first, part.count);
    all.values.insert(all.values.end(), rows.values.begin(), rows.values.end());
    all.rows += rows.rows;
  }
  return all;
}

// One step of the parts; the weights are those of the first.
HostMatrix RecurStep(Backend& backend, StatePool& pool, const RecurrenceShape& shape,
                     const std::vector<RecurrencePart>& parts, int64_t padding = 0) {
  const RecurrenceData& weights = *parts.front().data;
  DeviceMatrix mixed(backend, Joined(parts, &RecurrenceData::mixed), padding);
  const DeviceMatrix gate(backend, Joined(parts, &RecurrenceData::gate), padding);
  const DeviceMatrix beta(backend, Joined(parts, &RecurrenceData::beta), padding);
  const DeviceMatrix decay(backend, Joined(parts, &RecurrenceData::decay), padding);
  const DeviceMatrix conv(backend, weights.conv), conv_bias(backend, weights.conv_bias),
      decay_bias(backend, weights.decay_bias), log_rate(backend, weights.log_rate),
      norm(backend, weights.norm), skip(backend, weights.skip);
  DeviceMatrix out(backend, mixed.view().rows, gate.view().cols, padding);
  std::vector<StateSegment> segments;
  int64_t row = 0;
  for (const RecurrencePart& part : parts) {
    segments.push_back(
        {.first_row = row,
         .num_rows = part.count,
         .first_position = part.first,
         .slots = absl::MakeConstSpan(part.data->blocks)
                      .subspan(std::max<int64_t>(part.first - 1, 0) / StatePoolSpec::kRun)});
    row += part.count;
  }
  backend.BeginStep({}, row);
  backend.recurrence()->BeginStates(segments);
  backend.recurrence()->Recur(
      {.mixed = mixed.view(), .gate = gate.view(), .beta = beta.view(), .decay = decay.view()},
      {.has_correction = shape.has_correction,
       .conv = conv.data(),
       .conv_bias = shape.conv_bias ? conv_bias.data() : nullptr,
       .decay_bias = decay_bias.data(),
       .log_rate = log_rate.data(),
       .norm = norm.data(),
       .norm_eps = 1e-5F,
       .skip = skip.data(),
       .least_step = 0.01F,
       .most_step = 3},
      1, pool, out.view());
  return out.Read();
}

std::unique_ptr<StatePool> NewPool(Backend& backend, const RecurrenceShape& shape, int slots = 10) {
  return *backend.recurrence()->NewStatePool(shape.Pool(slots));
}

TEST_P(RecurrenceTest, AgreesWithReference) {
  Random random(1);
  for (const RecurrenceShape& shape : kRecurrenceShapes) {
    const RecurrenceData data(random, shape);
    const auto pool = NewPool(backend(), shape), plain = NewPool(reference(), shape);
    EXPECT_TRUE(IsNear(RecurStep(backend(), *pool, shape, {{&data, 0, kLength}}, 3),
                       RecurStep(reference(), *plain, shape, {{&data, 0, kLength}}), 2e-5, 2e-4))
        << shape;
  }
}

// Memories last: what was written before the last boundary shows behind it.
TEST_P(RecurrenceTest, PositionsBeforeABoundaryShowBehindIt) {
  Random random(2);
  for (const RecurrenceShape& shape : kRecurrenceShapes) {
    RecurrenceData data(random, shape);
    const HostMatrix whole =
        RecurStep(backend(), *NewPool(backend(), shape), shape, {{&data, 0, kLength}});
    for (int64_t i = 0; i < data.mixed.cols; ++i) data.mixed.At(60, i) += 1;
    const HostMatrix other =
        RecurStep(backend(), *NewPool(backend(), shape), shape, {{&data, 0, kLength}});
    EXPECT_TRUE(SameBits(whole.Rows(0, 60), other.Rows(0, 60))) << shape;
    EXPECT_FALSE(IsNear(whole.Rows(140, 10), other.Rows(140, 10), 1e-5)) << shape;
  }
}

// Chunks of any size, steps that are computed again, and neighbours.
TEST_P(RecurrenceTest, ChunksRepetitionsAndNeighboursDoNotChangeABit) {
  Random random(3);
  for (const RecurrenceShape& shape : kRecurrenceShapes) {
    const RecurrenceData data(random, shape);
    RecurrenceData neighbour(random, shape);
    neighbour.blocks = {7, 8, 1};
    const auto pool = NewPool(backend(), shape);
    const HostMatrix whole = RecurStep(backend(), *pool, shape, {{&data, 0, kLength}});
    const auto again = NewPool(backend(), shape);
    int64_t beside = 0;
    for (int64_t done = 0; done < kLength;) {
      const int64_t count = std::min<int64_t>(
          RandomInt(random, 0, 2) == 0 ? RandomInt(random, 1, 90) : RandomInt(random, 1, 5),
          kLength - done);
      std::vector<RecurrencePart> parts = {{&data, done, count}};
      if (beside + 7 <= kLength) parts.push_back({&neighbour, beside, 7});
      beside += 7;
      const HostMatrix rows = RecurStep(backend(), *again, shape, parts);
      EXPECT_TRUE(SameBits(rows.Rows(0, count), whole.Rows(done, count)))
          << shape << ", positions from " << done;
      // Some are dropped and computed again, across a boundary too.
      const int64_t dropped = std::min<int64_t>(RandomInt(random, 0, 3), done + count - 1);
      done += count;
      if (RandomInt(random, 0, 1) == 0 && done < kLength) done -= dropped;
    }
  }
}

// A long chunk needs no slot but that of its end.
TEST_P(RecurrenceTest, RunsWithinAChunkMayShareASlot) {
  Random random(6);
  for (const RecurrenceShape& shape : kRecurrenceShapes) {
    RecurrenceData data(random, shape);
    const HostMatrix whole =
        RecurStep(backend(), *NewPool(backend(), shape), shape, {{&data, 0, kLength}});
    data.blocks = {2, 2, 2};
    const auto pool = NewPool(backend(), shape);
    EXPECT_TRUE(SameBits(RecurStep(backend(), *pool, shape, {{&data, 0, 140}}), whole.Rows(0, 140)))
        << shape;
    EXPECT_TRUE(SameBits(RecurStep(backend(), *pool, shape, {{&data, 140, kLength - 140}}),
                         whole.Rows(140, kLength - 140)))
        << shape;
  }
}

// A copy goes on from any position that its source had.
TEST_P(RecurrenceTest, CopiesGoOnWithTheSameBits) {
  Random random(4);
  for (const RecurrenceShape& shape : kRecurrenceShapes) {
    RecurrenceData data(random, shape);
    const auto pool = NewPool(backend(), shape);
    const HostMatrix whole = RecurStep(backend(), *pool, shape, {{&data, 0, kLength}});
    const KvBlockCopy copies[] = {{.source = 0, .destination = 9}};
    backend().recurrence()->CopyStates(copies, *pool);
    data.blocks = {3, 9, 5};
    EXPECT_TRUE(SameBits(RecurStep(backend(), *pool, shape, {{&data, 70, kLength - 70}}),
                         whole.Rows(70, kLength - 70)))
        << shape;
  }
}

TEST_P(RecurrenceTest, GatesAndNormsOfGroupsAgreeWithReference) {
  Random random(5);
  const HostMatrix x = RandomMatrix(random, 5, 66), gate = RandomMatrix(random, 5, 66, 3),
                   weight = RandomMatrix(random, 1, 66);
  const auto both = [&](Backend& backend) {
    DeviceMatrix rows(backend, x, 2);
    const DeviceMatrix gates(backend, gate), weights(backend, weight);
    backend.recurrence()->GateBySigmoid(gates.view(), rows.view());
    backend.recurrence()->Square(rows.view());
    backend.recurrence()->GroupRmsNorm(rows.view(), weights.data(), 1e-5F, 3, rows.view());
    return rows.Read();
  };
  EXPECT_TRUE(IsNear(both(backend()), both(reference()), 1e-6, 1e-5));
}

}  // namespace
}  // namespace sluice::testing
