// The orchestrators that `--orchestrator` names, which may change: addresses, names that DNS resolves to
// several, and files that list them. Not thread-safe.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/gateway/backend/backend.h"
#include "services/security/credentials.h"

namespace sluice::gateway {

class EndpointSource {
 public:
  // `list`: by comma,
  //   HOST:PORT, unix:/PATH  an orchestrator, or a name whose orchestrators take calls in turns
  //   dns:///HOST:PORT       every address that the name resolves to, such as a headless Service's
  //   file:/PATH             every address that the file lists: one a line, # begins a comment
  // INVALID_ARGUMENT for a list that names nothing or what is none of these; errors of DialPublic for
  // its addresses.
  static absl::StatusOr<std::unique_ptr<EndpointSource>> Parse(absl::string_view list,
                                                               ClientSecurity security);

  // False: it is one address, and stays.
  bool changes() const { return items_.size() > 1 || items_[0].is_file || items_[0].resolves; }

  // Those that there are now. Names are asked for and files read; where that fails, what they said
  // last counts, and the log has a line. Blocks for that long. Unchanged ones keep their channels.
  std::vector<Orchestrator> Find();

 private:
  struct Item {
    std::string text;  // as it was given, without "file:"
    bool is_file = false;
    bool resolves = false;
    std::vector<std::string> found;  // last
    bool failed = false;             // last, and logged
  };

  explicit EndpointSource(ClientSecurity security) : security_(std::move(security)) {}
  void Refresh(Item& item);
  void NoteFailure(Item& item, absl::string_view cause);
  // Null where it can't be dialled.
  std::shared_ptr<grpc::Channel> ChannelTo(const Item& item, const std::string& address);

  const ClientSecurity security_;
  std::vector<Item> items_;
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels_;  // by address
};

}  // namespace sluice::gateway
