#include "services/listener/connection_guard.h"

#include <gtest/gtest.h>

#include <vector>

namespace sluice {
namespace {

TEST(ConnectionGuard, KnowsTheHostOfAPeer) {
  EXPECT_EQ(HostOfConnection("ipv4:10.0.0.7:5123"), "10.0.0.7");
  EXPECT_EQ(HostOfConnection("ipv6:%5B2001:db8:0:1:2:3:4:5%5D:5123"), "2001:db8:0:1::/64");
  EXPECT_EQ(HostOfConnection("ipv6:%5B2001:db8:0:1:ffff::1%5D:77"), "2001:db8:0:1::/64");
  EXPECT_EQ(HostOfConnection("ipv6:%5B::1%5D:5123"), "::1");
  EXPECT_EQ(HostOfConnection("unix:"), "unix:");
}

TEST(ConnectionGuard, AdmitsAPeerByItsName) {
  ConnectionGuard guard({});
  const ConnectionTable::Arrival arrival = guard.Add("ipv4:10.0.0.7:5123");
  EXPECT_FALSE(guard.IsAdmitted(arrival.id));
  guard.OnAdmitted("ipv4:10.0.0.7:5124");
  EXPECT_FALSE(guard.IsAdmitted(arrival.id));
  guard.OnAdmitted("ipv4:10.0.0.7:5123");
  EXPECT_TRUE(guard.IsAdmitted(arrival.id));
  guard.Remove(arrival.id, "ipv4:10.0.0.7:5123");
  EXPECT_FALSE(guard.IsAdmitted(arrival.id));
}

TEST(ConnectionGuard, PeersWithoutConnectionsOfItsOwnAreNobody) {
  ConnectionGuard guard({});
  guard.OnAdmitted("unix:");
  guard.OnMessage("inproc:it", 100);
  EXPECT_EQ(guard.FindExcess().id, 0);
}

TEST(ConnectionGuard, ReportsRefusalsOfAHostOnceASecond) {
  std::vector<PeerEvent> events;
  ConnectionGuard guard({.on_event = [&](const PeerEvent& event) { events.push_back(event); }});
  for (int i = 0; i < 100; ++i) guard.OnRefused("ipv4:10.0.0.7:5123", "no token");
  ASSERT_EQ(events.size(), 1);
  EXPECT_EQ(events[0].event, "call-refused");
  EXPECT_EQ(events[0].host, "10.0.0.7");
}

}  // namespace
}  // namespace sluice
