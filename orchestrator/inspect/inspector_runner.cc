#include "orchestrator/inspect/inspector_runner.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/common/steady_time.h"
#include "services/process/child_process.h"

namespace sluice {
namespace {

constexpr int kLowestPriority = 19;
// How soon a caller's leaving is noticed.
constexpr int kPollMs = 50;

// A file in memory that two processes hand each other.
class MemoryFile {
 public:
  MemoryFile() : fd_(memfd_create("inspect", MFD_CLOEXEC)) {}
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// Of processes that this one has waited for. Only those that look into models are children here.
absl::Duration ProcessorTimeOfChildren() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  return absl::DurationFromTimeval(usage.ru_utime) + absl::DurationFromTimeval(usage.ru_stime);
}

// By which tenants' turns are decided: a thread of FairWork does nothing but wait for its child.
absl::Duration ThreadTime() { return FairWork::SystemThreadTime() + ProcessorTimeOfChildren(); }

bool HasEnded(const ChildProcess& child) {
  pollfd ended = {.fd = child.pidfd(), .events = POLLIN, .revents = 0};
  return poll(&ended, 1, kPollMs) > 0;
}

}  // namespace

InspectorRunner::InspectorRunner(InspectorRunnerOptions options)
    : options_(std::move(options)),
      work_({.max_running = 1,
             .max_begun = 1,
             .max_begun_per_tenant = 1,
             .max_jobs = options_.max_calls,
             .nice = kLowestPriority,
             .clock = ThreadTime}) {}

void InspectorRunner::Inspect(v1::InspectRequest request, const RequestContext& context,
                              Callback callback) {
  // Shared with the job, which may never be: the callback is called either way.
  const auto then = std::make_shared<Callback>(std::move(callback));
  const absl::Status added =
      work_.Add({.owner = context.work.owner,
                 .num_bytes = request.ByteSizeLong(),
                 .run = [this, request = std::move(request), context,
                         then](FairWork::Slice& slice) { (*then)(Run(request, context, slice)); }});
  if (!added.ok()) (*then)(added);
}

absl::StatusOr<v1::InspectResponse> InspectorRunner::Run(const v1::InspectRequest& request,
                                                         const RequestContext& context,
                                                         FairWork::Slice& slice) {
  const auto given_up = [&]() -> absl::Status {
    if (stopping_ || !slice.wanted()) return absl::UnavailableError("the service is shutting down");
    if (context.cancellation != nullptr && context.cancellation->cancelled()) {
      return absl::CancelledError("the caller left");
    }
    if (SteadyTime::Now() >= context.deadline) {
      return absl::DeadlineExceededError("looking into the model takes longer than the call may");
    }
    return absl::OkStatus();
  };
  if (absl::Status gone = given_up(); !gone.ok()) return gone;
  const MemoryFile in, out;
  if (in.fd() < 0 || out.fd() < 0 || !request.SerializeToFileDescriptor(in.fd()) ||
      lseek(in.fd(), 0, SEEK_SET) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no file in memory for the request: ", std::strerror(errno)));
  }
  const absl::Duration before = ProcessorTimeOfChildren();
  absl::StatusOr<ChildProcess> child =
      ChildProcess::Start({options_.program, "--model", options_.model, "--weights",
                           options_.weights, absl::StrCat("--rope_scaling=", options_.rope_scaling),
                           "--threads", absl::StrCat(options_.num_threads)},
                          {.in = in.fd(), .out = out.fd()});
  if (!child.ok()) return child.status();
  absl::Status ended_for;
  while (!HasEnded(*child)) {
    if (ended_for.ok()) ended_for = given_up();
    if (!ended_for.ok()) child->Signal(SIGKILL);
  }
  const std::string end = child->Reap();
  (void)context.work.Add(ProcessorTimeOfChildren() - before);  // billed; the call is bounded itself
  if (!ended_for.ok()) return ended_for;
  v1::InspectOutcome outcome;
  if (lseek(out.fd(), 0, SEEK_SET) != 0 || end != "exit status 0" ||
      !outcome.ParseFromFileDescriptor(out.fd())) {
    return absl::InternalError(
        absl::StrCat("the process that looked into the model ended with ", end));
  }
  if (outcome.code() != 0) {
    return absl::Status(static_cast<absl::StatusCode>(outcome.code()), outcome.message());
  }
  return std::move(*outcome.mutable_response());
}

}  // namespace sluice
