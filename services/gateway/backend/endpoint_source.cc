#include "services/gateway/backend/endpoint_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "services/process/log.h"
#include "services/rpc/resolve.h"
#include "services/rpc/transport.h"
#include "services/security/read_file.h"

namespace sluice::gateway {

absl::StatusOr<std::unique_ptr<EndpointSource>> EndpointSource::Parse(absl::string_view list,
                                                                      ClientSecurity security) {
  auto source = std::unique_ptr<EndpointSource>(new EndpointSource(std::move(security)));
  for (absl::string_view text : absl::StrSplit(list, ',', absl::SkipWhitespace())) {
    text = absl::StripAsciiWhitespace(text);
    Item item;
    item.is_file = absl::ConsumePrefix(&text, "file:");
    item.resolves = !item.is_file && absl::StartsWith(text, "dns:///");
    item.text = std::string(text);
    if (item.is_file && !absl::StartsWith(text, "/")) {
      return absl::InvalidArgumentError(
          absl::StrCat("--orchestrator file:", item.text, "; accepted: file:/PATH"));
    }
    if (!item.is_file) {
      const auto channel = DialPublic(item.text, source->security_);
      if (!channel.ok()) return channel.status();
    }
    source->items_.push_back(std::move(item));
  }
  if (source->items_.empty()) {
    return absl::InvalidArgumentError("--orchestrator is required: its address");
  }
  return source;
}

void EndpointSource::NoteFailure(Item& item, absl::string_view cause) {
  if (std::exchange(item.failed, true)) return;
  Log(LogLevel::kWarning, "gateway", "orchestrators-not-listed",
      {{"source", item.text}, {"cause", std::string(cause)}, {"known", item.found.size()}});
}

void EndpointSource::Refresh(Item& item) {
  if (item.is_file) {
    const absl::StatusOr<std::string> text = ReadRegularFile(item.text);
    if (!text.ok()) return NoteFailure(item, text.status().message());
    item.found.clear();
    for (absl::string_view line : absl::StrSplit(*text, '\n')) {
      line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
      if (!line.empty()) item.found.emplace_back(line);
    }
  } else if (item.resolves) {
    std::vector<std::string> found = ResolvePublic(item.text);
    if (found.empty()) return NoteFailure(item, "the name can't be resolved");
    item.found = std::move(found);
  } else {
    item.found = {item.text};
  }
  item.failed = false;
}

std::shared_ptr<grpc::Channel> EndpointSource::ChannelTo(const Item& item,
                                                         const std::string& address) {
  const auto known = channels_.find(address);
  if (known != channels_.end()) return known->second;
  const auto channel =
      item.resolves ? DialResolved(address, item.text, security_) : DialPublic(address, security_);
  if (channel.ok()) return *channel;
  Log(LogLevel::kWarning, "gateway", "orchestrator-not-dialled",
      {{"orchestrator", address}, {"status", channel.status().ToString()}});
  return nullptr;
}

std::vector<Orchestrator> EndpointSource::Find() {
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels;
  for (Item& item : items_) {
    Refresh(item);
    for (const std::string& address : item.found) {
      if (channels.contains(address)) continue;
      channels[address] = ChannelTo(item, address);
    }
  }
  channels_ = std::move(channels);
  std::vector<Orchestrator> orchestrators;
  for (const auto& [address, channel] : channels_) {
    if (channel != nullptr) orchestrators.push_back({.name = address, .channel = channel});
  }
  return orchestrators;
}

}  // namespace sluice::gateway
