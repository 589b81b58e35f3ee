// Reads a file line by line, holding one of them at a time. Not thread-safe.
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace sluice::gateway {

struct FileLine {
  int64_t number = 0;    // from 1; empty lines count, and are left out
  int64_t end = 0;       // the byte behind it and its end
  bool is_whole = true;  // its end is there
  std::string text;
};

class LineFile {
 public:
  // NOT_FOUND and what else the system says.
  static absl::StatusOr<LineFile> Open(const std::string& path);

  // Nothing at the end of the file.
  std::optional<FileLine> Next();

 private:
  explicit LineFile(std::ifstream file) : file_(std::move(file)) {}

  std::ifstream file_;
  int64_t num_lines_ = 0;
  int64_t offset_ = 0;
};

// 32 hexadecimal digits that stand for the file's content; errors of LineFile::Open.
absl::StatusOr<std::string> ContentHash(const std::string& path);

}  // namespace sluice::gateway
