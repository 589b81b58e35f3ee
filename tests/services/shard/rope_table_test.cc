#include "services/shard/rope_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/testing/test_data.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

Json Example(const std::string& id) {
  std::ifstream file(testing::ProjectPath("tests/golden/worked_examples.json"));
  return Json::parse(file).at(id);
}

RopeTable TableOf(int dim, double theta) {
  return RopeTable({.theta = theta, .dim = dim, .original_positions = 1000000});
}

// Cosines and sines of one position, by pair.
struct Row {
  std::vector<float> cos, sin;
};

Row RowOf(const RopeTable& table, int32_t position) {
  Row row{std::vector<float>(table.pairs()), std::vector<float>(table.pairs())};
  table.Fill({&position, 1}, position + 1, absl::MakeSpan(row.cos), absl::MakeSpan(row.sin));
  return row;
}

// Neighbouring elements as pairs.
std::vector<double> Rotated(const std::vector<double>& x, const Row& row) {
  std::vector<double> out;
  for (size_t i = 0; i < row.cos.size(); ++i) {
    out.push_back(x[2 * i] * row.cos[i] - x[2 * i + 1] * row.sin[i]);
    out.push_back(x[2 * i + 1] * row.cos[i] + x[2 * i] * row.sin[i]);
  }
  return out;
}

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

TEST(RopeTableTest, ProportionalTurnsTheFastestPairsAtTheirSpeed) {
  const RopeTable plain = TableOf(16, 1000);
  const RopeTable table({.theta = 1000,
                         .dim = 16,
                         .scaling = RopeScaling::kProportional,
                         .original_positions = 64,
                         .turned_pairs = 3});
  const Row row = RowOf(table, 7), expected = RowOf(plain, 7);
  for (size_t i = 0; i < row.cos.size(); ++i) {
    EXPECT_EQ(row.cos[i], i < 3 ? expected.cos[i] : 1) << i;
    EXPECT_EQ(row.sin[i], i < 3 ? expected.sin[i] : 0) << i;
  }
}

TEST(RopeTableTest, SixDimensionsAtPosition100OfTheTextbook) {
  const Json example = Example("rope_6d_t100");
  const Json& inputs = example.at("inputs");
  const Json& expected = example.at("expected");
  const auto vector = inputs.at("vector").get<std::vector<double>>();
  const RopeTable table = TableOf(static_cast<int>(vector.size()), inputs.at("theta"));
  const int32_t position = inputs.at("position");
  ASSERT_EQ(table.pairs(), 3);
  const std::vector<double> rotated = Rotated(vector, RowOf(table, position));
  for (int i = 0; i < 3; ++i) {
    EXPECT_NEAR(table.Frequencies(1)[i], expected.at("frequencies")[i],
                example.at("tolerance").at("frequencies"));
    EXPECT_NEAR(position * table.Frequencies(1)[i], expected.at("angles")[i],
                example.at("tolerance").at("angles"));
  }
  for (int i = 0; i < 6; ++i) {
    EXPECT_NEAR(rotated[i], expected.at("rotated")[i], example.at("tolerance").at("rotated"));
  }
}

TEST(RopeTableTest, AngleOfTheTextbooksVisualizer) {
  const Json example = Example("rope_angle_visualizer");
  const Json& inputs = example.at("inputs");
  const RopeTable table = TableOf(inputs.at("dim"), inputs.at("theta"));
  const int pair = inputs.at("pair");  // counted from 1
  const double angle = inputs.at("position").get<int>() * table.Frequencies(1)[pair - 1];
  EXPECT_NEAR(angle, example.at("expected").at("radians"), example.at("tolerance").at("radians"));
  EXPECT_NEAR(angle * 180 / std::acos(-1), example.at("expected").at("degrees"),
              example.at("tolerance").at("degrees"));
}

TEST(RopeTableTest, ScoresDependOnTheDistanceAlone) {
  const Json example = Example("rope_relative_distance");
  const Json& inputs = example.at("inputs");
  const auto query = inputs.at("query").get<std::vector<double>>();
  const auto key = inputs.at("key").get<std::vector<double>>();
  const RopeTable table = TableOf(static_cast<int>(query.size()), inputs.at("theta"));
  std::vector<double> scores;
  for (const Json& pair : inputs.at("position_pairs")) {
    scores.push_back(
        Dot(Rotated(query, RowOf(table, pair[0])), Rotated(key, RowOf(table, pair[1]))));
  }
  ASSERT_EQ(scores.size(), 2u);
  EXPECT_NEAR(scores[0], scores[1], 1e-6);
  EXPECT_GT(std::abs(scores[0] - Dot(query, key)), 0.01);
}

TEST(RopeTableTest, FarPositionsAreTheTrueValuesRoundedOnce) {
  const RopeTable table = TableOf(8, 500000);
  const Row row = RowOf(table, 131071);
  for (int i = 0; i < 4; ++i) {
    const double angle = 131071 * std::pow(500000.0, -i / 4.0);
    EXPECT_NEAR(row.cos[i], std::cos(angle), 1e-7);
    EXPECT_NEAR(row.sin[i], std::sin(angle), 1e-7);
  }
}

TEST(RopeTableTest, PositionsDoNotDependOnTheirNeighbours) {
  const RopeTable table = TableOf(6, 10000);
  const std::vector<int32_t> positions = {5, 0, 77, 5};
  std::vector<float> cos(positions.size() * 3), sin(cos.size());
  table.Fill(positions, 78, absl::MakeSpan(cos), absl::MakeSpan(sin));
  for (size_t t = 0; t < positions.size(); ++t) {
    const Row alone = RowOf(table, positions[t]);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(cos[t * 3 + i], alone.cos[i]);
      EXPECT_EQ(sin[t * 3 + i], alone.sin[i]);
    }
  }
  EXPECT_EQ(cos[3], 1);  // position 0
  EXPECT_EQ(sin[3], 0);
}

}  // namespace
}  // namespace sluice
