// Decides which streams are offered a lane (services/lane): those over Unix sockets, where the
// permissions of the folder control access.
#pragma once

#include <grpcpp/server_context.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "services/lane/lane_inbox.h"
#include "services/process/log.h"

namespace sluice {

// Whether the caller came over a unix socket.
inline bool IsOnThisHost(const grpc::ServerContextBase& context) {
  return absl::StartsWith(context.peer(), "unix:");
}

// Whether the caller is code of this process: its peer has no address.
inline bool IsInThisProcess(const grpc::ServerContextBase& context) {
  const std::string peer = context.peer();
  for (const absl::string_view kind : {"unix:", "unix-abstract:", "ipv4:", "ipv6:", "vsock:"}) {
    if (absl::StartsWith(peer, kind)) return false;
  }
  return true;
}

// Has `opened`, which answers the stream's client, offer it the lane of what it will send.
template <class Stream, class Message, class Opened>
void OfferLane(const Stream& stream, const LaneInbox<Message>& inbox, const WiringIdentity& wiring,
               Opened& opened) {
  if (!stream.on_this_host()) return;
  if (const std::optional<v1::LaneOffer> offer = inbox.Offer(wiring)) {
    *opened.mutable_lane() = *offer;
  }
}

// Says in the log of a lane that is not used, unless `opened` is OK: messages to `to` go by the
// stream.
inline void NoteUnused(absl::string_view to, const absl::Status& opened) {
  if (opened.ok()) return;
  Log(LogLevel::kInfo, "lane", "lane-unused", {{"to", to}, {"status", opened.ToString()}});
}

}  // namespace sluice
