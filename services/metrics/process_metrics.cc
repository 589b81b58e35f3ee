#include "services/metrics/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "services/metrics/families.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

double EntriesIn(const char* folder) {
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  if (error) return 0;
  return static_cast<double>(std::distance(fs::begin(entries), fs::end(entries)));
}

double ResidentBytes() {
  // Pages: all of the program's, then those in memory.
  std::ifstream file("/proc/self/statm");
  double size = 0;
  double resident = 0;
  file >> size >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double CpuSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return absl::ToDoubleSeconds(absl::DurationFromTimeval(usage.ru_utime) +
                               absl::DurationFromTimeval(usage.ru_stime));
}

}  // namespace

ProcessMetrics::ProcessMetrics(std::string service, std::function<bool()> serving)
    : service_(std::move(service)),
      serving_(std::move(serving)),
      started_seconds_(absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch())) {}

std::vector<prometheus::MetricFamily> ProcessMetrics::Collect() const {
  const MetricLabels labels = {{"service", service_}};
  return {
      GaugeFamily("sluice_serving", "1 while the process answers SERVING to grpc.health.v1.",
                  {{serving_() ? 1.0 : 0.0, labels}}),
      GaugeFamily("process_start_time_seconds", "When the process started, since 1970.",
                  {{started_seconds_, {}}}),
      GaugeFamily("process_resident_memory_bytes", "Memory of the process.",
                  {{ResidentBytes(), {}}}),
      GaugeFamily("process_open_fds", "Open files and sockets.",
                  {{EntriesIn("/proc/self/fd"), {}}}),
      GaugeFamily("process_threads", "Threads.", {{EntriesIn("/proc/self/task"), {}}}),
      CounterFamily("process_cpu_seconds_total", "Processor time, of user and system.",
                    {{CpuSeconds(), {}}}),
  };
}

}  // namespace sluice
