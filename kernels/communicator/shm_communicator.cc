#include "kernels/communicator/shm_communicator.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "kernels/communicator/collective_call.h"
#include "kernels/communicator/file_handover.h"
#include "kernels/communicator/peer_communicator.h"
#include "kernels/communicator/shm_segment.h"
#include "kernels/communicator/shm_stream.h"
#include "kernels/communicator/shm_waiter.h"

namespace sluice {
namespace {

constexpr std::size_t kMinSlotBytes = std::size_t{4} << 10;
constexpr std::size_t kMaxSlotBytes = std::size_t{1} << 30;
constexpr std::size_t kMaxNameLength = HandoverSpec::kMaxNameBytes;

std::string Describe(const ShmMessageHeader& header) {
  return DescribeCollective(header.operation, header.root, header.bytes);
}

class ShmCommunicator final : public PeerCommunicator {
 public:
  ShmCommunicator(std::shared_ptr<ShmSegment> segment, const ShmOptions& options);
  ~ShmCommunicator() override;

  // Says in the memory that this rank is there.
  void Announce();
  // Hands the memory to the other ranks; rank 0 alone.
  absl::Status HandOver(FileHandover& handover, Deadline deadline, const std::stop_token& stop);
  // Waits until all are there.
  absl::Status AwaitRanks(Deadline deadline);

  absl::Status Check() override;

 private:
  absl::Status BroadcastAmongPeers(absl::Span<std::byte> data, int root,
                                   Deadline deadline) override;
  absl::Status GatherFromPeers(absl::Span<const std::byte> sent, absl::Span<std::byte> received,
                               Deadline deadline) override;
  absl::Status ExchangeWithPeers(absl::Span<const std::byte> sent, absl::Span<std::byte> received,
                                 Deadline deadline) override;
  void LeavePeers(const absl::Status& status) override;
  // That of the group as well.
  absl::Status Failure() override;

  // Runs the streams that were started until all are done.
  absl::Status Complete(const ShmMessageHeader& call, Deadline deadline);
  bool Advance();
  bool Done() const;
  bool Awaits(int peer) const;
  std::uint32_t NewsToWakeFor(const ShmMessageHeader& call) const;
  // Not OK where a peer makes another call, or has written what cannot be.
  absl::Status PeersFault() const;

  const std::shared_ptr<ShmSegment> segment_;

  // The rank's thread alone.
  ShmWaiter waiter_;
  ShmSender sender_;
  std::vector<ShmReceiver> receivers_;  // by writer; this rank's own is never started
};

ShmCommunicator::ShmCommunicator(std::shared_ptr<ShmSegment> segment, const ShmOptions& options)
    : PeerCommunicator(options.name, options.wiring, options.rank, options.size),
      segment_(std::move(segment)),
      waiter_(*segment_, options.rank),
      sender_(*segment_, options.rank) {
  for (int writer = 0; writer < size(); ++writer) {
    receivers_.emplace_back(*segment_, writer, options.rank);
  }
}

ShmCommunicator::~ShmCommunicator() {
  segment_->rank(rank()).state.Store(kRankLeft);
  segment_->WakeAll();
}

void ShmCommunicator::Announce() {
  segment_->rank(rank()).process = ThisProcess();
  segment_->rank(rank()).state.Store(kRankJoined);
  segment_->WakeAll();
}

absl::Status ShmCommunicator::HandOver(FileHandover& handover, Deadline deadline,
                                       const std::stop_token& stop) {
  const absl::Status served = handover.Serve(deadline, stop, [this] { return waiter_.CheckAll(); });
  if (!served.ok()) Abort(served);
  return served;
}

absl::Status ShmCommunicator::AwaitRanks(Deadline deadline) {
  const auto present = [this](int peer) {
    return segment_->rank(peer).state.Load() >= kRankJoined;
  };
  const auto all_present = [&] {
    for (int peer = 0; peer < size(); ++peer) {
      if (!present(peer)) return false;
    }
    return true;
  };
  const auto absent = [&](int peer) { return peer != rank() && !present(peer); };
  // One that is here already is needed too: the group can't start without it.
  const auto other = [this](int peer) { return peer != rank(); };
  const absl::Status joined = waiter_.Await({.advance = all_present,
                                             .needs = other,
                                             .awaits = absent,
                                             .parked = kAwaitsAny,
                                             .deadline = deadline});
  return joined.ok() ? joined : Fail(WithContext(joined, "joining"));
}

absl::Status ShmCommunicator::Failure() {
  if (segment_->given_up_by().Load() == 0) return absl::OkStatus();
  return Fail(WithContext(waiter_.GroupFailure(), "before a call"));
}

void ShmCommunicator::LeavePeers(const absl::Status& status) {
  // The reason is in place before the group can read it, and is written once.
  ShmRank& self = segment_->rank(rank());
  const std::string reason = status.ToString();
  const std::size_t length = std::min(reason.size(), sizeof(self.give_up_reason) - 1);
  std::memcpy(self.give_up_reason, reason.data(), length);
  segment_->given_up_by().CompareExchange(0, static_cast<std::uint32_t>(rank()) + 1);
  segment_->WakeAll();
}

absl::Status ShmCommunicator::Check() {
  if (absl::Status failure = Failure(); !failure.ok()) return failure;
  const absl::Status peers = waiter_.CheckAll();
  return peers.ok() ? peers : Fail(WithContext(peers, "between calls"));
}

absl::Status ShmCommunicator::BroadcastAmongPeers(absl::Span<std::byte> data, int root,
                                                  Deadline deadline) {
  const ShmMessageHeader call{kBroadcast, static_cast<std::uint32_t>(root), data.size()};
  if (root == rank()) {
    sender_.Start(call, data, {});
  } else {
    receivers_[root].Start(call, 0, data);
  }
  return Complete(call, deadline);
}

absl::Status ShmCommunicator::GatherFromPeers(absl::Span<const std::byte> sent,
                                              absl::Span<std::byte> received, Deadline deadline) {
  const std::size_t bytes = sent.size();
  const ShmMessageHeader call{kAllGather, 0, bytes};
  sender_.Start(call, sent, {});
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank()) receivers_[peer].Start(call, 0, received.subspan(bytes * peer, bytes));
  }
  return Complete(call, deadline);
}

// A rank's message holds its parts for all others, in order of rank; each takes its own part.
absl::Status ShmCommunicator::ExchangeWithPeers(absl::Span<const std::byte> sent,
                                                absl::Span<std::byte> received, Deadline deadline) {
  const std::size_t part = sent.size() / size();
  const ShmMessageHeader call{kAllToAll, 0, sent.size() - part};
  sender_.Start(call, sent.first(part * rank()), sent.subspan(part * (rank() + 1)));
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    const int parts_before = rank() < peer ? rank() : rank() - 1;
    receivers_[peer].Start(call, part * parts_before, received.subspan(part * peer, part));
  }
  return Complete(call, deadline);
}

absl::Status ShmCommunicator::Complete(const ShmMessageHeader& call, Deadline deadline) {
  while (true) {
    while (Advance()) {
    }
    if (absl::Status fault = PeersFault(); !fault.ok()) {
      return Fail(WithContext(fault, Describe(call)));
    }
    if (Done()) return absl::OkStatus();
    const auto advance = [this] { return Advance(); };
    const auto awaits = [this](int peer) { return Awaits(peer); };
    const absl::Status waited = waiter_.Await({.advance = advance,
                                               .needs = awaits,
                                               .awaits = awaits,
                                               .parked = NewsToWakeFor(call),
                                               .deadline = deadline});
    if (!waited.ok()) return Fail(WithContext(waited, Describe(call)));
  }
}

bool ShmCommunicator::Advance() {
  bool advanced = sender_.Advance();
  for (ShmReceiver& receiver : receivers_) advanced |= receiver.Advance();
  return advanced;
}

bool ShmCommunicator::Done() const {
  return sender_.done() && std::all_of(receivers_.begin(), receivers_.end(),
                                       [](const ShmReceiver& r) { return r.done(); });
}

bool ShmCommunicator::Awaits(int peer) const {
  return !receivers_[peer].done() || sender_.WaitsFor(peer);
}

// In a crowd of sleepers, waking for each peer's bytes in turn would cost a switch of threads for
// each. Bytes of all awaited peers are needed, so sleeping until those of one of them come is
// enough, as long as nobody can meanwhile wait for this rank: what it sends is sent, and it need
// not make room for a peer, because all of a peer's message fits in the slot at once.
std::uint32_t ShmCommunicator::NewsToWakeFor(const ShmMessageHeader& call) const {
  if (!sender_.done() || ShmMessageBytes(call.bytes) > segment_->slot_bytes()) return kAwaitsAny;
  for (int peer = size() - 1; peer >= 0; --peer) {
    if (!receivers_[peer].done()) return static_cast<std::uint32_t>(peer) + 1;
  }
  return kAwaitsAny;
}

absl::Status ShmCommunicator::PeersFault() const {
  const auto damaged = [](int peer) {
    return absl::InternalError(
        absl::StrCat("shared memory is damaged: rank ", peer, " counts what cannot be"));
  };
  if (sender_.damaged_reader() >= 0) return damaged(sender_.damaged_reader());
  for (int peer = 0; peer < size(); ++peer) {
    if (receivers_[peer].damaged()) return damaged(peer);
    if (!receivers_[peer].mismatched()) continue;
    return absl::InternalError(absl::StrCat("rank ", peer, " makes a different call, ",
                                            Describe(receivers_[peer].received_header())));
  }
  return absl::OkStatus();
}

absl::Status Validate(const ShmOptions& options) {
  const auto allowed = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
  };
  if (options.name.empty() || options.name.size() > kMaxNameLength ||
      !std::all_of(options.name.begin(), options.name.end(), allowed)) {
    return absl::InvalidArgumentError(absl::StrCat("communicator name '", options.name,
                                                   "' is not 1 to ", kMaxNameLength,
                                                   " of [A-Za-z0-9._-]"));
  }
  if (options.size < 1 || options.size > kMaxShmRanks) {
    return absl::InvalidArgumentError(absl::StrCat("size ", options.size, " of communicator '",
                                                   options.name, "' is not in 1 to ",
                                                   kMaxShmRanks));
  }
  if (options.rank < 0 || options.rank >= options.size) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", options.rank, " of communicator '",
                                                   options.name, "' is not in 0 to ",
                                                   options.size - 1));
  }
  if (options.slot_bytes < kMinSlotBytes || options.slot_bytes > kMaxSlotBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("slot_bytes ", options.slot_bytes, " of communicator '", options.name,
                     "' is not in ", kMinSlotBytes, " to ", kMaxSlotBytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<ShmSegment>> TakeSegment(const HandoverSpec& spec, ShmShape shape,
                                                        int rank, Deadline deadline,
                                                        const std::stop_token& stop) {
  absl::StatusOr<FileDescriptor> file = TakeFile(spec, rank, deadline, stop);
  if (!file.ok()) return file.status();
  absl::StatusOr<std::shared_ptr<ShmSegment>> segment =
      ShmSegment::Open(*std::move(file), shape, spec.wiring);
  if (!segment.ok()) return segment.status();
  if (!(*segment)->rank(rank).state.CompareExchange(kRankAbsent, kRankJoining)) {
    return absl::AlreadyExistsError(absl::StrCat("rank ", rank, " has already joined"));
  }
  return segment;
}

// Both ends of the group's beginning: rank 0 with memory of its own, the others with that memory.
absl::StatusOr<std::unique_ptr<ShmCommunicator>> Meet(const ShmOptions& options, Deadline deadline,
                                                      const std::stop_token& stop) {
  const ShmShape shape{options.size, static_cast<std::uint32_t>(std::bit_ceil(options.slot_bytes))};
  const HandoverSpec spec = {.name = options.name,
                             .wiring = options.wiring,
                             .num_ranks = options.size,
                             .layout = ShmSegment::LayoutOf(shape),
                             .describe_layout = ShmSegment::DescribeLayout};
  absl::StatusOr<std::shared_ptr<ShmSegment>> segment =
      options.rank == 0 ? ShmSegment::Create(shape, options.wiring)
                        : TakeSegment(spec, shape, options.rank, deadline, stop);
  if (!segment.ok()) return segment.status();
  const int file = (*segment)->file();
  auto communicator = std::make_unique<ShmCommunicator>(*std::move(segment), options);
  communicator->Announce();
  if (options.rank != 0 || options.size == 1) return communicator;
  const absl::StatusOr<std::unique_ptr<FileHandover>> handover = FileHandover::Listen(spec, file);
  if (!handover.ok()) return handover.status();
  const absl::Status handed_over = communicator->HandOver(**handover, deadline, stop);
  if (!handed_over.ok()) return handed_over;
  return communicator;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> JoinShm(const ShmOptions& options, Deadline deadline,
                                                      const std::stop_token& stop) {
  if (absl::Status valid = Validate(options); !valid.ok()) return valid;
  absl::StatusOr<std::unique_ptr<ShmCommunicator>> communicator = Meet(options, deadline, stop);
  if (!communicator.ok()) {
    const absl::Status& status = communicator.status();
    return absl::Status(status.code(),
                        absl::StrCat("rank ", options.rank, " of ", options.size, " in '",
                                     options.name, "', joining: ", status.message()));
  }
  const std::stop_callback on_stop(stop, [joining = communicator->get()] {
    joining->Abort(absl::CancelledError("told to stop joining"));
  });
  if (absl::Status joined = (*communicator)->AwaitRanks(deadline); !joined.ok()) return joined;
  return *std::move(communicator);
}

}  // namespace sluice
