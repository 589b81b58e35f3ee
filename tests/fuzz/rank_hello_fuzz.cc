// What a rank reads before it trusts a peer: the address that the peer left in the rendezvous, and
// the first bytes of its connection. What is taken must be what would have been written.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "kernels/communicator/tcp/introduction.h"
#include "kernels/communicator/tcp/rank_hello.h"

namespace sluice {
namespace {

// A connection on which the input arrives and then nothing more.
class InputStream final : public TcpStream {
 public:
  InputStream(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  absl::StatusOr<bool> Handshake() override { return true; }
  absl::StatusOr<std::size_t> Write(absl::Span<const std::byte> first,
                                    absl::Span<const std::byte> second) override {
    return first.size() + second.size();
  }
  // In pieces, as a network may deliver them.
  absl::StatusOr<std::size_t> Read(absl::Span<std::byte> first, absl::Span<std::byte>) override {
    const std::size_t count = std::min({first.size(), size_, std::size_t{7}});
    if (count == 0) return absl::UnavailableError("closed");
    std::memcpy(first.data(), data_, count);
    data_ += count;
    size_ -= count;
    return count;
  }
  short awaited_events() const override { return 0; }
  int fd() const override { return -1; }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
};

void Introduce(const std::uint8_t* data, std::size_t size) {
  // All tokens, and the wiring, are zeros, so that some inputs know them.
  RankGroup group = {.wiring = {}, .rank = 1, .addresses = std::vector<RankAddress>(4)};
  Introduction guest(group, std::make_unique<InputStream>(data, size));
  absl::StatusOr<bool> done = false;
  while (done.ok() && !*done) done = guest.Advance();
  if (!done.ok()) return;
  RankHelloBytes bytes;
  std::memcpy(bytes.data(), data, bytes.size());
  if (guest.peer() < 2 || guest.peer() > 3 || Encode(*ParseRankHello(bytes)) != bytes) abort();
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<sluice::RankAddress> address = sluice::ParseRankAddress(text);
  if (address.ok() && Encode(*address) != text) abort();
  sluice::Introduce(data, size);
  return 0;
}
