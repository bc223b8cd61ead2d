// Whose word about an address counts, and how many sockets an address has.
#include <gtest/gtest.h>

#include "net/address.hpp"
#include "net/doors.hpp"

namespace parley::net {
namespace {

std::string client(const proxy_list& p, std::string_view peer,
                   std::vector<std::string_view> forwarded) {
  return p.client_of(peer, forwarded);
}

TEST(Address, ParsesNumericFormsOnly) {
  EXPECT_EQ(ip_text(*parse_ip("127.0.0.1")), "127.0.0.1");
  EXPECT_EQ(ip_text(*parse_ip("::ffff:1.2.3.4")), "1.2.3.4");
  EXPECT_EQ(ip_text(*parse_ip("2001:DB8::0001")), "2001:db8::1");
  for (const char* bad :
       {"", "localhost", "1.2.3.4:80", "[::1]", "1.2.3", "fe80::1%eth0", "01.2.3.4.5",
        "1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc"})
    EXPECT_FALSE(parse_ip(bad)) << bad;
}

TEST(Address, TrustsAddressesAndNetworks) {
  const proxy_list p(
      {"10.0.0.0/8", "192.168.1.7", "fd00::/9", "nonsense", "1.2.3.4/33", "5.6.7.8/x"});
  EXPECT_TRUE(p.trusts("10.255.0.1"));
  EXPECT_TRUE(p.trusts("::ffff:10.0.0.1"));
  EXPECT_FALSE(p.trusts("11.0.0.1"));
  EXPECT_TRUE(p.trusts("192.168.1.7"));
  EXPECT_FALSE(p.trusts("192.168.1.8"));
  EXPECT_TRUE(p.trusts("fd7f::1"));
  EXPECT_FALSE(p.trusts("fd80::1"));
  EXPECT_FALSE(p.trusts("1.2.3.4"));
  EXPECT_FALSE(p.trusts("5.6.7.8"));
  EXPECT_TRUE(proxy_list({"0.0.0.0/0"}).trusts("8.8.8.8"));
  EXPECT_FALSE(proxy_list({}).trusts("127.0.0.1"));
}

TEST(Address, BelievesForwardedAddressesOfTrustedPeersOnly) {
  const proxy_list p({"10.0.0.0/8"});
  EXPECT_EQ(client(p, "8.8.8.8", {"1.1.1.1"}), "8.8.8.8");
  EXPECT_EQ(client(p, "10.0.0.1", {}), "10.0.0.1");
  EXPECT_EQ(client(p, "10.0.0.1", {"1.1.1.1"}), "1.1.1.1");
  // What the client itself wrote before its own address is not believed.
  EXPECT_EQ(client(p, "10.0.0.1", {"6.6.6.6, 1.1.1.1"}), "1.1.1.1");
  EXPECT_EQ(client(p, "10.0.0.1", {"6.6.6.6, 1.1.1.1, 10.0.0.2"}), "1.1.1.1");
  EXPECT_EQ(client(p, "10.0.0.1", {"6.6.6.6", "1.1.1.1 , 10.0.0.2"}), "1.1.1.1");
  EXPECT_EQ(client(p, "10.0.0.1", {"10.0.0.3,10.0.0.2"}), "10.0.0.3");
  EXPECT_EQ(client(p, "10.0.0.1", {"unknown"}), "10.0.0.1");
  EXPECT_EQ(client(p, "10.0.0.1", {"1.1.1.1, garbage, 10.0.0.2"}), "10.0.0.2");
}

TEST(Doors, CountAndGiveBack) {
  doors d;
  d.set_limits(3, 2);
  door_ticket a, b, c, e;
  EXPECT_EQ(d.enter("1.1.1.1", true, a), doors::verdict::open);
  EXPECT_EQ(d.enter("1.1.1.1", true, b), doors::verdict::open);
  EXPECT_EQ(d.enter("1.1.1.1", true, c), doors::verdict::address_full);
  EXPECT_EQ(d.open(), 2);
  EXPECT_EQ(d.enter("2.2.2.2", true, c), doors::verdict::open);
  EXPECT_EQ(d.enter("3.3.3.3", true, e), doors::verdict::all_full);
  { const door_ticket moved = std::move(a); }
  EXPECT_EQ(d.open(), 2);
  EXPECT_EQ(d.open_of("1.1.1.1"), 1);
  b = door_ticket();
  c.release();
  EXPECT_EQ(d.open(), 0);
  EXPECT_EQ(d.open_of("1.1.1.1"), 0);
  EXPECT_EQ(d.enter("1.1.1.1", true, a), doors::verdict::open);
  EXPECT_EQ(d.enter("2.2.2.2", true, a), doors::verdict::open)
      << "a ticket that holds a place gives it back first";
  EXPECT_EQ(d.open(), 1);
}

TEST(Doors, ProxysClientsAreCountedOnceTheyAreNamed) {
  doors d;
  d.set_limits(10, 1);
  door_ticket a, b;
  EXPECT_EQ(d.enter("10.0.0.1", false, a), doors::verdict::open);
  EXPECT_EQ(d.enter("10.0.0.1", false, b), doors::verdict::open);
  EXPECT_TRUE(a.move_to("1.1.1.1"));
  EXPECT_EQ(a.address(), "1.1.1.1");
  EXPECT_FALSE(b.move_to("1.1.1.1"));
  EXPECT_TRUE(a.move_to("1.1.1.1"));
  EXPECT_TRUE(a.move_to("2.2.2.2"));
  EXPECT_TRUE(b.move_to("1.1.1.1"));
  EXPECT_EQ(d.open(), 2);
}

}  // namespace
}  // namespace parley::net
