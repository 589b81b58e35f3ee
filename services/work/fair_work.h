// Threads that compute for tenants, so that the work of one never delays another's for long.
//
// Tenants share processor time by weight: each counts the time that its jobs took, divided by its
// weight, and a job of the tenant with the smallest count runs first. A tenant that had no job does
// not collect credit. Of one tenant's jobs the one that has run least goes first, so that a short
// job never waits for a long one. A job calls Slice::Continue between its pieces; where another job
// goes first, it waits there and keeps its thread.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/common/steady_time.h"
#include "services/watch/progress_watch.h"
#include "services/work/work_owner.h"

namespace sluice {

class FairWork {
 private:
  struct Job;

 public:
  static constexpr int kMostThreads = 256;

  struct Options {
    int max_running = 2;  // jobs that compute at a time
    // Jobs that have begun, each with a thread; the others wait, but the first of a tenant may
    // always begin, up to kMostThreads.
    int max_begun = 32;
    int max_begun_per_tenant = 8;
    // Of all of them and of a tenant's, long ones.
    int max_long_begun = 1;
    int max_long_begun_per_tenant = 1;
    absl::Duration slice = absl::Milliseconds(1);  // a job runs so long before others are looked at
    // What jobs that have not ended may be, in number and in bytes. A tenant may have as much as is
    // free beside it, so that one tenant alone has half, and another always finds room.
    int max_jobs = 4096;
    size_t max_bytes = SIZE_MAX;
    // Processor priority of the threads, as nice(1).
    int nice = 0;
    // Watches slices, not jobs: a job that calls Continue makes progress. May be null.
    ProgressWatch* progress = nullptr;
    // Processor time of the calling thread; empty: the system's clock. A slice is measured by it
    // too where it is set.
    std::function<absl::Duration()> clock;
  };

  // A job's side of the agreement. Belongs to the job's thread.
  class Slice {
   public:
    // To be called at least every fraction of a millisecond. False, at the end of a slice: the job
    // is no longer wanted, or has taken all that it may, and returns soon. Takes some tens of
    // nanoseconds while the slice lasts.
    bool Continue() { return fair_work_.Continue(job_); }
    // Whether the job has taken more than Task::max_used.
    bool over_budget() { return used() > job_.task.max_used; }
    // Whether the job was not cancelled; worth asking before it begins.
    bool wanted() { return fair_work_.IsWanted(job_); }
    // The processor time that the job has taken.
    absl::Duration used() { return fair_work_.Used(job_); }

   private:
    friend class FairWork;
    Slice(FairWork& fair_work, Job& job) : fair_work_(fair_work), job_(job) {}
    FairWork& fair_work_;
    Job& job_;
  };

  struct Task {
    WorkOwner owner;
    size_t num_bytes = 0;  // that it keeps in memory until it has run
    // Processor time that it may take; to its end it is told by Continue() alone.
    absl::Duration max_used = absl::InfiniteDuration();
    bool is_long = false;    // known to take long; see max_long_begun
    bool needs_room = true;  // false: it is taken whatever there is already
    std::function<void(Slice&)> run;
  };
  using Ticket = uint64_t;

  explicit FairWork(const Options& options);
  FairWork(const FairWork&) = delete;
  FairWork& operator=(const FairWork&) = delete;
  // Runs what waits, with Continue() false, and waits for it.
  ~FairWork();

  // RESOURCE_EXHAUSTED, naming the limit and what is used of it: the task is not run. `ticket`,
  // which may be null, is set before the task begins.
  absl::Status Add(Task task, Ticket* ticket = nullptr);

  // The job is no longer wanted: Continue() is false from its next slice on. Does nothing where it
  // has ended.
  void Cancel(Ticket ticket);

  // Processor time of the calling thread, by the system's clock.
  static absl::Duration SystemThreadTime();

  struct Statistics {
    int num_jobs = 0;  // that have not ended
    int num_begun = 0;
    size_t num_bytes = 0;
  };
  Statistics statistics() const;

 private:
  // By what a tenant's jobs are ordered: the time that they took, then size, then arrival.
  using Order = std::tuple<absl::Duration, size_t, Ticket>;
  struct Tenant {
    double weight = 1;
    double served = 0;  // seconds by weight
    int num_jobs = 0;
    int num_begun = 0;
    int num_long_begun = 0;
    size_t num_bytes = 0;
    std::set<std::pair<Order, Job*>> ready;  // that could go on or begin
  };
  struct Job {
    Ticket ticket = 0;
    Task task;
    Tenant* tenant = nullptr;
    absl::Duration used;
    bool begun = false;
    bool running = false;
    bool cancelled = false;
    absl::CondVar may_run;
    // Of the slice under way.
    SteadyTime slice_end;
    absl::Duration slice_begin_time;
    std::unique_ptr<ProgressWatch::Work> watched;
  };

  bool Continue(Job& job);
  bool IsWanted(const Job& job) const;
  absl::Duration Used(Job& job);
  absl::Duration ThreadTime() const;
  void BeginSlice(Job& job);
  // Counts what the slice has taken.
  void EndSlice(Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MakeReady(Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeReady(Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayBegin(const Job& job) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // The job that goes first; null: none can.
  Job* Best() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  Job* BestOf(const Tenant& tenant) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // Lets as many run as may.
  void Dispatch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool GoesBefore(const Job& other, const Job& running) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  absl::Status CheckRoom(const Task& task) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  Tenant& TenantOf(const WorkOwner& owner) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End(Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasBegun() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return !beginning_.empty() || (stopping_ && jobs_.empty());
  }
  void Loop();

  const Options options_;

  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::node_hash_map<std::string, Tenant> tenants_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<Tenant*> active_ ABSL_GUARDED_BY(mutex_);  // with jobs
  absl::flat_hash_set<Tenant*> ready_ ABSL_GUARDED_BY(mutex_);   // with a ready job
  absl::flat_hash_map<Ticket, std::unique_ptr<Job>> jobs_ ABSL_GUARDED_BY(mutex_);
  std::deque<Job*> beginning_ ABSL_GUARDED_BY(mutex_);  // may run, and have no thread yet
  Ticket last_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  double last_served_ ABSL_GUARDED_BY(mutex_) = 0;  // what the last active tenant had been served
  int num_running_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_begun_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_long_begun_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_idle_ ABSL_GUARDED_BY(mutex_) = 0;  // threads
  size_t num_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice
