// A folder for this process; gone with it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "kernels/check.h"

namespace sluice {

class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "sluice_fuzz_XXXXXX").string();
    SLUICE_CHECK(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace sluice
