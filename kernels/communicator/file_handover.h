// Hands an open file of rank 0 to the other ranks of a group on this host, whose processes run as
// the same user. The file itself needs no name: it passes over a unix socket. The socket's name is
// in the abstract namespace, which the kernel forgets with the socket.
//
// Before the file passes, each side has checked the other: the user of the other process, by the
// kernel's word, and then the wiring, by rank 0. Peers that fail a check are told why where they
// run as this user, and are turned away; rank 0 goes on waiting for the right ones.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/communicator/file_descriptor.h"
#include "kernels/communicator/stop_event.h"
#include "kernels/communicator/wiring_identity.h"
#include "kernels/deadline.h"

namespace sluice {

// What all ranks of a group say alike.
struct HandoverSpec {
  static constexpr std::size_t kMaxNameBytes = 100;

  std::string name;  // of the socket, up to kMaxNameBytes; no other group of the host has it
  WiringIdentity wiring;
  int num_ranks = 2;
  std::uint64_t layout = 0;  // of the file's contents
  // For messages.
  std::function<std::string(std::uint64_t layout)> describe_layout;
};

// Rank 0's end. Belongs to one thread.
class FileHandover {
 public:
  // Listens. Borrows the file.
  //   ALREADY_EXISTS  a socket of this host has the name
  //   UNAVAILABLE     the system has no socket
  static absl::StatusOr<std::unique_ptr<FileHandover>> Listen(const HandoverSpec& spec, int file);

  // Returns when every rank but 0 has the file. Calls `look` at least every 100 ms.
  //   DEADLINE_EXCEEDED  naming the ranks that did not come, and who was turned away meanwhile
  //   CANCELLED          told to stop
  //   otherwise          the failure that `look` returned
  absl::Status Serve(Deadline deadline, const std::stop_token& stop,
                     absl::FunctionRef<absl::Status()> look);

 private:
  struct Guest {
    FileDescriptor socket;
    Deadline limit = Deadline::Never();
  };

  FileHandover(const HandoverSpec& spec, int file, FileDescriptor listener);

  void AcceptGuests();
  void AdvanceGuests();
  // Whether the guest is done with: it has its answer, or is gone.
  bool Advance(Guest& guest);
  absl::Status CheckRequest(absl::string_view bytes);
  bool Complete() const;
  std::string MissingRanks() const;
  void Wait(Deadline deadline, const StopEvent& stop) const;

  const HandoverSpec spec_;
  const int file_;
  const FileDescriptor listener_;
  std::list<Guest> guests_;
  std::vector<bool> has_file_;  // by rank
  std::string last_refusal_;
};

// The end of rank `rank`. Waits until rank 0 listens and has answered.
//   DEADLINE_EXCEEDED  rank 0 did not come in time
//   CANCELLED          told to stop
//   UNAVAILABLE        rank 0 ended the connection, or the system has no socket
//   otherwise          rank 0's refusal: ABORTED where the wiring is another, INVALID_ARGUMENT
//                      where layout or number of ranks differ, ALREADY_EXISTS where the rank has
//                      come
absl::StatusOr<FileDescriptor> TakeFile(const HandoverSpec& spec, int rank, Deadline deadline,
                                        const std::stop_token& stop);

}  // namespace sluice
