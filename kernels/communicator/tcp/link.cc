#include "kernels/communicator/tcp/link.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "kernels/communicator/tcp/byte_order.h"

namespace sluice {
namespace {

// Of a body at once, so that both directions, and all peers, get their turn.
constexpr std::size_t kTurnBytes = std::size_t{256} << 10;

// What of header and body is still to be moved, from `moved` on.
template <typename Byte>
struct Rest {
  absl::Span<Byte> header;
  absl::Span<Byte> body;

  Rest(absl::Span<Byte> whole_header, absl::Span<Byte> whole_body, std::size_t moved) {
    const std::size_t of_header = std::min(moved, whole_header.size());
    header = whole_header.subspan(of_header);
    body = whole_body.subspan(moved - of_header);
    body = body.first(std::min(body.size(), kTurnBytes));
  }
};

}  // namespace

std::string LinkHeader::ToString() const {
  return absl::StrCat(DescribeCollective(operation, root, bytes), " (its call ", call, ")");
}

LinkHeaderBytes Encode(const LinkHeader& header) {
  LinkHeaderBytes bytes;
  StoreLittleEndian(header.call, bytes.data());
  StoreLittleEndian(header.operation, bytes.data() + 8);
  StoreLittleEndian(header.root, bytes.data() + 12);
  StoreLittleEndian(header.bytes, bytes.data() + 16);
  return bytes;
}

LinkHeader ParseLinkHeader(const LinkHeaderBytes& bytes) {
  return {.call = LoadLittleEndian<std::uint64_t>(bytes.data()),
          .operation = LoadLittleEndian<std::uint32_t>(bytes.data() + 8),
          .root = LoadLittleEndian<std::uint32_t>(bytes.data() + 12),
          .bytes = LoadLittleEndian<std::uint64_t>(bytes.data() + 16)};
}

void Link::Send(const LinkHeader& header, absl::Span<const std::byte> body) {
  SLUICE_CHECK(sending_.done());
  sent_header_ = Encode(header);
  sent_body_ = body;
  sending_ = {.moved = 0, .total = sent_header_.size() + body.size()};
}

void Link::Receive(const LinkHeader& header, absl::Span<std::byte> body) {
  SLUICE_CHECK(receiving_.done());
  expected_ = header;
  received_body_ = body;
  receiving_ = {.moved = 0, .total = received_header_.size() + body.size()};
}

absl::StatusOr<bool> Link::Advance() {
  awaited_events_ = 0;
  const absl::StatusOr<std::size_t> sent = AdvanceSending();
  if (!sent.ok()) return sent.status();
  const absl::StatusOr<std::size_t> received = AdvanceReceiving();
  if (!received.ok()) return received.status();
  return *sent + *received > 0;
}

absl::StatusOr<std::size_t> Link::AdvanceSending() {
  if (sending_.done()) return 0;
  const Rest<const std::byte> rest(sent_header_, sent_body_, sending_.moved);
  const absl::StatusOr<std::size_t> moved = stream_->Write(rest.header, rest.body);
  if (!moved.ok()) return moved;
  sending_.moved += *moved;
  if (*moved < rest.header.size() + rest.body.size()) awaited_events_ |= stream_->awaited_events();
  return moved;
}

absl::StatusOr<std::size_t> Link::AdvanceReceiving() {
  if (receiving_.done()) return 0;
  const Rest<std::byte> rest(absl::MakeSpan(received_header_), received_body_, receiving_.moved);
  const absl::StatusOr<std::size_t> moved = stream_->Read(rest.header, rest.body);
  if (!moved.ok()) return moved;
  receiving_.moved += *moved;
  if (*moved < rest.header.size() + rest.body.size()) awaited_events_ |= stream_->awaited_events();
  const bool header_came = !rest.header.empty() && *moved >= rest.header.size();
  if (!header_came) return moved;
  if (absl::Status same = CheckHeader(); !same.ok()) return same;
  return moved;
}

absl::Status Link::CheckHeader() const {
  if (received_header_ == Encode(expected_)) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("makes a different call, ", ParseLinkHeader(received_header_).ToString()));
}

}  // namespace sluice
