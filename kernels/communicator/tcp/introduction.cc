#include "kernels/communicator/tcp/introduction.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {

Introduction::Introduction(const RankGroup& group, std::unique_ptr<TcpStream> stream, int peer)
    : group_(group), stream_(std::move(stream)), dialled_(true) {
  Address(peer);
}

Introduction::Introduction(const RankGroup& group, std::unique_ptr<TcpStream> stream)
    : group_(group), stream_(std::move(stream)), dialled_(false) {}

void Introduction::Address(int peer) {
  peer_ = peer;
  const RankToken& token = group_.addresses[peer].token;
  ours_ = Encode(RankHello{.token = token,
                           .rank = static_cast<std::uint32_t>(group_.rank),
                           .size = static_cast<std::uint32_t>(group_.size()),
                           .wiring = ClaimOf(group_.wiring, token)});
}

absl::StatusOr<bool> Introduction::Advance() {
  if (!is_connected_) {
    absl::StatusOr<bool> connected = stream_->Handshake();
    if (!connected.ok() || !*connected) return connected;
    is_connected_ = true;
  }
  // Who dialled speaks first.
  absl::StatusOr<bool> first = dialled_ ? Send() : Receive();
  if (!first.ok() || !*first) return first;
  return dialled_ ? Receive() : Send();
}

absl::StatusOr<bool> Introduction::Send() {
  if (sent_ == ours_.size()) return true;
  const absl::StatusOr<std::size_t> moved =
      stream_->Write(absl::MakeConstSpan(ours_).subspan(sent_), {});
  if (!moved.ok()) return moved.status();
  sent_ += *moved;
  return sent_ == ours_.size();
}

absl::StatusOr<bool> Introduction::Receive() {
  if (received_ == theirs_.size()) return true;
  const absl::StatusOr<std::size_t> moved =
      stream_->Read(absl::MakeSpan(theirs_).subspan(received_), {});
  if (!moved.ok()) return moved.status();
  received_ += *moved;
  if (received_ < theirs_.size()) return false;
  if (absl::Status checked = CheckHello(); !checked.ok()) return checked;
  return true;
}

absl::Status Introduction::CheckHello() {
  const absl::StatusOr<RankHello> hello = ParseRankHello(theirs_);
  if (!hello.ok()) return absl::UnavailableError(hello.status().message());
  const RankToken& token = group_.addresses[group_.rank].token;
  if (!SameToken(hello->token, token)) {
    return absl::UnavailableError("it does not know this rank's token");
  }
  if (absl::Status same = CheckClaim(hello->wiring, token, group_.wiring); !same.ok()) return same;
  if (hello->size != static_cast<std::uint32_t>(group_.size())) {
    return absl::UnavailableError(absl::StrCat("its group has ", hello->size, " ranks"));
  }
  const std::uint32_t lowest = dialled_ ? static_cast<std::uint32_t>(peer_) : group_.rank + 1;
  const std::uint32_t highest = dialled_ ? static_cast<std::uint32_t>(peer_) : group_.size() - 1;
  if (hello->rank < lowest || hello->rank > highest) {
    return absl::UnavailableError(absl::StrCat("it says that it is rank ", hello->rank));
  }
  if (!dialled_) Address(static_cast<int>(hello->rank));
  return absl::OkStatus();
}

}  // namespace sluice
