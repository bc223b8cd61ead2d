// The part of the suite over all stores that reads: pages, lists, their cost in statements, and
// accounts. See store_suite.hpp for the part that commits.
#pragma once
#include <algorithm>

#include "tests/storage/support.hpp"

namespace parley::storage::test {

using enum outcome;

template <class Backend> class read_suite : public store_fixture<Backend> {};
TYPED_TEST_SUITE_P(read_suite);

// ---- reading

TYPED_TEST_P(read_suite, history_pages_cover_every_message_once) {
  const auto a = this->user("a");
  auto room = this->room("r_1", {a});
  std::vector<seq_no> all;
  for (int i = 0; i < 23; ++i) {
    if (i % 5 == 4)
      this->propose(room, [&](auto& c) { c.push_back(room.rename(a, std::to_string(i))); });
    this->say(room, a, "n" + std::to_string(i));
    all.push_back(room.head);
  }
  std::vector<seq_no> seen;
  std::optional<seq_no> before;
  for (bool more = true; more;) {
    const auto page = must(this->r->history(room.key, before, {}, 5, 1));
    EXPECT_EQ(page.as_of, room.head);
    EXPECT_LE(page.messages.size(), 5u);
    EXPECT_TRUE(std::is_sorted(page.messages.begin(), page.messages.end(),
                               [](auto& x, auto& y) { return x.seq < y.seq; }));
    for (auto m = page.messages.rbegin(); m != page.messages.rend(); ++m)
      seen.push_back(m->seq);
    before = page.messages.front().seq;
    more = page.more;
  }
  std::reverse(seen.begin(), seen.end());
  EXPECT_EQ(seen, all);
  seen.clear();
  std::optional<seq_no> after = 0;
  for (bool more = true; more;) {
    const auto page = must(this->r->history(room.key, {}, after, 5, 1));
    for (const auto& m : page.messages)
      seen.push_back(m.seq);
    after = page.messages.back().seq;
    more = page.more;
  }
  EXPECT_EQ(seen, all);
  // What lies before the first visible seq is neither told nor counted as more.
  const auto page = must(this->r->history(room.key, {}, {}, 50, all[20]));
  ASSERT_EQ(page.messages.size(), 3u);
  EXPECT_EQ(page.messages[0].seq, all[20]);
  EXPECT_FALSE(page.more);
  EXPECT_EQ(this->r->history(room_key{999}, {}, {}, 50, 1).error().code, errc::not_found);
}

TYPED_TEST_P(read_suite, history_has_the_present_state) {
  const auto a = this->user("a");
  auto room = this->room("r_1", {a});
  this->say(room, a, "n0");
  auto first = room.message(a, "n1", "first");
  std::get<append_message>(first.what).reply_to = 2;
  this->commit({room.key, 1, room.head - 1, {first}});
  this->say(room, a, "n2", "second");
  this->b.query("update messages set text = 'edited', edited_at = 77 where nonce = 'n1'");
  this->b.query("update messages set text = '', deleted = 1 where nonce = 'n2'");
  const auto page = must(this->r->history(room.key, {}, 2, 50, 1));
  EXPECT_EQ(page.messages[0].text, "edited");
  EXPECT_EQ(page.messages[0].edited_at, 77);
  EXPECT_EQ(page.messages[0].reply_to, 2);
  EXPECT_TRUE(page.messages[1].deleted);
  EXPECT_EQ(page.messages[1].edited_at, std::nullopt);
  const auto events = must(this->r->events(room.key, 2, 10, 1 << 20)).events;
  EXPECT_EQ(events[0].msg.text, "edited");
  EXPECT_TRUE(events[1].msg.deleted);
  EXPECT_EQ(this->summary(a, room.key).last->text, "edited") << "the last one that is not deleted";
}

TYPED_TEST_P(read_suite, pages_end_before_an_answer_grows_too_large) {
  const auto a = this->user("a");
  auto room = this->room("r_1", {a});
  for (int i = 0; i < 30; ++i)
    this->say(room, a, "n" + std::to_string(i), std::string(16000, 'x'));
  const auto page = must(this->r->history(room.key, {}, {}, 200, 1));
  EXPECT_TRUE(page.more);
  EXPECT_EQ(page.messages.size(), 7u);
  EXPECT_EQ(page.messages.back().seq, room.head) << "the newest ones";
  const auto events = must(this->r->events(room.key, 1, 1000, 65536));
  EXPECT_TRUE(events.more);
  EXPECT_EQ(events.events.size(), 3u);
  EXPECT_EQ(must(this->r->events(room.key, 1, 1000, 10)).events.size(), 1u) << "one at least";
}

TYPED_TEST_P(read_suite, events_come_gapless_in_pages) {
  const auto a = this->user("a"), b = this->user("b");
  auto room = this->room("r_1", {a});
  for (int i = 0; i < 10; ++i) {
    this->say(room, a, "n" + std::to_string(i));
    this->propose(room, [&](auto& c) {
      c.push_back(i % 2 == 0 ? room.join(b) : room.leave(b));
      c.push_back(room.rename(a, std::to_string(i)));
    });
  }
  std::vector<seq_no> seen;
  bool more = true;
  while (more) {
    const auto page = must(this->r->events(room.key, seen.empty() ? 0 : seen.back(), 7, 1 << 20));
    for (const auto& e : page.events)
      seen.push_back(e.seq);
    more = page.more;
  }
  std::vector<seq_no> all(static_cast<std::size_t>(room.head));
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<seq_no>(i) + 1;
  EXPECT_EQ(seen, all);
  const auto first = must(this->r->events(room.key, 1, 1, 1 << 20)).events.at(0);
  EXPECT_EQ(first.kind, event_kind::message_created);
  EXPECT_EQ(first.msg.seq, 2);
  EXPECT_EQ(first.msg.text, "text");
  EXPECT_EQ(first.msg.nonce, "n0");
  EXPECT_EQ(first.msg.sender_id, "u_a");
  EXPECT_EQ(first.sender_id, "u_a");
  EXPECT_TRUE(must(this->r->events(room.key, room.head, 10, 1 << 20)).events.empty());
}

TYPED_TEST_P(read_suite, the_room_list_pages_by_last_activity) {
  const auto a = this->user("a"), b = this->user("b");
  std::vector<model_room> rooms;
  for (int i = 0; i < 12; ++i)
    rooms.push_back(this->room("r_" + std::to_string(i), {a, b}));
  // Rooms of the same last activity are told apart by their key; r_3 has the newest.
  this->say(rooms[3], b, "n1", "hello");
  std::vector<std::string> seen;
  std::string cursor;
  do {
    const auto page = must(this->r->room_list(a, cursor, 5));
    EXPECT_EQ(page.all.size(), 12u);
    for (const auto& s : page.rooms)
      seen.push_back(s.id);
    cursor = page.next;
  } while (!cursor.empty());
  ASSERT_EQ(seen.size(), 12u);
  EXPECT_EQ(seen[0], "r_3");
  EXPECT_EQ(seen[1], "r_11");
  EXPECT_EQ(seen[11], "r_0");
  const auto s = this->summary(a, rooms[3].key);
  EXPECT_EQ(s.unread, 1);
  EXPECT_EQ(s.members, 2);
  EXPECT_EQ(s.last_seq, 3);
  EXPECT_EQ(s.read_seq, 1);
  EXPECT_EQ(s.my_role, role::owner);
  ASSERT_TRUE(s.last.has_value());
  EXPECT_EQ(s.last->seq, 3);
  EXPECT_EQ(s.last->text, "hello");
  EXPECT_EQ(s.last->sender_id, "u_b");
  EXPECT_EQ(s.last_at, rooms[3].now);
  EXPECT_EQ(must(this->r->rooms_of(b)).size(), 12u);
  for (const std::string bad : {"zz", "1", "3a", "31323a", "x\xff"})
    EXPECT_EQ(this->r->room_list(a, bad, 5).error().code, errc::bad_request) << bad;
}

TYPED_TEST_P(read_suite, a_preview_shows_100_code_points_and_nothing_from_before_the_join) {
  const auto a = this->user("a"), b = this->user("b");
  auto room = this->room("r_1", {a});
  std::string text;
  for (int i = 0; i < 150; ++i)
    text += "あ";
  this->say(room, a, "n1", text);
  EXPECT_EQ(this->summary(a, room.key).last->text, text.substr(0, 300));
  append_room_change joined;
  joined.seq = ++room.head;
  joined.at = ++room.now;
  joined.by = a;
  joined.settings.history = history_policy::joined;
  this->commit({room.key, 1, room.head - 1, {{joined, {}}}});
  this->propose(room, [&](auto& c) { c.push_back(room.join(b)); });
  EXPECT_EQ(this->summary(b, room.key).last, std::nullopt);
  EXPECT_NE(this->summary(a, room.key).last, std::nullopt);
  this->say(room, a, "n2", "seen");
  EXPECT_EQ(this->summary(b, room.key).last->text, "seen");
}

TYPED_TEST_P(read_suite, statements_of_reads_do_not_grow_with_the_room) {
  const auto a = this->user("a");
  const auto cost = [&](auto&& what) {
    const auto before = this->m.statements.get();
    what();
    return this->m.statements.get() - before;
  };
  std::vector<user_key> few{a}, many{a};
  for (int i = 0; i < 60; ++i)
    many.push_back(this->user("m" + std::to_string(i)));
  auto small = this->room("r_1", few), large = this->room("r_2", many);
  for (int i = 0; i < 50; ++i)
    this->say(large, a, "n" + std::to_string(i));
  EXPECT_EQ(cost([&] { must(this->r->load_room("r_1")); }),
            cost([&] { must(this->r->load_room("r_2")); }));
  EXPECT_EQ(cost([&] { must(this->r->load_room("r_2")); }), 4) << "begin, room, members, commit";
  EXPECT_EQ(cost([&] { must(this->r->history(large.key, {}, {}, 50, 1)); }), 4);
  EXPECT_EQ(cost([&] { must(this->r->events(large.key, 0, 1000, 1 << 20)); }), 1);
  const auto one = cost([&] { must(this->r->room_list(many[5], "", 100)); });
  for (int i = 3; i < 20; ++i)
    this->room("r_" + std::to_string(i), {a, many[5]});
  EXPECT_EQ(cost([&] { must(this->r->room_list(many[5], "", 100)); }), one);
  EXPECT_EQ(one, 4);
  EXPECT_EQ(cost([&] { must(this->r->users_by_id({"u_m1", "u_m2", "u_m3"})); }), 1);
  EXPECT_EQ(cost([&] { must(this->r->account_by_id("u_m1")); }), 1);
  EXPECT_EQ(cost([&] { must(this->r->credentials_by_name("m1")); }), 1);
}

// ---- accounts

TYPED_TEST_P(read_suite, a_name_and_an_id_are_taken_once) {
  this->user("ann", "hash");
  new_user u;
  u.id = "u_other";
  u.name = "Ann";
  u.folded_name = "ann";
  auto done = this->o.writer->apply(u);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, errc::conflict);
  u.id = "u_ann";
  u.name = u.folded_name = "bob";
  done = this->o.writer->apply(u);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, errc::conflict);
  EXPECT_EQ(this->b.query("select count(*) from users").at(0), "1");
}

TYPED_TEST_P(read_suite, an_account_is_read_as_it_was_written) {
  const auto key = this->user("ann", "hash");
  auto c = must(this->r->credentials_by_name("ann"));
  EXPECT_EQ(c.password_hash, "hash");
  EXPECT_EQ(c.who.who.key, key);
  EXPECT_EQ(c.who.who.id, "u_ann");
  EXPECT_EQ(c.who.generation, 1);
  EXPECT_TRUE(c.devices.empty());
  EXPECT_EQ(this->r->credentials_by_name("nobody").error().code, errc::not_found);
  EXPECT_EQ(this->r->account_by_id("u_nobody").error().code, errc::not_found);

  auto a = must(this->o.writer->apply(update_profile{key, "Ann A.", std::nullopt}));
  EXPECT_EQ(a.who.display_name, "Ann A.");
  a = must(this->o.writer->apply(update_profile{key, std::nullopt, "pic"}));
  EXPECT_EQ(a.who.display_name, "Ann A.");
  EXPECT_EQ(a.who.picture, "pic");
  EXPECT_EQ(this->o.writer->apply(update_profile{user_key{99}, "x", {}}).error().code,
            errc::not_found);

  a = must(this->o.writer->apply(set_password{key, "new hash", true}));
  EXPECT_EQ(a.generation, 2);
  a = must(this->o.writer->apply(set_password{key, "newer hash", false}));
  EXPECT_EQ(a.generation, 2);
  EXPECT_EQ(must(this->r->credentials_by_name("ann")).password_hash, "newer hash");

  must(this->o.writer->apply(remember_device{key, "d1", 1}));
  must(this->o.writer->apply(remember_device{key, "d2", 2}));
  must(this->o.writer->apply(remember_device{key, "d1", 3}));
  EXPECT_EQ(must(this->r->credentials_by_name("ann")).devices,
            (std::vector<std::string>{"d1", "d2"}));

  must(this->o.writer->apply(touch_seen{{{key, 500}}}));
  must(this->o.writer->apply(touch_seen{{{key, 400}}}));
  EXPECT_EQ(must(this->r->account_by_id("u_ann")).last_seen, 500) << "never back";
}

TYPED_TEST_P(read_suite, a_user_without_a_password_has_no_credentials) {
  this->user("token");
  EXPECT_EQ(must(this->r->credentials_by_name("token")).password_hash, "");
}

TYPED_TEST_P(read_suite, revoked_tokens_are_kept_until_they_expire) {
  const auto key = this->user("ann");
  const auto far = std::int64_t{4'000'000'000'000};
  must(this->o.writer->apply(revoke_token{key, "j1", far}));
  const auto a = must(this->o.writer->apply(revoke_token{key, "j2", far}));
  EXPECT_EQ(a.revoked, (std::vector<std::string>{"j1", "j2"}));
  must(this->o.writer->apply(revoke_token{key, "gone", 5}));
  EXPECT_EQ(must(this->r->account_by_id("u_ann")).revoked, (std::vector<std::string>{"j1", "j2"}));
  this->o.writer->idle();
  EXPECT_EQ(this->b.query("select count(*) from revocations").at(0), "2")
      << "the expired one is swept";
}

TYPED_TEST_P(read_suite, a_suspension_ends_by_hand_or_by_time) {
  const auto key = this->user("ann");
  auto a = must(this->o.writer->apply(suspend_user{key, true, std::nullopt, "spam", 1}));
  EXPECT_TRUE(a.suspended);
  EXPECT_EQ(a.suspended_reason, "spam");
  a = must(this->o.writer->apply(suspend_user{key, false, std::nullopt, "", 2}));
  EXPECT_FALSE(a.suspended);
  a = must(this->o.writer->apply(suspend_user{key, true, 4'000'000'000'000, "slow", 3}));
  EXPECT_TRUE(a.suspended);
  EXPECT_EQ(a.suspended_until, 4'000'000'000'000);
  a = must(this->o.writer->apply(suspend_user{key, true, 10, "past", 4}));
  EXPECT_FALSE(a.suspended);
}

TYPED_TEST_P(read_suite, an_invitation_is_used_once_and_before_it_expires) {
  must(this->o.writer->apply(make_invitation{"code", 1, 4'000'000'000'000}));
  must(this->o.writer->apply(make_invitation{"late", 1, 50}));
  EXPECT_EQ(this->o.writer->apply(make_invitation{"code", 1, 2}).error().code, errc::conflict);
  const auto come = [&](const std::string& name, const std::string& code) {
    new_user u;
    u.id = "u_" + name;
    u.name = u.folded_name = name;
    u.at = 100;
    u.invitation = code;
    return this->o.writer->apply(u);
  };
  EXPECT_EQ(come("a", "wrong").error().code, errc::forbidden);
  EXPECT_EQ(come("a", "late").error().code, errc::forbidden);
  EXPECT_TRUE(come("a", "code"));
  EXPECT_EQ(come("b", "code").error().code, errc::forbidden);
  EXPECT_EQ(this->b.query("select count(*) from users").at(0), "1") << "the refused left nothing";
}

TYPED_TEST_P(read_suite, users_are_found_by_id_and_by_name) {
  this->user("anna");
  this->user("hannah");
  this->user("bob");
  const auto some =
      must(this->r->users_by_id({"u_bob", "u_nobody", "u_anna", "'; drop table users; --"}));
  ASSERT_EQ(some.size(), 2u);
  EXPECT_EQ(some[0].id, "u_bob");
  EXPECT_EQ(some[1].id, "u_anna");
  EXPECT_EQ(must(this->r->list_users("", 10)).size(), 3u);
  EXPECT_EQ(must(this->r->list_users("", 2)).size(), 2u);
  EXPECT_EQ(must(this->r->list_users("ANNA", 10)).size(), 2u);
  EXPECT_EQ(must(this->r->list_users("u_bob", 10)).size(), 1u);
  EXPECT_EQ(must(this->r->list_users("%", 10)).size(), 0u);
}

REGISTER_TYPED_TEST_SUITE_P(
    read_suite, history_pages_cover_every_message_once, history_has_the_present_state,
    pages_end_before_an_answer_grows_too_large, events_come_gapless_in_pages,
    the_room_list_pages_by_last_activity,
    a_preview_shows_100_code_points_and_nothing_from_before_the_join,
    statements_of_reads_do_not_grow_with_the_room, a_name_and_an_id_are_taken_once,
    an_account_is_read_as_it_was_written, a_user_without_a_password_has_no_credentials,
    revoked_tokens_are_kept_until_they_expire, a_suspension_ends_by_hand_or_by_time,
    an_invitation_is_used_once_and_before_it_expires, users_are_found_by_id_and_by_name);

}  // namespace parley::storage::test
