#include "services/work/fair_work.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

// Tenants without jobs that are remembered, so that leaving and coming back gains nothing.
constexpr size_t kMaxRemembered = 10'000;

absl::Status NoRoom(const char* what, size_t used, size_t asked, size_t free, size_t most) {
  return absl::ResourceExhaustedError(
      absl::StrCat("work that waits: the tenant has ", used, " ", what, " and asks for ", asked,
                   " more; accepted: as many as are free, now ", free, " of ", most));
}

}  // namespace

absl::Duration FairWork::SystemThreadTime() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return absl::DurationFromTimespec(time);
}

FairWork::FairWork(const Options& options) : options_(options) {}

FairWork::~FairWork() {
  std::vector<std::thread> threads;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    for (auto& [ticket, job] : jobs_) job->cancelled = true;
    Dispatch();
    const auto is_idle = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return jobs_.empty(); };
    mutex_.Await(absl::Condition(&is_idle));
    threads = std::move(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

// ---- Asking ----

FairWork::Tenant& FairWork::TenantOf(const WorkOwner& owner) {
  double least = last_served_;
  if (!active_.empty()) {
    least = (*std::min_element(active_.begin(), active_.end(), [](auto* a, auto* b) {
              return a->served < b->served;
            }))->served;
  }
  if (tenants_.size() >= kMaxRemembered && !tenants_.contains(owner.tenant)) {
    absl::erase_if(tenants_, [least](const auto& entry) {
      return entry.second.num_jobs == 0 && entry.second.served <= least;
    });
  }
  Tenant& tenant = tenants_[owner.tenant];
  if (owner.weight > 0) tenant.weight = owner.weight;
  if (tenant.num_jobs == 0) tenant.served = std::max(tenant.served, least);
  active_.insert(&tenant);
  return tenant;
}

absl::Status FairWork::CheckRoom(const Task& task) const {
  const auto found = tenants_.find(task.owner.tenant);
  const size_t num_jobs = found == tenants_.end() ? 0 : found->second.num_jobs;
  const size_t num_bytes = found == tenants_.end() ? 0 : found->second.num_bytes;
  const auto most_jobs = static_cast<size_t>(options_.max_jobs);
  const size_t free_jobs = most_jobs - std::min(most_jobs, jobs_.size());
  if (num_jobs + 1 > free_jobs) return NoRoom("jobs", num_jobs, 1, free_jobs, most_jobs);
  const size_t free_bytes = options_.max_bytes - std::min(options_.max_bytes, num_bytes_);
  if (task.num_bytes > 0 && num_bytes + task.num_bytes > free_bytes) {
    return NoRoom("bytes", num_bytes, task.num_bytes, free_bytes, options_.max_bytes);
  }
  return absl::OkStatus();
}

absl::Status FairWork::Add(Task task, Ticket* ticket) {
  absl::MutexLock lock(&mutex_);
  if (stopping_) return absl::UnavailableError("the service is shutting down");
  if (task.needs_room) {
    if (absl::Status room = CheckRoom(task); !room.ok()) return room;
  }
  auto made = std::make_unique<Job>();
  Job& job = *made;
  job.ticket = ++last_ticket_;
  if (ticket != nullptr) *ticket = job.ticket;
  Tenant& tenant = TenantOf(task.owner);
  job.task = std::move(task);
  job.tenant = &tenant;
  ++tenant.num_jobs;
  tenant.num_bytes += job.task.num_bytes;
  num_bytes_ += job.task.num_bytes;
  jobs_.emplace(job.ticket, std::move(made));
  MakeReady(job);
  Dispatch();
  return absl::OkStatus();
}

void FairWork::Cancel(Ticket ticket) {
  absl::MutexLock lock(&mutex_);
  const auto found = jobs_.find(ticket);
  if (found == jobs_.end()) return;
  found->second->cancelled = true;
  Dispatch();
}

FairWork::Statistics FairWork::statistics() const {
  absl::MutexLock lock(&mutex_);
  return {
      .num_jobs = static_cast<int>(jobs_.size()), .num_begun = num_begun_, .num_bytes = num_bytes_};
}

// ---- Whose turn it is ----

void FairWork::MakeReady(Job& job) {
  job.tenant->ready.insert({Order(job.used, job.task.num_bytes, job.ticket), &job});
  ready_.insert(job.tenant);
}

void FairWork::TakeReady(Job& job) {
  job.tenant->ready.erase({Order(job.used, job.task.num_bytes, job.ticket), &job});
  if (job.tenant->ready.empty()) ready_.erase(job.tenant);
}

bool FairWork::MayBegin(const Job& job) const {
  if (job.begun) return true;
  const bool is_first = job.tenant->num_begun == 0;
  if (num_begun_ >= (is_first ? kMostThreads : options_.max_begun)) return false;
  if (job.cancelled) return true;
  if (job.task.is_long && (num_long_begun_ >= options_.max_long_begun ||
                           job.tenant->num_long_begun >= options_.max_long_begun_per_tenant)) {
    return false;
  }
  return job.tenant->num_begun < options_.max_begun_per_tenant;
}

FairWork::Job* FairWork::BestOf(const Tenant& tenant) const {
  for (const auto& [order, job] : tenant.ready) {
    if (MayBegin(*job)) return job;
  }
  return nullptr;
}

FairWork::Job* FairWork::Best() const {
  Job* best = nullptr;
  for (const Tenant* tenant : ready_) {
    if (best != nullptr && best->tenant->served < tenant->served) continue;
    Job* const job = BestOf(*tenant);
    if (job == nullptr) continue;
    const bool is_tie = best != nullptr && best->tenant->served == tenant->served;
    if (!is_tie || job->ticket < best->ticket) best = job;
  }
  return best;
}

void FairWork::Dispatch() {
  while (num_running_ < options_.max_running) {
    Job* const job = Best();
    if (job == nullptr) return;
    TakeReady(*job);
    job->running = true;
    ++num_running_;
    if (job->begun) {
      job->may_run.Signal();
      continue;
    }
    job->begun = true;
    ++num_begun_;
    ++job->tenant->num_begun;
    num_long_begun_ += job->task.is_long ? 1 : 0;
    job->tenant->num_long_begun += job->task.is_long ? 1 : 0;
    beginning_.push_back(job);
    if (std::ssize(beginning_) > num_idle_) threads_.emplace_back([this] { Loop(); });
  }
}

bool FairWork::GoesBefore(const Job& other, const Job& running) const {
  if (other.tenant != running.tenant) return other.tenant->served < running.tenant->served;
  return other.used < running.used;
}

// ---- Running ----

absl::Duration FairWork::ThreadTime() const {
  return options_.clock != nullptr ? options_.clock() : SystemThreadTime();
}

void FairWork::BeginSlice(Job& job) {
  job.slice_begin_time = ThreadTime();
  job.slice_end = SteadyTime::Now() + options_.slice;
  job.watched = std::make_unique<ProgressWatch::Work>(options_.progress, "work");
}

void FairWork::EndSlice(Job& job) {
  job.watched = nullptr;
  const absl::Duration took = std::max(ThreadTime() - job.slice_begin_time, absl::Nanoseconds(1));
  job.used += took;
  job.tenant->served += absl::ToDoubleSeconds(took) / job.tenant->weight;
}

bool FairWork::Continue(Job& job) {
  const bool lasts = options_.clock != nullptr
                         ? options_.clock() - job.slice_begin_time < options_.slice
                         : SteadyTime::Now() < job.slice_end;
  if (lasts) return true;
  {
    absl::MutexLock lock(&mutex_);
    EndSlice(job);
    const Job* const best = Best();
    const auto ends = [&job] { return job.cancelled || job.used > job.task.max_used; };
    if (!ends() && best != nullptr && GoesBefore(*best, job)) {
      job.running = false;
      --num_running_;
      MakeReady(job);
      Dispatch();
      while (!job.running) job.may_run.Wait(&mutex_);
    }
    if (ends()) {
      BeginSlice(job);
      return false;
    }
  }
  BeginSlice(job);
  return true;
}

bool FairWork::IsWanted(const Job& job) const {
  absl::MutexLock lock(&mutex_);
  return !job.cancelled;
}

absl::Duration FairWork::Used(Job& job) { return job.used + (ThreadTime() - job.slice_begin_time); }

void FairWork::End(Job& job) {
  Tenant& tenant = *job.tenant;
  if (--tenant.num_jobs == 0) {
    active_.erase(&tenant);
    last_served_ = std::max(last_served_, tenant.served);
  }
  --tenant.num_begun;
  tenant.num_bytes -= job.task.num_bytes;
  num_bytes_ -= job.task.num_bytes;
  --num_running_;
  --num_begun_;
  num_long_begun_ -= job.task.is_long ? 1 : 0;
  tenant.num_long_begun -= job.task.is_long ? 1 : 0;
  jobs_.erase(job.ticket);
}

void FairWork::Loop() {
  if (options_.nice != 0) {
    setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), options_.nice);
  }
  absl::MutexLock lock(&mutex_);
  while (true) {
    ++num_idle_;
    mutex_.Await(absl::Condition(this, &FairWork::HasBegun));
    --num_idle_;
    if (beginning_.empty()) return;
    Job& job = *beginning_.front();
    beginning_.pop_front();
    mutex_.Unlock();
    BeginSlice(job);
    Slice slice(*this, job);
    job.task.run(slice);
    job.task.run = nullptr;  // what it holds goes before the tenant's bytes are given back
    mutex_.Lock();
    EndSlice(job);
    End(job);
    Dispatch();
  }
}

}  // namespace sluice
