#include "services/shard/step_broadcast.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"

namespace sluice {
namespace {

// Sent first, because every rank must know a broadcast's size: bytes of the plan, of the rows without
// their data, of that data, and of the offer of a ring, where there is one.
using Header = std::array<uint64_t, 4>;

// Of each part. What rank 0 hands on has come to it in one message.
constexpr uint64_t kMostBytes = uint64_t{1} << 30;

absl::Span<std::byte> Bytes(std::string& text) {
  return absl::MakeSpan(reinterpret_cast<std::byte*>(text.data()), text.size());
}

absl::Span<std::byte> Bytes(Header& header) {
  return absl::MakeSpan(reinterpret_cast<std::byte*>(header.data()), sizeof(Header));
}

}  // namespace

absl::Status SendStep(Communicator& communicator, const v1::StageExecute& plan, v1::PushStep& rows,
                      const std::optional<v1::RowRingOffer>& ring, Deadline deadline) {
  v1::Tensor& hidden = *rows.mutable_hidden();
  v1::PushStep description;
  *description.mutable_computed_ns() = rows.computed_ns();
  description.mutable_hidden()->set_dtype(hidden.dtype());
  *description.mutable_hidden()->mutable_shape() = hidden.shape();
  if (rows.has_in_ring()) *description.mutable_in_ring() = rows.in_ring();
  std::string ring_bytes = ring.has_value() ? ring->SerializeAsString() : "";
  std::string plan_bytes = plan.SerializeAsString();
  std::string description_bytes = description.SerializeAsString();
  Header header = {plan_bytes.size(), description_bytes.size(), hidden.data().size(),
                   ring_bytes.size()};
  absl::Status status = communicator.Broadcast(Bytes(header), 0, deadline);
  for (std::string* part : {&plan_bytes, &description_bytes, hidden.mutable_data(), &ring_bytes}) {
    if (status.ok()) status = communicator.Broadcast(Bytes(*part), 0, deadline);
  }
  return status;
}

absl::Status ReceiveStep(Communicator& communicator, absl::Duration timeout, v1::StageExecute& plan,
                         v1::PushStep& rows, std::optional<v1::RowRingOffer>& ring) {
  Header header = {};
  absl::Status status = communicator.Broadcast(Bytes(header), 0, Deadline::Never());
  if (!status.ok()) return status;
  for (const uint64_t size : header) {
    if (size <= kMostBytes) continue;
    return absl::InternalError(absl::StrCat("rank 0 announced ", size,
                                            " bytes of a step; accepted: at most ", kMostBytes));
  }
  const Deadline deadline = Deadline::After(timeout);
  std::array<std::string, 4> parts;
  for (size_t i = 0; i < parts.size(); ++i) {
    parts[i].resize(header[i]);
    status = communicator.Broadcast(Bytes(parts[i]), 0, deadline);
    if (!status.ok()) return status;
  }
  if (!plan.ParseFromString(parts[0]) || !rows.ParseFromString(parts[1])) {
    return absl::InternalError("rank 0 sent a step that can't be read");
  }
  *rows.mutable_hidden()->mutable_data() = std::move(parts[2]);
  ring.reset();
  if (!parts[3].empty() && !ring.emplace().ParseFromString(parts[3])) {
    return absl::InternalError("rank 0 sent a ring that can't be read");
  }
  return absl::OkStatus();
}

absl::Status AgreeOnRing(Communicator& communicator, absl::Status& opened, Deadline deadline) {
  const auto own = std::byte{opened.ok()};
  std::vector<std::byte> all(static_cast<size_t>(communicator.size()));
  const absl::Status told = communicator.AllGather({&own, 1}, absl::MakeSpan(all), deadline);
  const auto refused = std::find(all.begin(), all.end(), std::byte{0});
  if (told.ok() && opened.ok() && refused != all.end()) {
    opened = absl::UnavailableError(
        absl::StrCat("rank ", refused - all.begin(), " can't read the ring"));
  }
  return told;
}

}  // namespace sluice
