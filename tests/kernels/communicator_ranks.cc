#include "tests/kernels/communicator_ranks.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "kernels/communicator/memory_rendezvous_store.h"
#include "kernels/communicator/shm_communicator.h"
#include "kernels/communicator/tcp/tcp_communicator.h"
#include "tests/kernels/rank_certificates.h"

namespace sluice::testing {
namespace {

constexpr absl::Duration kJoinTimeout = absl::Seconds(30);

void* MapShared(std::size_t bytes) {
  void* const base =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  SLUICE_CHECK(base != MAP_FAILED);
  return base;
}

class ForkedStore final : public RendezvousStore {
 public:
  ForkedStore() : state_(new (MapShared(sizeof(State))) State) {
    pthread_mutexattr_t mutex_attributes;
    pthread_mutexattr_init(&mutex_attributes);
    pthread_mutexattr_setpshared(&mutex_attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&state_->mutex, &mutex_attributes);
    pthread_condattr_t changed_attributes;
    pthread_condattr_init(&changed_attributes);
    pthread_condattr_setpshared(&changed_attributes, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&state_->changed, &changed_attributes);
  }
  ~ForkedStore() override { munmap(state_, sizeof(State)); }

  absl::Status Set(const std::string& key, std::string bytes) override {
    pthread_mutex_lock(&state_->mutex);
    Entry& entry = state_->entries[state_->count++];
    SLUICE_CHECK(key.size() < entry.key.size() && bytes.size() <= entry.value.size());
    std::memcpy(entry.key.data(), key.c_str(), key.size() + 1);
    std::memcpy(entry.value.data(), bytes.data(), bytes.size());
    entry.bytes = bytes.size();
    pthread_cond_broadcast(&state_->changed);
    pthread_mutex_unlock(&state_->mutex);
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Get(const std::string& key, Deadline deadline,
                                  const std::stop_token& /*stop*/) override {
    const timespec until = absl::ToTimespec(absl::Now() + deadline.Left());
    pthread_mutex_lock(&state_->mutex);
    const Entry* entry = Find(key);
    while (entry == nullptr) {
      const int error = pthread_cond_timedwait(&state_->changed, &state_->mutex, &until);
      entry = Find(key);
      if (error == ETIMEDOUT) break;
    }
    pthread_mutex_unlock(&state_->mutex);
    if (entry == nullptr) return absl::DeadlineExceededError(key);
    return std::string(entry->value.data(), entry->bytes);
  }

 private:
  struct Entry {
    std::array<char, 256> key;
    std::array<char, 4096> value;
    std::size_t bytes;
  };
  struct State {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    std::size_t count = 0;
    std::array<Entry, 32> entries;
  };

  const Entry* Find(const std::string& key) const {
    for (std::size_t i = 0; i < state_->count; ++i) {
      if (key == state_->entries[i].key.data()) return &state_->entries[i];
    }
    return nullptr;
  }

  State* const state_;
};

absl::StatusOr<std::unique_ptr<Communicator>> Join(const Group& group, const std::string& name,
                                                   int rank, RendezvousStore& store) {
  const Deadline deadline = Deadline::After(kJoinTimeout);
  if (group.transport == Transport::kShm) {
    return JoinShm({.name = name,
                    .wiring = group.wiring,
                    .rank = rank,
                    .size = group.size,
                    .slot_bytes = group.slot_bytes},
                   deadline);
  }
  TcpOptions options = {.group = name, .wiring = group.wiring, .rank = rank, .size = group.size};
  if (group.transport == Transport::kTls) {
    options.tls = RankCertificates::Shared().Right();
    options.tls->records_per_key = group.records_per_key;
  }
  return JoinTcp(options, store, deadline);
}

absl::Status RunRank(const Group& group, const std::string& name, int rank, RendezvousStore& store,
                     const RankBody& body) {
  const absl::StatusOr<std::unique_ptr<Communicator>> communicator = Join(group, name, rank, store);
  return communicator.ok() ? body(**communicator) : communicator.status();
}

std::vector<absl::Status> RunThreads(const Group& group, const RankBody& body) {
  const std::string name = UniqueGroupName();
  MemoryRendezvousStore store;
  std::vector<absl::Status> statuses(group.size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < group.size; ++rank) {
    threads.emplace_back([&, rank] { statuses[rank] = RunRank(group, name, rank, store, body); });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

// A child reports "<code> <message>" through its pipe.
[[noreturn]] void ReportAndExit(int fd, const absl::Status& status) {
  const std::string report = absl::StrCat(static_cast<int>(status.code()), " ", status.message());
  const bool written = write(fd, report.data(), report.size()) >= 0;
  _exit(written ? 0 : 1);
}

absl::Status ReadReport(int fd, pid_t child) {
  std::string report;
  char buffer[4096];
  for (ssize_t n; (n = read(fd, buffer, sizeof(buffer))) > 0;) report.append(buffer, n);
  close(fd);
  int wait_status = 0;
  waitpid(child, &wait_status, 0);
  const std::size_t blank = report.find(' ');
  if (blank == std::string::npos) {
    return absl::UnavailableError(absl::StrCat("process ended with wait status ", wait_status));
  }
  return absl::Status(static_cast<absl::StatusCode>(std::stoi(report.substr(0, blank))),
                      report.substr(blank + 1));
}

std::vector<absl::Status> RunProcesses(const Group& group, const RankBody& body) {
  const std::string name = UniqueGroupName();
  const std::unique_ptr<RendezvousStore> store = MakeForkedStore();
  std::vector<pid_t> children;
  std::vector<int> reports;
  for (int rank = 0; rank < group.size; ++rank) {
    int ends[2];
    SLUICE_CHECK(pipe(ends) == 0);
    const pid_t child = fork();
    SLUICE_CHECK(child >= 0);
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      ReportAndExit(ends[1], RunRank(group, name, rank, *store, body));
    }
    close(ends[1]);
    children.push_back(child);
    reports.push_back(ends[0]);
  }
  std::vector<absl::Status> statuses;
  for (int rank = 0; rank < group.size; ++rank) {
    statuses.push_back(ReadReport(reports[rank], children[rank]));
  }
  return statuses;
}

}  // namespace

std::vector<absl::Status> RunRanks(const Group& group, const RankBody& body) {
  // Made before any rank is, in this process.
  if (group.transport == Transport::kTls) RankCertificates::Shared();
  return group.run_as == RunAs::kThreads ? RunThreads(group, body) : RunProcesses(group, body);
}

const char* Name(Transport transport) {
  switch (transport) {
    case Transport::kShm:
      return "Shm";
    case Transport::kTcp:
      return "Tcp";
    case Transport::kTls:
      return "Tls";
  }
  return "";
}

std::string UniqueGroupName() {
  static std::atomic<int> next{0};
  return absl::StrCat("sluice-test-", getpid(), "-", next++);
}

// The kernel lists the sockets of the abstract namespace with '@' for their first byte.
void AwaitRankZero(const std::string& name) {
  const std::string listed = absl::StrCat("@", name);
  while (true) {
    std::ifstream sockets("/proc/net/unix");
    for (std::string line; std::getline(sockets, line);) {
      if (absl::EndsWith(line, listed)) return;
    }
    std::this_thread::yield();
  }
}

std::vector<std::string> SharedMemoryObjectsNamed(const std::string& prefix) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename();
    if (absl::StartsWith(name, prefix)) names.push_back(name);
  }
  return names;
}

SharedSemaphore::SharedSemaphore() : semaphore_(static_cast<sem_t*>(MapShared(sizeof(sem_t)))) {
  sem_init(semaphore_, 1, 0);
}
SharedSemaphore::~SharedSemaphore() { munmap(semaphore_, sizeof(sem_t)); }
void SharedSemaphore::Post() { sem_post(semaphore_); }
bool SharedSemaphore::Wait(absl::Duration timeout) {
  const timespec until = absl::ToTimespec(absl::Now() + timeout);
  while (sem_timedwait(semaphore_, &until) != 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

std::unique_ptr<RendezvousStore> MakeForkedStore() { return std::make_unique<ForkedStore>(); }

}  // namespace sluice::testing
