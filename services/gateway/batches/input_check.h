// Checks the file of a batch before any of its lines runs, some lines at a time. Not thread-safe.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_set>

#include "services/gateway/batches/line_file.h"

namespace sluice::gateway {

struct InputLimits {
  int64_t max_lines = 50'000;
  uint64_t max_line_bytes = uint64_t{16} << 20;
};

class InputCheck {
 public:
  InputCheck(LineFile file, std::string endpoint, InputLimits limits)
      : file_(std::move(file)), endpoint_(std::move(endpoint)), limits_(limits) {}

  // Reads up to `num_lines` more; false once there is nothing left to read, or too much is wrong.
  bool Step(int num_lines);

  // [{"code", "line", "message", "param"}, ..], as a batch shows them; empty: all can run.
  const nlohmann::json& errors() const { return errors_; }
  int64_t num_lines() const { return num_lines_; }

 private:
  void Check(const FileLine& line);
  void Add(int64_t line, const std::string& code, const std::string& message,
           const std::string& parameter);

  LineFile file_;
  const std::string endpoint_;
  const InputLimits limits_;
  std::unordered_set<uint64_t> custom_ids_;  // their hashes
  nlohmann::json errors_ = nlohmann::json::array();
  int64_t num_lines_ = 0;
};

}  // namespace sluice::gateway
