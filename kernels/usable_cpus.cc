#include "kernels/usable_cpus.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "kernels/control_groups.h"

namespace sluice {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

double Quotient(absl::string_view quota, absl::string_view period) {
  double microseconds = 0, of = 0;
  if (!absl::SimpleAtod(quota, &microseconds) || !absl::SimpleAtod(period, &of)) return kUnlimited;
  return microseconds > 0 && of > 0 ? microseconds / of : kUnlimited;
}

// What the group in `folder` is granted by itself.
double QuotaOf(const std::string& folder, bool is_v2) {
  if (!is_v2) {
    return Quotient(ReadGroupFile(folder + "/cpu.cfs_quota_us"),
                    ReadGroupFile(folder + "/cpu.cfs_period_us"));
  }
  // "max 100000" or "150000 100000".
  const std::string limit = ReadGroupFile(folder + "/cpu.max");
  const std::vector<absl::string_view> parts =
      absl::StrSplit(limit, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  return parts.size() == 2 ? Quotient(parts[0], parts[1]) : kUnlimited;
}

}  // namespace

double CpuQuota(const std::string& root) { return LeastGroupLimit(root, "cpu", QuotaOf); }

int UsableCpus() {
  cpu_set_t allowed;
  const int cpus = sched_getaffinity(0, sizeof(allowed), &allowed) == 0
                       ? CPU_COUNT(&allowed)
                       : static_cast<int>(std::thread::hardware_concurrency());
  const double granted = std::floor(CpuQuota(""));
  return static_cast<int>(std::clamp<double>(granted, 1, std::max(cpus, 1)));
}

}  // namespace sluice
