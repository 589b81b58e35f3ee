// Textbook examples that single operations must reproduce, on the reference and on every backend.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/kernels/testing/backend_cases.h"
#include "tests/kernels/testing/paged_sequence.h"
#include "tests/kernels/testing/primitives.h"
#include "tests/kernels/testing/tensors.h"
#include "tests/testing/test_data.h"

namespace sluice::testing {
namespace {

using nlohmann::json;

constexpr char kFile[] = "oracle/worked_examples.json";
// What floats of size one cannot resolve, where the example itself is exact.
constexpr double kFloatTolerance = 2e-6;

json Example(const std::string& id) {
  std::ifstream file(*TestData(kFile));
  const json content = json::parse(file);
  for (const json& example : content.at("cases")) {
    if (example.at("id") == id) return example;
  }
  ADD_FAILURE() << "no example " << id << " in " << kFile;
  return {};
}

// A number per expected key, or one for all.
double Tolerance(const json& example, const std::string& key) {
  const json& tolerance = example.at("tolerance");
  return std::max(kFloatTolerance,
                  (tolerance.is_object() ? tolerance.at(key) : tolerance).get<double>());
}

HostMatrix ExampleMatrix(const json& values) {
  if (!values.at(0).is_array()) return ExampleMatrix(json::array({values}));
  HostMatrix matrix(static_cast<int64_t>(values.size()), static_cast<int64_t>(values[0].size()));
  for (int64_t row = 0; row < matrix.rows; ++row) {
    for (int64_t col = 0; col < matrix.cols; ++col) matrix.At(row, col) = values[row][col];
  }
  return matrix;
}

HostMatrix Transposed(const HostMatrix& matrix) {
  HostMatrix result(matrix.cols, matrix.rows);
  for (int64_t row = 0; row < matrix.rows; ++row) {
    for (int64_t col = 0; col < matrix.cols; ++col) result.At(col, row) = matrix.At(row, col);
  }
  return result;
}

HostMatrix Identity(int64_t size) {
  HostMatrix matrix(size, size);
  for (int64_t i = 0; i < size; ++i) matrix.At(i, i) = 1;
  return matrix;
}

class WorkedExamplesTest : public BackendTest {
 protected:
  // Runs `check` on the reference and on the backend under test.
  void OnBoth(const std::function<void(Backend&)>& check) {
    for (Backend* each : {&reference(), &backend()}) {
      SCOPED_TRACE(each->name());
      check(*each);
    }
  }
};
SLUICE_FOR_ALL_BACKENDS(WorkedExamplesTest);

#define SLUICE_EXAMPLE(name)                 \
  SLUICE_SKIP_WITHOUT(kFile);                \
  const json example = Example(name);        \
  const json& inputs = example.at("inputs"); \
  const json& expected = example.at("expected")

#define SLUICE_EXPECT_KEY(actual, key) \
  EXPECT_TRUE(IsNear(actual, ExampleMatrix(expected.at(key)), Tolerance(example, key))) << (key)

// x w, with w [K, N] as textbooks write it.
HostMatrix ExampleProduct(Backend& backend, const HostMatrix& x, const HostMatrix& w) {
  DeviceMatrix in(backend, x), out(backend, x.rows, w.cols);
  const auto packed = Pack(backend, Transposed(w));
  backend.Gemm(in.view(), *packed, out.view());
  return out.Read();
}

HostMatrix Softmax(Backend& backend, const HostMatrix& scores) {
  DeviceMatrix in_place(backend, scores);
  backend.LogSoftmax(in_place.view(), in_place.view());
  HostMatrix result = in_place.Read();
  for (float& value : result.values) value = std::exp(value);
  return result;
}

// One head attends over `keys` from each of `queries`, which are the last positions.
HostMatrix Attention(Backend& backend, const HostMatrix& queries, const HostMatrix& keys,
                     const HostMatrix& values, float scale) {
  const auto pool = NewKvPool(backend, {.num_layers = 1,
                                        .num_blocks = 8,
                                        .block_size = 2,
                                        .num_kv_heads = 1,
                                        .head_dim = static_cast<int>(keys.cols)});
  HostMatrix q(keys.rows, keys.cols);
  const int64_t first = keys.rows - queries.rows;
  std::copy(queries.values.begin(), queries.values.end(), q.values.begin() + first * q.cols);
  const Sequence sequence{q, keys, values, BlocksInOrder(keys.rows, 2)};
  return AttendChunk(backend, *pool, 0, sequence, 0, keys.rows, {.scale = scale})
      .Rows(first, queries.rows);
}

HostMatrix RotatedBy(Backend& backend, const HostMatrix& x, const std::vector<double>& angles) {
  HostMatrix cos(1, static_cast<int64_t>(angles.size())), sin = cos;
  for (size_t i = 0; i < angles.size(); ++i) {
    cos.values[i] = static_cast<float>(std::cos(angles[i]));
    sin.values[i] = static_cast<float>(std::sin(angles[i]));
  }
  DeviceMatrix in(backend, x), device_cos(backend, cos), device_sin(backend, sin);
  Rope(backend, in.view(), static_cast<int>(x.cols),
       {device_cos.view(), device_sin.view(), RopeTables::Index::kRow}, RopeLayout::kInterleaved);
  return in.Read();
}

std::vector<double> RopeAngles(double position, double theta, int64_t dim) {
  std::vector<double> angles;
  for (int64_t i = 0; i < dim; i += 2) {
    angles.push_back(position * std::pow(theta, -static_cast<double>(i) / dim));
  }
  return angles;
}

TEST_P(WorkedExamplesTest, RopeOfSixDimensionsAtPosition100) {
  SLUICE_EXAMPLE("rope_6d_t100");
  ASSERT_EQ(inputs.at("layout"), "interleaved");
  OnBoth([&](Backend& each) {
    const HostMatrix x = ExampleMatrix(inputs.at("vector"));
    SLUICE_EXPECT_KEY(
        RotatedBy(each, x, RopeAngles(inputs.at("position"), inputs.at("theta"), x.cols)),
        "rotated");
  });
}

TEST_P(WorkedExamplesTest, RotationBy45Degrees) {
  SLUICE_EXAMPLE("rope_rotation_45");
  OnBoth([&](Backend& each) {
    const double angle = inputs.at("degrees").get<double>() * std::acos(-1.0) / 180;
    SLUICE_EXPECT_KEY(RotatedBy(each, ExampleMatrix(inputs.at("vector")), {angle}), "rotated");
  });
}

TEST_P(WorkedExamplesTest, RotatedScoresDependOnDistance) {
  SLUICE_EXAMPLE("rope_relative_distance");
  ASSERT_EQ(expected.at("equal"), true);
  OnBoth([&](Backend& each) {
    std::vector<float> scores;
    for (const json& pair : inputs.at("position_pairs")) {
      const auto rotated = [&](const char* name, double position) {
        const HostMatrix x = ExampleMatrix(inputs.at(name));
        return RotatedBy(each, x, RopeAngles(position, inputs.at("theta"), x.cols));
      };
      scores.push_back(
          ExampleProduct(each, rotated("query", pair[0]), Transposed(rotated("key", pair[1])))
              .At(0, 0));
    }
    ASSERT_EQ(scores.size(), 2u);
    EXPECT_NEAR(scores[0], scores[1], kFloatTolerance);
    EXPECT_GT(std::abs(scores[0]), 0.1);
  });
}

TEST_P(WorkedExamplesTest, ScaledAttentionStep) {
  SLUICE_EXAMPLE("scaled_attention_step");
  OnBoth([&](Backend& each) {
    // Keys whose first element is the score, values that show the weights.
    const HostMatrix scores = ExampleMatrix(inputs.at("scores"));
    const int64_t key_dim = inputs.at("key_dim"), visible = inputs.at("visible");
    HostMatrix query(1, key_dim), keys(visible, key_dim), values(visible, key_dim);
    query.At(0, 0) = 1;
    for (int64_t i = 0; i < visible; ++i) {
      keys.At(i, 0) = scores.At(0, i);
      values.At(i, i) = 1;
    }
    const float scale = 1 / std::sqrt(static_cast<float>(key_dim));
    SLUICE_EXPECT_KEY(Attention(each, query, keys, values, scale).Columns(0, scores.cols),
                      "weights");
  });
}

TEST_P(WorkedExamplesTest, CausalMask) {
  SLUICE_EXAMPLE("causal_mask_4");
  OnBoth([&](Backend& each) {
    const int64_t length = inputs.at("length");
    const HostMatrix zero(length, length);
    const HostMatrix weights = Attention(each, zero, zero, Identity(length), 1);
    for (int64_t row = 0; row < length; ++row) {
      for (int64_t col = 0; col < length; ++col) {
        const bool masked = expected.at("mask")[row][col].is_null();
        EXPECT_EQ(weights.At(row, col) == 0, masked) << row << ", " << col;
      }
    }
  });
}

TEST_P(WorkedExamplesTest, DotProductAttention) {
  SLUICE_EXAMPLE("dot_product_attention");
  OnBoth([&](Backend& each) {
    const HostMatrix query = ExampleMatrix(inputs.at("query")),
                     keys = ExampleMatrix(inputs.at("keys"));
    const HostMatrix scores = ExampleProduct(each, query, Transposed(keys));
    SLUICE_EXPECT_KEY(scores, "scores");
    SLUICE_EXPECT_KEY(Softmax(each, scores), "weights");
    SLUICE_EXPECT_KEY(Attention(each, query, keys, ExampleMatrix(inputs.at("values")), 1),
                      "context");
  });
}

TEST_P(WorkedExamplesTest, KvCacheProjections) {
  SLUICE_EXAMPLE("kv_cache_projections");
  OnBoth([&](Backend& each) {
    const HostMatrix x = ExampleMatrix(inputs.at("x"));
    SLUICE_EXPECT_KEY(ExampleProduct(each, x, ExampleMatrix(inputs.at("wq"))), "queries");
    SLUICE_EXPECT_KEY(ExampleProduct(each, x, ExampleMatrix(inputs.at("wk"))), "keys");
    SLUICE_EXPECT_KEY(ExampleProduct(each, x, ExampleMatrix(inputs.at("wv"))), "values");
  });
}

TEST_P(WorkedExamplesTest, AttentionToTheBaseOfThree) {
  SLUICE_EXAMPLE("attention_base_3");
  OnBoth([&](Backend& each) {
    const float scale = std::log(inputs.at("base").get<float>());
    const HostMatrix query = ExampleMatrix(inputs.at("query")),
                     keys = ExampleMatrix(inputs.at("keys"));
    HostMatrix scores = ExampleProduct(each, query, Transposed(keys));
    SLUICE_EXPECT_KEY(scores, "scores");
    for (float& score : scores.values) score *= scale;
    SLUICE_EXPECT_KEY(Softmax(each, scores), "weights");
    SLUICE_EXPECT_KEY(Attention(each, query, keys, ExampleMatrix(inputs.at("values")), scale),
                      "result");
  });
}

TEST_P(WorkedExamplesTest, SelfAttentionWithBoostedKeys) {
  SLUICE_EXAMPLE("self_attention_boosted_keys");
  OnBoth([&](Backend& each) {
    const HostMatrix x = ExampleMatrix(inputs.at("embeddings"));
    const HostMatrix queries = ExampleProduct(each, x, ExampleMatrix(inputs.at("wq")));
    const HostMatrix keys = ExampleProduct(each, x, ExampleMatrix(inputs.at("wk")));
    SLUICE_EXPECT_KEY(queries, "queries");
    SLUICE_EXPECT_KEY(keys, "keys");
    SLUICE_EXPECT_KEY(ExampleProduct(each, queries, Transposed(keys)), "scores");
  });
}

TEST_P(WorkedExamplesTest, RmsNormDefinition) {
  SLUICE_EXAMPLE("rms_norm_definition");
  OnBoth([&](Backend& each) {
    const HostMatrix x = ExampleMatrix(inputs.at("x"));
    const auto norm = [&](const HostMatrix& gamma) {
      DeviceMatrix in(each, x), weight(each, gamma), out(each, x.rows, x.cols);
      each.RmsNorm(in.view(), weight.data(), inputs.at("eps"), out.view());
      return out.Read();
    };
    SLUICE_EXPECT_KEY(norm(HostMatrix(1, 3, {1, 1, 1})), "normalised");
    SLUICE_EXPECT_KEY(norm(ExampleMatrix(inputs.at("gamma"))), "output");
  });
}

TEST_P(WorkedExamplesTest, PerplexityOfThreeBits) {
  SLUICE_EXAMPLE("perplexity_of_three_bits");
  OnBoth([&](Backend& each) {
    const HostMatrix even = Softmax(each, HostMatrix(1, inputs.at("choices").get<int64_t>()));
    for (const float probability : even.values) {
      EXPECT_NEAR(1 / probability, expected.at("perplexity").get<double>(), 1e-5);
      EXPECT_NEAR(-std::log2(probability), expected.at("bits").get<double>(), kFloatTolerance);
    }
  });
}

}  // namespace
}  // namespace sluice::testing
