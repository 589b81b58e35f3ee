// A machine's files below a folder: what the kernel says of a process and its control groups.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "kernels/check.h"

namespace sluice::testing {

class FakeMachine {
 public:
  FakeMachine() {
    char folder[] = "/tmp/sluice-machine-XXXXXX";
    SLUICE_CHECK(mkdtemp(folder) != nullptr);
    folder_ = folder;
  }
  ~FakeMachine() { std::filesystem::remove_all(folder_); }
  FakeMachine(const FakeMachine&) = delete;

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  const std::string& root() const { return folder_; }

 private:
  std::string folder_;
};

// mountinfo of a machine with control groups of version 2.
inline constexpr char kUnifiedGroups[] =
    "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
    "31 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

}  // namespace sluice::testing
