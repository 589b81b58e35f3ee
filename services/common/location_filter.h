// Removes paths, sockets and addresses from texts for clients: they help nobody but an attacker.
// Immutable, hence thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sluice {

class LocationFilter {
 public:
  // `known`: what is taken out of every text, such as the addresses of a pipeline's processes.
  explicit LocationFilter(std::vector<std::string> known = {});

  // `text` without the known ones. For texts about a client's request, which may quote what looks
  // like a path or an address and is the client's.
  std::string WithoutKnown(absl::string_view text) const;
  // `text` also without whatever looks like an absolute path, a socket or an address. For texts
  // about the server's own parts.
  std::string WithoutAny(absl::string_view text) const;

  // The same status with a text for clients: WithoutKnown() where the code blames the request,
  // WithoutAny() where it does not. Payloads stay.
  absl::Status ForClient(const absl::Status& status) const;

 private:
  std::string Without(absl::string_view text, bool any) const;
  // How many bytes at `begin` are a location, 0: none.
  size_t KnownAt(absl::string_view text, size_t begin) const;

  std::vector<std::string> known_;  // the longest first
};

}  // namespace sluice
