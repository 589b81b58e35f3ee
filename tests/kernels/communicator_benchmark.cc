// Time per call of each transport: microseconds a rank spends in a Broadcast, AllGather or AllToAll
// of parts of 64 B to 16 MB, for ranks that are threads or processes. Every shape is checked byte
// by byte before it is timed. Prints one table; the mean is over a run of calls without pause, so a
// Broadcast counts what the root can do ahead of its readers.
//
//   communicator_benchmark [shm|tcp|tls]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "kernels/check.h"
#include "kernels/communicator/tcp/tls_stream.h"
#include "tests/kernels/communicator_calls.h"
#include "tests/kernels/communicator_ranks.h"

namespace sluice::testing {
namespace {

constexpr std::size_t kSizes[] = {64, 1024, 16 << 10, 256 << 10, 1 << 20, 16 << 20};
constexpr int kNumSizes = std::size(kSizes);
constexpr int kNumKinds = 3;

// As many calls as keep one cell near a tenth of a second.
int CallsFor(std::size_t bytes) {
  return static_cast<int>(std::clamp<std::size_t>((64 << 20) / bytes, 4, 3000));
}

absl::Status Call(Communicator& c, CallKind kind, std::vector<std::byte>& sent,
                  std::vector<std::byte>& received, std::size_t bytes) {
  const auto all = static_cast<std::size_t>(c.size()) * bytes;
  const Deadline deadline = Deadline::Never();
  switch (kind) {
    case CallKind::kBroadcast:
      return c.Broadcast(absl::MakeSpan(received).first(bytes), 0, deadline);
    case CallKind::kAllGather:
      return c.AllGather(absl::MakeSpan(sent).first(bytes), absl::MakeSpan(received).first(all),
                         deadline);
    default:
      return c.AllToAll(absl::MakeSpan(sent).first(all), absl::MakeSpan(received).first(all),
                        deadline);
  }
}

absl::Status TimeShape(Communicator& c, CallKind kind, std::size_t bytes, double& microseconds) {
  absl::Status status = MakeCheckedCall(c, {.kind = kind, .bytes = bytes, .pattern = bytes});
  std::vector<std::byte> sent(bytes * c.size());
  std::vector<std::byte> received(bytes * c.size());
  const int calls = CallsFor(bytes);
  for (int i = 0; i < calls / 10 + 1; ++i) status.Update(Call(c, kind, sent, received, bytes));
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) status.Update(Call(c, kind, sent, received, bytes));
  const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - start;
  microseconds = spent.count() / calls;
  return status;
}

void PrintRow(const char* transport, const char* run_as, int size, const char* kind,
              const double* times) {
  std::printf("%-5s %-9s %5d  %-9s", transport, run_as, size, kind);
  for (int s = 0; s < kNumSizes; ++s) std::printf(" %9.1f", times[s]);
  std::printf("\n");
}

void MeasureGroup(Transport transport, RunAs run_as, int size) {
  const char* const names[kNumKinds] = {"Broadcast", "AllGather", "AllToAll"};
  // As a process has it.
  const Group group = {.transport = transport,
                       .run_as = run_as,
                       .size = size,
                       .slot_bytes = 256 << 10,
                       .records_per_key = RankTls().records_per_key};
  for (const absl::Status& status : RunRanks(group, [&](Communicator& c) {
         absl::Status result;
         for (int kind = 0; kind < kNumKinds; ++kind) {
           double times[kNumSizes];
           for (int s = 0; s < kNumSizes; ++s) {
             result.Update(TimeShape(c, static_cast<CallKind>(kind), kSizes[s], times[s]));
           }
           // A reader, so that a Broadcast counts until its bytes are there.
           if (c.rank() == c.size() - 1 && result.ok()) {
             PrintRow(Name(transport), run_as == RunAs::kThreads ? "threads" : "processes", size,
                      names[kind], times);
             std::fflush(stdout);
           }
         }
         return result;
       })) {
    if (!status.ok()) std::printf("failed: %s\n", status.ToString().c_str());
    SLUICE_CHECK(status.ok());
  }
}

void Measure(Transport transport) {
  for (const RunAs run_as : {RunAs::kThreads, RunAs::kProcesses}) {
    for (const int size : {1, 2, 4}) MeasureGroup(transport, run_as, size);
  }
}

}  // namespace
}  // namespace sluice::testing

int main(int argc, char** argv) {
  using sluice::testing::Transport;
  std::printf("us per call, %u cores\n%-5s %-9s %5s  %-9s %9s %9s %9s %9s %9s %9s\n",
              std::thread::hardware_concurrency(), "", "ranks as", "ranks", "call", "64 B", "1 KiB",
              "16 KiB", "256 KiB", "1 MiB", "16 MiB");
  // Flushed before the forks, lest every child print it again.
  std::fflush(stdout);
  for (const Transport transport : {Transport::kShm, Transport::kTcp, Transport::kTls}) {
    const bool is_wanted =
        argc < 2 || absl::EqualsIgnoreCase(argv[1], sluice::testing::Name(transport));
    if (is_wanted) sluice::testing::Measure(transport);
  }
  return 0;
}
