// What a peer leaves in a lane: counters, lengths, messages and turns of its choosing. Every
// message that is taken has the next number, and a lane that is damaged stays so.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "services/lane/lane_inbox.h"
#include "services/lane/lane_segment.h"
#include "sluice/v1/stage.pb.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 8) return 0;
  sluice::LaneInbox<sluice::v1::PushRequest> inbox;
  if (!inbox.Offer({}).has_value()) return 0;
  const auto peer = sluice::LaneSegment::Open(*inbox.Offer({}), {});
  if (!peer.ok()) abort();
  uint32_t written = 0;
  std::memcpy(&written, data, sizeof(written));
  // As many bytes as there are, often enough.
  if (data[4] % 2 == 0) written = static_cast<uint32_t>(size - 8) & ~7u;
  std::memcpy((*peer)->ring(), data + 8,
              std::min<size_t>(size - 8, sluice::LaneSegment::capacity()));
  (*peer)->written().Store(written);
  uint64_t number = 0;
  while (true) {
    const auto message = inbox.TakeIfThere();
    if (!message.ok() && inbox.TakeIfThere().ok()) abort();
    if (!message.ok() || !message->has_value()) return 0;
    if ((*message)->sequence_number() != ++number) abort();
  }
}
