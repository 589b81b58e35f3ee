#include "services/listener/connection_guard.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace sluice {
namespace {

absl::Duration Now() {
  return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace

std::string HostOfConnection(absl::string_view peer) {
  absl::string_view host = peer;
  if (absl::ConsumePrefix(&host, "ipv4:")) return std::string(host.substr(0, host.rfind(':')));
  if (!absl::ConsumePrefix(&host, "ipv6:")) return std::string(peer);
  const std::string address = absl::StrReplaceAll(std::string(host.substr(0, host.rfind(':'))),
                                                  {{"%5B", ""}, {"%5D", ""}, {"[", ""}, {"]", ""}});
  in6_addr network = {};
  if (inet_pton(AF_INET6, address.c_str(), &network) != 1) return address;
  if (IN6_IS_ADDR_LOOPBACK(&network)) return address;
  std::fill(network.s6_addr + 8, network.s6_addr + 16, uint8_t{0});
  std::array<char, INET6_ADDRSTRLEN> text = {};
  inet_ntop(AF_INET6, &network, text.data(), text.size());
  return absl::StrCat(text.data(), "/64");
}

ConnectionGuard::ConnectionGuard(Options options)
    : options_(std::move(options)), table_(options_.limits, options_.most_streams_per_connection) {}

void ConnectionGuard::OnAdmitted(absl::string_view peer) {
  const absl::MutexLock lock(&mutex_);
  const auto found = ids_.find(std::string(peer));
  if (found != ids_.end()) table_.Admit(found->second);
}

void ConnectionGuard::OnCalled(absl::string_view peer) {
  const absl::MutexLock lock(&mutex_);
  const auto found = ids_.find(std::string(peer));
  if (found != ids_.end()) table_.ExpectMessage(found->second);
}

void ConnectionGuard::OnRefused(absl::string_view peer, absl::string_view cause) {
  Report("call-refused", peer, cause);
}

void ConnectionGuard::OnMessage(absl::string_view peer, size_t bytes) {
  const absl::MutexLock lock(&mutex_);
  const auto found = ids_.find(std::string(peer));
  if (found != ids_.end()) table_.CountMessage(found->second, bytes);
}

ConnectionTable::Arrival ConnectionGuard::Add(absl::string_view peer) {
  const absl::MutexLock lock(&mutex_);
  const ConnectionTable::Arrival arrival = table_.Add(HostOfConnection(peer), Now());
  if (arrival.id != 0) ids_[std::string(peer)] = arrival.id;
  return arrival;
}

ConnectionTable::Begin ConnectionGuard::BeginNext() {
  const absl::MutexLock lock(&mutex_);
  return table_.BeginNext(Now());
}

size_t ConnectionGuard::num_waiting() const {
  const absl::MutexLock lock(&mutex_);
  return table_.num_waiting();
}

void ConnectionGuard::Remove(Id id, absl::string_view peer) {
  const absl::MutexLock lock(&mutex_);
  table_.Remove(id);
  const auto found = ids_.find(std::string(peer));
  if (found != ids_.end() && found->second == id) ids_.erase(found);
}

void ConnectionGuard::OnAbuse(Id id) {
  const absl::MutexLock lock(&mutex_);
  table_.CountAbuse(id, Now());
}

bool ConnectionGuard::IsAdmitted(Id id) const {
  const absl::MutexLock lock(&mutex_);
  return table_.IsAdmitted(id);
}

const char* ConnectionGuard::OnReceived(Id id, uint64_t total_bytes) {
  const absl::MutexLock lock(&mutex_);
  return table_.OnReceived(id, total_bytes, Now());
}

const char* ConnectionGuard::OnStreams(Id id, const ConnectionTable::Streams& streams) {
  const absl::MutexLock lock(&mutex_);
  return table_.OnStreams(id, streams, Now());
}

ConnectionTable::Excess ConnectionGuard::FindExcess() const {
  const absl::MutexLock lock(&mutex_);
  return table_.FindExcess(Now());
}

void ConnectionGuard::Report(absl::string_view event, absl::string_view peer,
                             absl::string_view cause) {
  std::vector<PeerEvent> events;
  {
    const absl::MutexLock lock(&mutex_);
    events = counts_.Add(event, HostOfConnection(peer), cause, Now());
  }
  Send(events);
}

void ConnectionGuard::ReportDue() {
  std::vector<PeerEvent> events;
  {
    const absl::MutexLock lock(&mutex_);
    events = counts_.TakeDue(Now());
  }
  Send(events);
}

void ConnectionGuard::Send(const std::vector<PeerEvent>& events) const {
  if (options_.on_event == nullptr) return;
  for (const PeerEvent& event : events) options_.on_event(event);
}

}  // namespace sluice
