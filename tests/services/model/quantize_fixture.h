// A folder with a small model, and room beside it for what `sluice quantize` makes of it.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "services/model/model_config.h"
#include "services/model/quantize.h"
#include "services/model/weights.h"
#include "tests/services/model/model_folder.h"

namespace sluice::testing {

// Of a model with two layers whose matrices all have whole groups.
nlohmann::json LlamaConfig();

// What a file holds.
std::string TextOf(const std::string& path);

class QuantizeTest : public ::testing::Test {
 protected:
  QuantizeTest();

  std::string in() const { return folder_.PathOf("in"); }
  std::string out() const { return folder_.PathOf("out"); }

  void WriteModel(const nlohmann::json& config, DType dtype = DType::kF32);
  absl::StatusOr<QuantizeResult> Quantize(WeightFormat format = WeightFormat::kInt8);

  static ModelConfig ConfigOf(const std::string& folder);
  static WeightSource SourceOf(const std::string& folder);

  TempFolder folder_;
};

}  // namespace sluice::testing
