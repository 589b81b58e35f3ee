// Runs the ranks of one communicator group for a test, as threads or as forked processes.
#pragma once

#include <semaphore.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kernels/communicator.h"
#include "kernels/communicator/rendezvous_store.h"
#include "kernels/communicator/wiring_identity.h"

namespace sluice::testing {

enum class Transport { kShm, kTcp, kTls };
enum class RunAs { kThreads, kProcesses };

struct Group {
  Transport transport = Transport::kShm;
  RunAs run_as = RunAs::kThreads;
  int size = 1;
  std::size_t slot_bytes = 4096;       // shm only: small, so that most messages come in pieces
  std::uint64_t records_per_key = 50;  // TLS only: few, so that keys change all the time
  WiringIdentity wiring;
};

// What one rank does once joined. Runs in the rank's thread or process.
using RankBody = std::function<absl::Status(Communicator&)>;

// Joins all ranks, runs `body` in each, and returns what each returned; UNAVAILABLE for a process
// that ended without returning. Process mode forks, so no other thread may be running.
std::vector<absl::Status> RunRanks(const Group& group, const RankBody& body);

// "Shm", "Tcp", "Tls"
const char* Name(Transport transport);

// A name no other test or run uses.
std::string UniqueGroupName();

// Waits until rank 0 of the group `name` in shared memory waits for others.
void AwaitRankZero(const std::string& name);

// Objects in /dev/shm whose names begin so.
std::vector<std::string> SharedMemoryObjectsNamed(const std::string& prefix);

// Counts across threads and forked processes.
class SharedSemaphore {
 public:
  SharedSemaphore();
  ~SharedSemaphore();
  SharedSemaphore(const SharedSemaphore&) = delete;

  void Post();
  // False where nobody posted within `timeout`.
  bool Wait(absl::Duration timeout);

 private:
  sem_t* const semaphore_;
};

// A RendezvousStore for forked processes; made before the fork.
std::unique_ptr<RendezvousStore> MakeForkedStore();

}  // namespace sluice::testing
