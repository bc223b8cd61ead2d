// People and accounts: tokens that end, suspension, passwords, guesses; and meters of real actors.
#include "tests/support/actor_fixture.hpp"

namespace parley::test {
namespace {

using std::chrono::seconds;

class people_test : public actors_test {
 protected:
  void SetUp() override {
    actors_test::SetUp();
    add_user("ann");
    add_user("bob");
  }
  std::optional<errc> try_account(account_request r) {
    std::optional<errc> out;
    bool called = false;
    account(std::move(r), [&](result<account_answer> a) {
      called = true;
      if (!a) out = a.error().code;
      if (a) last_ = *a;
    });
    EXPECT_TRUE(called);
    return out;
  }
  account_answer last_;
};

TEST_F(people_test, log_out_closes_the_tokens_sockets_before_it_is_answered) {
  auto one = connect("ann", {}, token("ann", "one")), two = connect("ann", {}, token("ann", "two"));
  int closed_at_answer = 0;
  account(logout{token("ann", "one")}, [&](result<account_answer> a) {
    EXPECT_TRUE(a);
    closed_at_answer = client(one).closed;
  });
  EXPECT_EQ(closed_at_answer, 4001);
  EXPECT_EQ(client(two).closed, 0);
  auto again = connect("ann", {}, token("ann", "one"));
  EXPECT_EQ(client(again).closed, 4001);
  restart();
  auto after = connect("ann", {}, token("ann", "one"));
  EXPECT_EQ(client(after).closed, 4001) << "also after a restart";
}

TEST_F(people_test, suspension_closes_all_sockets_and_lifting_it_lets_in_again) {
  auto ann = connect("ann");
  EXPECT_EQ(try_account(admin_suspend{"ann", true, std::nullopt, "spam"}), std::nullopt);
  EXPECT_EQ(client(ann).closed, 4003);
  EXPECT_EQ(client(connect("ann")).closed, 4003);
  EXPECT_EQ(try_account(admin_suspend{"ann", false, std::nullopt, ""}), std::nullopt);
  EXPECT_EQ(client(connect("ann")).closed, 0);
}

TEST_F(people_test, a_suspension_with_an_end_ends) {
  EXPECT_EQ(try_account(admin_suspend{"ann", true, wall_ + 5000, ""}), std::nullopt);
  EXPECT_EQ(client(connect("ann")).closed, 4003);
  advance(seconds(6));
  EXPECT_EQ(client(connect("ann")).closed, 0);
}

TEST_F(people_test, a_token_is_announced_a_minute_before_its_end_and_closed_at_it) {
  auto c = token("ann");
  c.expires_at = wall_ + 100'000;
  auto ann = connect("ann", {}, c);
  advance(seconds(38));
  EXPECT_TRUE(events(ann, "token.expiring").empty());
  advance(seconds(4));
  ASSERT_EQ(events(ann, "token.expiring").size(), 1u);
  EXPECT_EQ(client(ann).closed, 0);
  advance(seconds(60));
  EXPECT_EQ(client(ann).closed, 4001);
}

TEST_F(people_test, a_token_with_less_than_a_minute_left_is_announced_at_once) {
  auto c = token("ann");
  c.expires_at = wall_ + 2000;
  auto ann = connect("ann", {}, c);
  ASSERT_EQ(client(ann).got.size(), 2u);
  EXPECT_EQ(client(ann).got[0]["re"], 0) << "behind the answer of hello";
  EXPECT_EQ(client(ann).got[1]["ev"], "token.expiring");
  advance(seconds(4));
  EXPECT_EQ(client(ann).closed, 4001);
}

TEST_F(people_test, a_renewed_token_keeps_the_connection) {
  auto c = token("ann");
  c.expires_at = wall_ + 70'000;
  auto ann = connect("ann", {}, c);
  c.expires_at = wall_ + 3'000'000;
  tokens_.known["fresh"] = c;
  c.user = "bob";
  tokens_.known["foreign"] = c;
  EXPECT_EQ(ask(ann, wire::token_renew{"foreign"})["error"]["code"], "forbidden");
  EXPECT_EQ(ask(ann, wire::token_renew{"none"})["error"]["code"], "unauthenticated");
  EXPECT_TRUE(ask(ann, wire::token_renew{"fresh"})["ok"]);
  advance(seconds(120));
  EXPECT_EQ(client(ann).closed, 0);
}

TEST_F(people_test, a_foreign_issuers_user_is_made_when_first_seen) {
  auto c = token("ext:7");
  c.foreign = true;
  c.name = "ann";  // taken: the id serves as name
  auto p = connect("ext:7", {}, c);
  ASSERT_FALSE(client(p).got.empty());
  EXPECT_EQ(client(p).got[0]["user"]["name"], "ext:7");
  auto own = token("nobody");
  EXPECT_EQ(client(connect("nobody", {}, own)).closed, 4001);
}

TEST_F(people_test, wrong_passwords_are_bounded_and_a_known_device_is_still_let_in) {
  ASSERT_EQ(try_account(register_user{"carl", "right password", "", "", "10.0.0.1"}), std::nullopt);
  ASSERT_EQ(try_account(login{"carl", "right password", "10.0.0.1", ""}), std::nullopt);
  auto device = last_.device;
  ASSERT_FALSE(device.empty());
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(try_account(login{"carl", "wrong password", "10.0.0.2", ""}), errc::unauthenticated);
  EXPECT_EQ(try_account(login{"carl", "right password", "10.0.0.2", ""}), errc::rate_limited);
  EXPECT_EQ(try_account(login{"carl", "right password", "10.0.0.1", device}), std::nullopt);
  EXPECT_EQ(try_account(login{"carl", "right password", "10.0.0.2", "made up"}), std::nullopt)
      << "the right one from the known device has lifted it";
  advance(std::chrono::minutes(0));
}

TEST_F(people_test, an_unknown_user_is_told_as_a_wrong_password) {
  EXPECT_EQ(try_account(login{"nobody", "some password", "10.0.0.1", ""}), errc::unauthenticated);
}

TEST_F(people_test, a_password_change_ends_the_others_and_every_older_token) {
  ASSERT_EQ(try_account(register_user{"carl", "right password", "", "", "10.0.0.1"}), std::nullopt);
  auto id = last_.who.id;
  auto mine = connect(id, {}, token(id, "mine")), other = connect(id, {}, token(id, "other"));
  EXPECT_EQ(
      try_account(change_password{token(id, "mine"), "wrong password", "new password", "::1"}),
      errc::forbidden);
  EXPECT_EQ(
      try_account(change_password{token(id, "mine"), "right password", "new password", "::1"}),
      std::nullopt);
  EXPECT_EQ(last_.generation, 2);
  EXPECT_EQ(client(mine).closed, 0);
  EXPECT_EQ(client(other).closed, 4001);
  EXPECT_EQ(client(connect(id, {}, token(id, "old"))).closed, 4001);
  EXPECT_EQ(try_account(login{"carl", "right password", "::1", ""}), errc::unauthenticated);
  EXPECT_EQ(try_account(login{"carl", "new password", "::1", ""}), std::nullopt);
}

TEST_F(people_test, a_new_display_name_reaches_the_rooms) {
  auto ann = connect("ann"), bob = connect("bob");
  auto room = make_room(ann, {"bob"});
  enter(ann, room);
  auto c = token("bob");
  EXPECT_EQ(try_account(patch_me{c, "Robert", std::nullopt}), std::nullopt);
  advance(seconds(2));
  ASSERT_EQ(events(ann, "user.updated").size(), 1u);
  EXPECT_EQ(events(ann, "user.updated")[0]["users"][0]["display_name"], "Robert");
}

TEST_F(people_test, names_are_unique_by_folding) {
  ASSERT_EQ(try_account(register_user{"Straße", "right password", "", "", "::1"}), std::nullopt);
  EXPECT_EQ(try_account(register_user{"STRASSE", "right password", "", "", "::1"}), errc::conflict);
  EXPECT_EQ(try_account(register_user{"admin", "right password", "", "", "::1"}),
            errc::bad_request);
}

TEST_F(people_test, registration_by_invitation_uses_each_code_once) {
  settings_->accounts.registration = "invitation";
  EXPECT_EQ(try_account(register_user{"carl", "right password", "", "", "::1"}), errc::forbidden);
  EXPECT_EQ(try_account(register_user{"carl", "right password", "", "made up", "::1"}),
            errc::forbidden);
  ASSERT_EQ(try_account(admin_invite{}), std::nullopt);
  auto code = last_.code;
  EXPECT_EQ(try_account(register_user{"carl", "right password", "", code, "::1"}), std::nullopt);
  EXPECT_EQ(try_account(register_user{"dora", "right password", "", code, "::1"}), errc::forbidden);
  settings_->accounts.registration = "closed";
  EXPECT_EQ(try_account(register_user{"dora", "right password", "", code, "::1"}), errc::forbidden);
}

TEST_F(people_test, sessions_leave_no_actor_behind) {
  std::vector<person> all;
  auto ann = connect("ann");
  auto room = make_room(ann, {"bob"});
  for (int i = 0; i < 50; ++i) {
    all.push_back(connect("bob"));
    enter(all.back(), room);
  }
  auto count = [&] {
    int n = 0;
    for (auto& a : ctx_->meters.snapshot())
      n += a.kind == "session" ? 1 : 0;
    return n;
  };
  EXPECT_EQ(count(), 51);
  for (auto& p : all)
    disconnect(p);
  disconnect(ann);
  advance(seconds(1));
  EXPECT_EQ(count(), 0);
  EXPECT_EQ(metrics_.sessions.get(), 0);
  EXPECT_TRUE(ctx_->sessions.all().empty());
}

TEST_F(people_test, a_meter_shows_a_mailbox_from_outside) {
  auto ann = connect("ann");
  for (int i = 0; i < 7; ++i)
    post(ann, wire::ping{});
  auto length = [&] {
    for (auto& a : ctx_->meters.snapshot())
      if (a.kind == "session") return a.mailbox;
    return std::int64_t{-1};
  };
  EXPECT_EQ(length(), 7);
  run();
  EXPECT_EQ(length(), 0);
}

}  // namespace
}  // namespace parley::test
