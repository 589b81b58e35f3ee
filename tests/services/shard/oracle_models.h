// Tiny random models that the NumPy oracle writes and computes while a test runs.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::testing {

struct OracleModel {
  std::string folder;
  std::vector<int32_t> ids;
  std::vector<double> logits;  // [ids.size(), V], in float64 arithmetic
};

// Why no model can be made here (the oracle or NumPy is missing), or "" where they can.
std::string ReasonWithoutOracle();

// Names of the presets that begin with `prefix` and don't scale their rotary positions.
std::vector<std::string> UnscaledPresets(std::string_view prefix);

// Makes models "PRESET:DTYPE" or "PRESET:DTYPE:SHARDS", such as "llama-tied:BF16:3", in a folder
// that is removed when the object goes. Throws std::runtime_error where that fails.
class OracleModels {
 public:
  explicit OracleModels(const std::vector<std::string>& items);
  ~OracleModels();
  OracleModels(const OracleModels&) = delete;
  OracleModels& operator=(const OracleModels&) = delete;

  // By item, as given.
  const std::map<std::string, OracleModel>& models() const { return models_; }

 private:
  std::string folder_;
  std::map<std::string, OracleModel> models_;
};

}  // namespace sluice::testing
