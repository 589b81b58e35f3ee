#include "tests/kernels/communicator_calls.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"

namespace sluice::testing {
namespace {

using Bytes = std::vector<std::byte>;

// Mixes all four into one word per 8 bytes (the finaliser of SplitMix64).
std::uint64_t Word(std::uint64_t pattern, int from, int to, std::uint64_t index) {
  std::uint64_t x = pattern * 0x9e3779b97f4a7c15u + index;
  x += (static_cast<std::uint64_t>(from) << 40) + (static_cast<std::uint64_t>(to) << 48);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

void AppendPart(std::uint64_t pattern, int from, int to, std::size_t bytes, Bytes& out) {
  std::size_t end = out.size();
  out.resize(end + bytes);
  for (std::size_t i = 0; i < bytes; i += sizeof(std::uint64_t)) {
    const std::uint64_t word = Word(pattern, from, to, i);
    const std::size_t count = std::min(bytes - i, sizeof(word));
    std::memcpy(out.data() + end, &word, count);
    end += count;
  }
}

absl::Status Compare(const CheckedCall& call, const Bytes& received, const Bytes& expected) {
  const auto [wrong, right] = std::mismatch(received.begin(), received.end(), expected.begin());
  if (wrong == received.end()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("call ", call.pattern, " of kind ",
                                          static_cast<int>(call.kind), " with ", call.bytes,
                                          " bytes: byte ", wrong - received.begin(), " is wrong"));
}

}  // namespace

absl::Status MakeCheckedCall(Communicator& communicator, const CheckedCall& call,
                             Deadline deadline) {
  constexpr int kEveryone = 255;
  const int me = communicator.rank();
  Bytes sent;
  Bytes expected;
  absl::Status status;
  if (call.kind == CallKind::kBroadcast) {
    AppendPart(call.pattern, call.root, kEveryone, call.bytes, expected);
    Bytes data = me == call.root ? expected : Bytes(call.bytes, std::byte{0xee});
    status = communicator.Broadcast(absl::MakeSpan(data), call.root, deadline);
    return status.ok() ? Compare(call, data, expected) : status;
  }
  const bool to_all = call.kind == CallKind::kAllGather;
  if (to_all) AppendPart(call.pattern, me, kEveryone, call.bytes, sent);
  for (int peer = 0; peer < communicator.size(); ++peer) {
    if (!to_all) AppendPart(call.pattern, me, peer, call.bytes, sent);
    AppendPart(call.pattern, peer, to_all ? kEveryone : me, call.bytes, expected);
  }
  Bytes received(expected.size(), std::byte{0xee});
  status = to_all ? communicator.AllGather(sent, absl::MakeSpan(received), deadline)
                  : communicator.AllToAll(sent, absl::MakeSpan(received), deadline);
  return status.ok() ? Compare(call, received, expected) : status;
}

absl::Status MakeMixedCalls(Communicator& communicator, std::uint64_t seed, int count,
                            std::size_t max_bytes) {
  std::mt19937_64 random(seed);
  for (int i = 0; i < count; ++i) {
    CheckedCall call;
    call.kind = static_cast<CallKind>(random() % 3);
    call.root = static_cast<int>(random() % communicator.size());
    // As many small sizes as large ones, and the edges 0 and 1 often.
    const std::size_t limit = std::size_t{1} << (random() % 64);
    call.bytes = random() % (std::min(limit, max_bytes) + 1);
    call.pattern = random();
    absl::Status made = MakeCheckedCall(communicator, call);
    if (!made.ok()) {
      return absl::Status(made.code(), absl::StrCat("seed ", seed, ", call ", i, ", rank ",
                                                    communicator.rank(), ": ", made.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace sluice::testing
