#include "services/model_server/gpu_faults.h"

#include <poll.h>

#include <cerrno>
#include <filesystem>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "kernels/deadline.h"
#include "kernels/gpu/gpu_check.h"
#include "services/process/child_process.h"
#include "services/process/log.h"
#include "services/process/process_end.h"

namespace sluice {
namespace {

constexpr char kCommand[] = "check-gpu";
constexpr char kPassed[] = "exit status 0";

// Whether the process ended in time.
bool WaitFor(const ChildProcess& child, Deadline deadline) {
  pollfd ended{.fd = child.pidfd(), .events = POLLIN, .revents = 0};
  while (!deadline.HasPassed()) {
    const int timeout_ms = static_cast<int>(absl::ToInt64Milliseconds(deadline.Left())) + 1;
    const int ready = poll(&ended, 1, timeout_ms);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
  return false;
}

}  // namespace

void GuardAgainstGpuFaults(const std::string& program, DeviceOptions& device) {
  if (program.empty()) return;
  device.check_gpu = [program](int index, GpuProducts products) {
    return CheckGpuApart(program, index, products);
  };
  device.on_gpu_lost = [name = std::filesystem::path(program).filename().string(),
                        gpu = Name(device.device)](const absl::Status& reason) {
    EndWithReason(
        name,
        absl::StrCat(gpu, " does nothing more for this process: ", std::string(reason.message())));
  };
}

absl::Status CheckGpuApart(const std::string& program, int index, GpuProducts products,
                           absl::Duration limit) {
  auto child = ChildProcess::Start({program, kCommand, absl::StrCat(index), Name(products)});
  // Better looked at here than not at all.
  if (!child.ok()) return CheckGpuProducts(index, products);
  if (!WaitFor(*child, Deadline::After(limit))) {
    return absl::InternalError(absl::StrCat("the process that tried them (", child->pid(),
                                            ") had not ended after ", absl::FormatDuration(limit),
                                            " and was killed"));
  }
  const std::string pid = absl::StrCat(child->pid()), end = child->Reap();
  if (end == kPassed) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("the process that tried them (", pid, ") ended with ", end));
}

std::optional<int> RunGpuCheck(int argc, char** argv) {
  int index = 0;
  if (argc != 4 || argv[1] != std::string(kCommand) || !absl::SimpleAtoi(argv[2], &index)) {
    return std::nullopt;
  }
  const auto products = ParseGpuProducts(argv[3]);
  if (!products.ok() || !products->has_value()) return std::nullopt;
  const absl::Status checked = CheckGpuProducts(index, **products);
  if (checked.ok()) return 0;
  Log(LogLevel::kWarning, "gpu-check", "failed",
      {{"instructions", Name(**products)}, {"reason", std::string(checked.message())}});
  return 1;
}

}  // namespace sluice
