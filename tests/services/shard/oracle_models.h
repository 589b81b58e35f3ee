// Tiny random models that the NumPy oracle writes and computes while a test runs.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sluice::testing {

struct OracleModel {
  std::string folder;
  std::vector<int32_t> ids;
  std::vector<double> logits;  // [ids.size(), V], in float64 arithmetic
  // The last row of the logits of every prefix, [ids.size(), V]: `logits`, unless a sequence's
  // length decides how its positions turn.
  std::vector<double> prefix_logits;
  // Of encoder-decoders: the first ids are those of a source and its fill, whose logits are 0 here.
  int32_t source_positions = 0;
  // With the adapters in the folders "adapter" and "adapter2"; empty where the item names none.
  std::vector<double> adapted_logits, adapted2_logits;
};

// What `folder` has of a model and its logits, in the files that tests/golden/oracle_models.py
// writes.
OracleModel ReadOracleModel(const std::string& folder);

// The folder of models that were made before, for tests that were carried to another machine:
// $SLUICE_ORACLE_MODELS. They are some of all.
std::optional<std::string> CarriedOracleModels();

// Why no model can be made here (the oracle or NumPy is missing), or "" where they can, or some
// were carried.
std::string ReasonWithoutOracle();

// Names of the oracle's presets.
std::vector<std::string> OraclePresets();

// Models "PRESET:DTYPE" or "PRESET:DTYPE:SHARDS", such as "llama-tied:BF16:3", by item as given, or
// what else tests/golden/oracle_models.py reads, such as "llama:F16:1:gptq@128:wide";
// made where no test of this build has made them yet. Throws std::runtime_error where that fails.
// Of carried ones takes those that are there.
std::map<std::string, OracleModel> OracleModels(const std::vector<std::string>& items);

}  // namespace sluice::testing
