#include "kernels/communicator/gloo_communicator.h"

#include <arpa/inet.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/check.h"
#include "kernels/communicator/gloo_mesh.h"
#include "kernels/communicator/sigpipe_guard.h"

namespace sluice {
namespace {

using gloo::transport::UnboundBuffer;

// Stands for an infinite deadline. Gloo adds timeouts to a clock, where the largest would overflow.
constexpr absl::Duration kMaxTimeout = absl::Hours(24 * 365);

std::chrono::milliseconds TimeoutUntil(Deadline deadline) {
  const absl::Duration left = std::min(deadline.Left(), kMaxTimeout);
  // Rounded up, so that what Gloo reports as too late is too late by our clock as well.
  return absl::ToChronoMilliseconds(
      absl::Ceil(std::max(left, absl::ZeroDuration()), absl::Milliseconds(1)));
}

class GlooCommunicator final : public Communicator {
 public:
  GlooCommunicator(GlooMesh mesh, std::string group)
      : mesh_(std::move(mesh)), group_(std::move(group)) {}

  int rank() const override { return mesh_.context->rank; }
  int size() const override { return mesh_.context->size; }
  absl::Status Broadcast(absl::Span<std::byte> data, int root, Deadline deadline) override;
  absl::Status AllGather(absl::Span<const std::byte> sent, absl::Span<std::byte> received,
                         Deadline deadline) override;
  absl::Status AllToAll(absl::Span<const std::byte> sent, absl::Span<std::byte> received,
                        Deadline deadline) override;
  void Abort(absl::Status reason) override;

 private:
  // The transfers of one call. Destroying it waits until the I/O thread lets go of their memory.
  class Call;

  // Runs the transfers that `start` posts. `name` is the operation's, for messages.
  absl::Status Run(absl::string_view name, Deadline deadline, absl::FunctionRef<void(Call&)> start);
  absl::Status Failure();
  absl::Status Fail(const absl::Status& status);

  const GlooMesh mesh_;
  const std::string group_;
  // Counts the calls, and so is the same on all ranks: tags a call's transfers. Rank's thread only.
  std::uint64_t next_tag_ = 0;

  std::mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  Call* current_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

// Driven by the rank's thread; its list of transfers changes only under the communicator's mutex,
// under which Abort reads it.
class GlooCommunicator::Call {
 public:
  Call(GlooCommunicator& communicator, std::uint64_t tag)
      : communicator_(communicator), tag_(tag) {}
  Call(const Call&) = delete;
  ~Call() {
    const std::lock_guard<std::mutex> lock(communicator_.mutex_);
    communicator_.current_ = nullptr;
  }

  void Send(int peer, absl::Span<const std::byte> bytes) {
    // Gloo only reads from a buffer that it sends.
    Add(peer, true, const_cast<std::byte*>(bytes.data()), bytes.size()).send(peer, tag_);
  }
  void Receive(int peer, absl::Span<std::byte> bytes) {
    Add(peer, false, bytes.data(), bytes.size()).recv(peer, tag_);
  }

  // The peer it is at, for messages; -1 before the first.
  int peer() const { return peer_; }

  // False where Interrupt() ended it; throws what Gloo throws.
  bool Wait(Deadline deadline) {
    for (const Transfer& transfer : transfers_) {
      peer_ = transfer.peer;
      const std::chrono::milliseconds timeout = TimeoutUntil(deadline);
      const bool completed = transfer.sends ? transfer.buffer->waitSend(nullptr, timeout)
                                            : transfer.buffer->waitRecv(nullptr, timeout);
      if (!completed) return false;
    }
    return true;
  }

  // Ends the wait for every transfer, also if that wait has not begun. Mutex held.
  void Interrupt() {
    for (const Transfer& transfer : transfers_) {
      transfer.sends ? transfer.buffer->abortWaitSend() : transfer.buffer->abortWaitRecv();
    }
  }

 private:
  struct Transfer {
    int peer;
    bool sends;
    std::unique_ptr<UnboundBuffer> buffer;
  };

  UnboundBuffer& Add(int peer, bool sends, std::byte* data, std::size_t bytes) {
    peer_ = peer;
    auto buffer = communicator_.mesh_.context->createUnboundBuffer(data, bytes);
    UnboundBuffer& added = *buffer;
    const std::lock_guard<std::mutex> lock(communicator_.mutex_);
    transfers_.push_back({peer, sends, std::move(buffer)});
    // An Abort that came while the transfers were being posted missed this one.
    if (!communicator_.failure_.ok()) Interrupt();
    return added;
  }

  GlooCommunicator& communicator_;
  const std::uint64_t tag_;
  std::vector<Transfer> transfers_;
  int peer_ = -1;
};

absl::Status GlooCommunicator::Failure() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

absl::Status GlooCommunicator::Run(absl::string_view name, Deadline deadline,
                                   absl::FunctionRef<void(Call&)> start) {
  const SigpipeGuard guard;
  Call call(*this, next_tag_++);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!failure_.ok()) return failure_;
    current_ = &call;
  }
  std::string error;
  try {
    start(call);
    if (call.Wait(deadline)) return absl::OkStatus();
    error = "aborted";
  } catch (const std::exception& exception) {
    error = exception.what();
  }
  const std::string message =
      absl::StrCat("rank ", rank(), " of ", size(), " in '", group_, "', ", name, ": ",
                   deadline.HasPassed() ? "no answer in time from rank " : "lost rank ",
                   call.peer(), ": ", error);
  return Fail(deadline.HasPassed() ? absl::DeadlineExceededError(message)
                                   : absl::UnavailableError(message));
}

// Closing a pair makes the peer's end fail. Gloo allows it from any thread; done without the mutex
// all the same, since it waits for the I/O thread to finish a round.
absl::Status GlooCommunicator::Fail(const absl::Status& status) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!failure_.ok()) return failure_;
    failure_ = status;
    if (current_ != nullptr) current_->Interrupt();
  }
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank()) mesh_.context->getPair(peer)->close();
  }
  return status;
}

void GlooCommunicator::Abort(absl::Status reason) {
  SLUICE_CHECK(!reason.ok());
  Fail(reason).IgnoreError();
}

absl::Status GlooCommunicator::Broadcast(absl::Span<std::byte> data, int root, Deadline deadline) {
  SLUICE_CHECK(root >= 0 && root < size());
  if (size() == 1 || data.empty()) return Failure();
  return Run(absl::StrCat("Broadcast of ", data.size(), " bytes from rank ", root), deadline,
             [&](Call& call) {
               if (rank() != root) return call.Receive(root, data);
               for (int peer = 0; peer < size(); ++peer) {
                 if (peer != root) call.Send(peer, data);
               }
             });
}

absl::Status GlooCommunicator::AllGather(absl::Span<const std::byte> sent,
                                         absl::Span<std::byte> received, Deadline deadline) {
  SLUICE_CHECK(received.size() == sent.size() * size());
  if (sent.empty()) return Failure();
  const std::size_t bytes = sent.size();
  return Run(absl::StrCat("AllGather of ", bytes, " bytes"), deadline, [&](Call& call) {
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != rank()) call.Receive(peer, received.subspan(bytes * peer, bytes));
    }
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != rank()) call.Send(peer, sent);
    }
    std::memcpy(received.data() + bytes * rank(), sent.data(), bytes);
  });
}

absl::Status GlooCommunicator::AllToAll(absl::Span<const std::byte> sent,
                                        absl::Span<std::byte> received, Deadline deadline) {
  SLUICE_CHECK(received.size() == sent.size() && sent.size() % size() == 0);
  if (sent.empty()) return Failure();
  const std::size_t part = sent.size() / size();
  return Run(absl::StrCat("AllToAll of ", sent.size(), " bytes"), deadline, [&](Call& call) {
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != rank()) call.Receive(peer, received.subspan(part * peer, part));
    }
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != rank()) call.Send(peer, sent.subspan(part * peer, part));
    }
    std::memcpy(received.data() + part * rank(), sent.data() + part * rank(), part);
  });
}

bool IsLoopback(const GlooOptions& options) {
  if (!options.interface.empty()) return options.interface == "lo";
  in_addr v4;
  if (inet_pton(AF_INET, options.bind_address.c_str(), &v4) == 1) {
    return ntohl(v4.s_addr) >> 24 == 127;
  }
  return options.bind_address == "::1";
}

bool IsNumericAddress(const std::string& address) {
  in6_addr any;
  return inet_pton(AF_INET, address.c_str(), &any) == 1 ||
         inet_pton(AF_INET6, address.c_str(), &any) == 1;
}

absl::Status Validate(const GlooOptions& options) {
  if (options.group.empty()) {
    return absl::InvalidArgumentError("the communicator's group name is empty");
  }
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", options.rank, " of communicator '",
                                                   options.group, "' is not in 0 to ",
                                                   options.size - 1));
  }
  if (options.interface.empty() && !IsNumericAddress(options.bind_address)) {
    return absl::InvalidArgumentError(absl::StrCat("bind_address '", options.bind_address,
                                                   "' is not a numeric IPv4 or IPv6 address"));
  }
  if (!options.trusted_network && !IsLoopback(options)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "communicator '", options.group, "' would exchange unencrypted bytes at ",
        options.interface.empty() ? options.bind_address : options.interface,
        ": bind to loopback, or set trusted_network where only the ranks can reach it"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> JoinGloo(const GlooOptions& options,
                                                       RendezvousStore& store, Deadline deadline) {
  if (absl::Status valid = Validate(options); !valid.ok()) return valid;
  absl::StatusOr<GlooMesh> mesh = ConnectGlooMesh(options, store, deadline);
  if (!mesh.ok()) {
    return absl::Status(mesh.status().code(),
                        absl::StrCat("rank ", options.rank, " of ", options.size, " in '",
                                     options.group, "', joining: ", mesh.status().message()));
  }
  return std::make_unique<GlooCommunicator>(*std::move(mesh), options.group);
}

}  // namespace sluice
