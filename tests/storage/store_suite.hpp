// The one suite over all stores: what a store promises, whatever lies below (read_suite.hpp has
// what only reads). A backend gives a configuration and a way to query the database from outside.
#pragma once
#include <algorithm>
#include <random>
#include <set>

#include "tests/storage/support.hpp"

namespace parley::storage::test {

using enum outcome;

template <class Backend> class store_suite : public store_fixture<Backend> {};
TYPED_TEST_SUITE_P(store_suite);

// ---- durable, in order, once

TYPED_TEST_P(store_suite, what_is_committed_is_there_after_a_reopen) {
  const auto a = this->user("a"), b = this->user("b");
  auto room = this->room("r_1", {a, b});
  this->say(room, a, "n1", "first");
  this->say(room, b, "n2", "zweite ☕ '\"\\ :x");
  this->reopen();
  const auto page = must(this->r->history(room.key, {}, {}, 50, 1));
  ASSERT_EQ(page.messages.size(), 2u);
  EXPECT_EQ(page.messages[0].text, "first");
  EXPECT_EQ(page.messages[1].text, "zweite ☕ '\"\\ :x");
  EXPECT_EQ(page.messages[1].sender_id, "u_b");
  EXPECT_EQ(page.messages[1].nonce, "n2");
  EXPECT_EQ(page.messages[1].seq, 4);
  EXPECT_EQ(page.messages[1].n, 2);
  EXPECT_EQ(page.as_of, 4);
  EXPECT_EQ(this->findings(), std::vector<std::string>{});
}

TYPED_TEST_P(store_suite, a_text_is_kept_byte_for_byte) {
  const auto a = this->user("a");
  auto room = this->room("r_1", {a});
  const std::string text = "a\r\n\t b  \xEF\xBB\xBF\xE2\x80\x8D \x01 end ";
  this->say(room, a, "n1", text);
  EXPECT_EQ(must(this->r->history(room.key, {}, {}, 50, 1)).messages.at(0).text, text);
}

TYPED_TEST_P(store_suite, a_known_nonce_is_a_duplicate_and_what_stands_behind_it_is_superseded) {
  const auto a = this->user("a"), b = this->user("b");
  auto room = this->room("r_1", {a, b});
  this->say(room, a, "old", "first");
  const auto first = room.head;
  auto at_duplicate = room;
  const auto done = this->propose(room, [&](auto& changes) {
    changes.push_back(room.message(b, "n1"));
    at_duplicate = room;
    changes.push_back(room.message(a, "old", "another"));
    changes.push_back(room.message(b, "n2"));
    changes.push_back(read(a, 1));
  });
  EXPECT_EQ(outcomes(done), (std::vector{committed, duplicate, superseded, superseded}));
  EXPECT_EQ(done[1].seq, first);
  EXPECT_EQ(done[1].request_hash, "hash of first");
  EXPECT_FALSE(done[1].deleted);
  // The numbers are used again, in the same order.
  room = at_duplicate;
  this->say(room, b, "n2");
  EXPECT_EQ(room.head, first + 2);
  EXPECT_EQ(this->findings(), std::vector<std::string>{});
}

TYPED_TEST_P(store_suite, the_nonce_of_a_deleted_message_is_still_known) {
  const auto a = this->user("a");
  auto room = this->room("r_1", {a});
  this->say(room, a, "n1", "gone");
  this->b.query("update messages set deleted = 1, text = ''");
  const auto before = room;
  auto done = this->propose(room, [&](auto& c) { c.push_back(room.message(a, "n1", "gone")); });
  EXPECT_EQ(done[0].what, duplicate);
  EXPECT_TRUE(done[0].deleted);
  EXPECT_EQ(done[0].request_hash, "hash of gone");
  room = before;
  done = this->propose(room, [&](auto& c) { c.push_back(find(a, "n1")); });
  EXPECT_EQ(done[0].what, committed);
  EXPECT_TRUE(done[0].found);
  EXPECT_TRUE(done[0].deleted);
}

TYPED_TEST_P(store_suite, a_nonce_belongs_to_its_sender_and_room) {
  const auto a = this->user("a"), b = this->user("b");
  auto one = this->room("r_1", {a, b}), two = this->room("r_2", {a, b});
  this->say(one, a, "same");
  this->say(one, b, "same");
  this->say(two, a, "same");
  EXPECT_EQ(this->findings(), std::vector<std::string>{});
}

TYPED_TEST_P(store_suite, nonces_are_looked_up_in_the_order_of_the_changes) {
  const auto a = this->user("a");
  auto room = this->room("r_1", {a});
  const auto done = this->propose(room, [&](auto& c) {
    c.push_back(find(a, "n1"));
    c.push_back(room.message(a, "n1"));
    c.push_back(find(a, "n1"));
  });
  EXPECT_FALSE(done[0].found);
  EXPECT_TRUE(done[2].found);
  EXPECT_EQ(done[2].seq, 2);
}

TYPED_TEST_P(store_suite, an_op_nonce_makes_the_change_a_duplicate) {
  const auto a = this->user("a"), b = this->user("b");
  auto room = this->room("r_1", {a});
  auto done =
      this->propose(room, [&](auto& c) { c.push_back(with_nonce(room.join(b), b, "j1", "h1")); });
  EXPECT_EQ(done[0].what, committed);
  const auto joined = room.head;
  this->say(room, b, "j1");  // messages have nonces of their own
  const auto before = room;
  done = this->propose(room, [&](auto& c) {
    c.push_back(with_nonce(room.leave(b), b, "j1", "h2"));
    c.push_back(room.message(b, "m2"));
  });
  EXPECT_EQ(outcomes(done), (std::vector{duplicate, superseded}));
  EXPECT_EQ(done[0].seq, joined);
  EXPECT_EQ(done[0].request_hash, "h1");
  room = before;
  done = this->propose(
      room, [&](auto& c) { c.push_back(with_nonce(room.rename(a, "new"), a, "j1", "h3")); });
  EXPECT_EQ(done[0].what, committed);
  EXPECT_EQ(this->findings(), std::vector<std::string>{});
}

TYPED_TEST_P(store_suite, a_reply_to_what_is_no_message_is_refused_alone) {
  const auto a = this->user("a");
  auto room = this->room("r_1", {a});
  this->say(room, a, "n1");  // 2
  const auto reply = [&](const std::string& nonce, seq_no to) {
    auto c = room.message(a, nonce);
    std::get<append_message>(c.what).reply_to = to;
    return c;
  };
  for (const seq_no to : {1, 77, 0}) {
    const auto before = room;
    const auto done = this->propose(room, [&](auto& c) {
      c.push_back(reply("n2", to));
      c.push_back(room.message(a, "n3"));
    });
    EXPECT_EQ(outcomes(done), (std::vector{refused, superseded})) << to;
    EXPECT_EQ(done[0].why.code, errc::not_found);
    room = before;
  }
  const auto before = room;
  auto done = this->propose(room, [&](auto& c) { c.push_back(reply("n1", 77)); });
  EXPECT_EQ(done[0].what, duplicate) << "the nonce is looked up before every other check";
  room = before;
  done = this->propose(room, [&](auto& c) {
    c.push_back(room.message(a, "n4"));
    c.push_back(reply("n5", 3));
  });
  EXPECT_EQ(outcomes(done), (std::vector{committed, committed}))
      << "one in the same share can be answered";
  EXPECT_EQ(this->findings(), std::vector<std::string>{});
}

// ---- shares

TYPED_TEST_P(store_suite, a_refused_share_touches_no_other) {
  const auto a = this->user("a");
  auto one = this->room("r_1", {a}), two = this->room("r_2", {a}), three = this->room("r_3", {a});
  std::vector<room_share> shares{one.share(), two.share(), three.share()};
  shares[0].changes.push_back(one.message(a, "n1"));
  two.head += 5;  // a hole
  shares[1].changes.push_back(two.message(a, "n1"));
  shares[2].changes.push_back(three.message(a, "n1"));
  const auto done = this->o.writer->commit(shares);
  EXPECT_EQ(done[0].results[0].what, committed);
  EXPECT_EQ(done[1].results[0].what, refused);
  EXPECT_EQ(done[1].results[0].why.code, errc::internal);
  EXPECT_EQ(done[2].results[0].what, committed);
  EXPECT_EQ(this->findings(), std::vector<std::string>{});
}

TYPED_TEST_P(store_suite, what_stood_before_a_refused_change_stays) {
  const auto a = this->user("a");
  for (const bool alone : {true, false}) {
    auto room = this->room(alone ? "r_1" : "r_2", {a}),
         other = this->room(alone ? "r_3" : "r_4", {a});
    std::vector<room_share> shares{room.share()};
    shares[0].changes.push_back(room.message(a, "n1"));
    shares[0].changes.push_back(room.message(a, "n2"));
    const auto good = room;
    ++room.head;  // a hole
    shares[0].changes.push_back(room.message(a, "n3"));
    shares[0].changes.push_back(room.message(a, "n4"));
    if (!alone) {
      shares.push_back(other.share());
      shares[1].changes.push_back(other.message(a, "n1"));
    }
    const auto done = this->o.writer->commit(shares);
    EXPECT_EQ(outcomes(done[0].results), (std::vector{committed, committed, refused, refused}));
    if (!alone) {
      EXPECT_EQ(done[1].results[0].what, committed);
    }
    room = good;
    this->say(room, a, "n3");
  }
  EXPECT_EQ(this->findings(), std::vector<std::string>{});
}

TYPED_TEST_P(store_suite, a_stale_owner_writes_nothing) {
  const auto a = this->user("a"), b = this->user("b");
  auto room = this->room("r_1", {a, b});
  auto stale = room;
  this->say(room, b, "n1");
  for (auto make : {0, 1, 2}) {
    auto share = stale.share();
    auto copy = stale;
    if (make == 0) share.changes.push_back(copy.message(a, "x" + std::to_string(make)));
    if (make == 1) share.changes.push_back(read(a, 1));
    if (make == 2) share.changes.push_back(copy.rename(a, "stolen"));
    const auto done = this->commit(share);
    EXPECT_EQ(done[0].what, refused) << make;
    EXPECT_EQ(done[0].why.code, errc::internal);
  }
  this->b.query("update rooms set term = 2");
  auto share = room.share();
  auto copy = room;
  share.changes.push_back(copy.message(a, "y"));
  EXPECT_EQ(this->commit(share)[0].what, refused);
  room.term = 2;
  this->say(room, a, "z");
  EXPECT_EQ(this->findings(), std::vector<std::string>{});
}

TYPED_TEST_P(store_suite, one_who_is_no_member_cannot_send) {
  const auto a = this->user("a"), b = this->user("b");
  auto room = this->room("r_1", {a});
  const auto before = room;
  auto share = room.share();
  share.changes.push_back(room.message(b, "n1"));
  EXPECT_EQ(this->commit(share)[0].what, refused);
  room = before;
  this->say(room, a, "n1");
  EXPECT_EQ(this->findings(), std::vector<std::string>{});
}

// ---- read marks

TYPED_TEST_P(store_suite, a_read_mark_moves_forward_only_and_not_beyond_the_head) {
  const auto a = this->user("a"), b = this->user("b");
  auto room = this->room("r_1", {a, b});  // events 1, 2
  this->say(room, a, "n1");               // 3, n 1
  this->say(room, b, "n2");               // 4, n 2
  this->say(room, a, "n3");               // 5, n 3
  this->say(room, a, "n4");               // 6, n 4
  EXPECT_EQ(this->summary(b, room.key).unread, 2);
  auto done = this->propose(room, [&](auto& c) { c.push_back(read(b, 5)); });
  EXPECT_EQ(done[0].what, committed);
  EXPECT_EQ(done[0].read_seq, 5);
  EXPECT_EQ(done[0].read_n, 3);
  EXPECT_EQ(done[0].read_own, 1);
  EXPECT_EQ(this->summary(b, room.key).unread, 1);
  done = this->propose(room, [&](auto& c) { c.push_back(read(b, 3)); });
  EXPECT_EQ(done[0].what, committed);
  EXPECT_EQ(done[0].read_seq, 5);
  done = this->propose(room, [&](auto& c) { c.push_back(read(b, 1000)); });
  EXPECT_EQ(done[0].read_seq, 6);
  EXPECT_EQ(done[0].read_n, 4);
  EXPECT_EQ(this->summary(b, room.key).unread, 0);
  EXPECT_EQ(this->findings(), std::vector<std::string>{});
}

TYPED_TEST_P(store_suite, unread_sets_the_mark_before_a_live_message) {
  const auto a = this->user("a"), b = this->user("b");
  auto room = this->room("r_1", {a, b});
  for (int i = 0; i < 4; ++i)
    this->say(room, i == 1 ? b : a, "n" + std::to_string(i));  // 3 to 6; 4 is b's
  auto done = this->propose(room, [&](auto& c) { c.push_back(read(b, 6)); });
  done = this->propose(room, [&](auto& c) { c.push_back(read(b, 4, true)); });
  EXPECT_EQ(done[0].what, committed);
  EXPECT_EQ(done[0].read_seq, 3);
  EXPECT_EQ(done[0].read_n, 1);
  EXPECT_EQ(done[0].read_own, 0);
  EXPECT_EQ(this->summary(b, room.key).unread, 2);  // 5 and 6
  this->b.query("update messages set deleted = 1, text = '' where seq = 5");
  EXPECT_EQ(this->summary(b, room.key).unread, 1);
  // A deleted one, an event that is no message, one that is not there.
  for (const seq_no seq : {5, 1, 99, 0}) {
    auto before = room;
    done = this->propose(room, [&](auto& c) {
      c.push_back(read(b, seq, true));
      c.push_back(room.message(a, "behind"));
    });
    EXPECT_EQ(outcomes(done), (std::vector{refused, superseded})) << seq;
    EXPECT_EQ(done[0].why.code, errc::not_found);
    room = before;
  }
  EXPECT_EQ(this->summary(b, room.key).read_seq, 3);
  EXPECT_EQ(this->findings(), std::vector<std::string>{});
}

TYPED_TEST_P(store_suite, one_who_is_no_member_has_no_mark) {
  const auto a = this->user("a"), b = this->user("b");
  auto room = this->room("r_1", {a});
  const auto done = this->propose(room, [&](auto& c) { c.push_back(read(b, 1)); });
  EXPECT_EQ(done[0].what, refused);
  EXPECT_EQ(done[0].why.code, errc::not_found);
}

TYPED_TEST_P(store_suite, marks_follow_the_order_inside_a_share) {
  const auto a = this->user("a"), b = this->user("b");
  auto room = this->room("r_1", {a, b});
  const auto done = this->propose(room, [&](auto& c) {
    c.push_back(room.message(a, "n1"));  // 3
    c.push_back(read(b, 99));
    c.push_back(room.message(b, "n2"));  // 4
    c.push_back(room.message(a, "n3"));  // 5
    c.push_back(read(a, 4, true));
    c.push_back(room.message(b, "n4"));  // 6
  });
  EXPECT_EQ(done[1].read_seq, 3);
  EXPECT_EQ(done[4].read_seq, 3);
  EXPECT_EQ(done[4].read_n, 1);
  EXPECT_EQ(done[4].read_own, 1);
  EXPECT_EQ(this->summary(a, room.key).unread, 2);  // 4 and 6
  EXPECT_EQ(this->summary(b, room.key).unread, 0);
  EXPECT_EQ(this->findings(), std::vector<std::string>{});
}

// ---- rooms and members

TYPED_TEST_P(store_suite, a_room_is_made_with_its_members_as_events) {
  const auto a = this->user("a"), b = this->user("b"), c = this->user("c");
  const auto made = this->create(this->creation("r_1", {a, b, c}));
  ASSERT_EQ(made.what, committed);
  EXPECT_EQ(made.seq, 3);
  EXPECT_EQ(made.room_id, "r_1");
  const auto load = must(this->r->load_room("r_1"));
  EXPECT_EQ(load.room.key, made.room);
  EXPECT_EQ(load.room.head_seq, 3);
  EXPECT_EQ(load.room.head_n, 0);
  EXPECT_EQ(load.room.name, "Room r_1");
  EXPECT_EQ(load.room.last, std::nullopt) << "no message yet";
  ASSERT_EQ(load.members.size(), 3u);
  EXPECT_EQ(load.members[0].who.id, "u_a");
  EXPECT_EQ(load.members[0].r, role::owner);
  EXPECT_EQ(load.members[2].r, role::member);
  EXPECT_EQ(load.members[2].joined_seq, 3);
  EXPECT_EQ(load.members[2].state, membership::joined);
  const auto events = must(this->r->events(made.room, 0, 100, 1 << 20)).events;
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].kind, event_kind::member_joined);
  EXPECT_EQ(events[0].role_name, "owner");
  EXPECT_EQ(events[0].by_id, "");
  EXPECT_EQ(events[1].user.id, "u_b");
  EXPECT_EQ(events[1].user.display_name, "b");
  EXPECT_EQ(events[1].by_id, "u_a");
  EXPECT_EQ(this->r->load_room("r_2").error().code, errc::not_found);
  EXPECT_EQ(this->findings(), std::vector<std::string>{});
}

TYPED_TEST_P(store_suite, a_room_is_made_once_per_nonce_pair_and_id) {
  const auto a = this->user("a"), b = this->user("b"), c = this->user("c");
  const auto first = this->create(this->creation("r_1", {a, b}, room_kind::private_room, "n1"));
  ASSERT_EQ(first.what, committed);
  auto again = this->create(this->creation("r_2", {a}, room_kind::public_room, "n1"));
  EXPECT_EQ(again.what, duplicate);
  EXPECT_EQ(again.room, first.room);
  EXPECT_EQ(again.room_id, "r_1");
  EXPECT_EQ(again.seq, 2);
  EXPECT_EQ(this->create(this->creation("r_2", {b}, room_kind::public_room, "n1")).what, committed);
  const auto direct = this->create(this->creation("r_3", {a, b}, room_kind::direct, "n2"));
  ASSERT_EQ(direct.what, committed);
  again = this->create(this->creation("r_4", {b, a}, room_kind::direct, "n9"));
  EXPECT_EQ(again.what, duplicate);
  EXPECT_EQ(again.room_id, "r_3");
  EXPECT_EQ(this->create(this->creation("r_5", {b, c}, room_kind::direct)).what, committed);
  const auto taken = this->create(this->creation("r_1", {c}));
  EXPECT_EQ(taken.what, refused);
  EXPECT_EQ(taken.why.code, errc::conflict);
  EXPECT_EQ(this->findings(), std::vector<std::string>{});
}

TYPED_TEST_P(store_suite, one_who_comes_back_goes_on_with_the_own_count) {
  const auto a = this->user("a"), b = this->user("b");
  auto room = this->room("r_1", {a, b});
  this->say(room, b, "n1");
  this->say(room, b, "n2");
  auto done = this->propose(room, [&](auto& c) { c.push_back(room.leave(b)); });
  EXPECT_EQ(done[0].what, committed);
  EXPECT_EQ(must(this->r->room_list(b, "", 10)).rooms.size(), 0u);
  EXPECT_EQ(this->summary(a, room.key).members, 1);
  auto load = must(this->r->load_room("r_1"));
  ASSERT_EQ(load.members.size(), 2u) << "one who wrote is loaded, so that the count goes on";
  EXPECT_EQ(load.members[1].state, membership::left);
  EXPECT_EQ(load.members[1].own_n, 2);
  this->say(room, a, "n3");
  done = this->propose(room, [&](auto& c) {
    c.push_back(room.join(b));
    c.push_back(room.message(a, "n4"));
    c.push_back(room.message(b, "n5"));
    c.push_back(room.message(a, "n6"));
  });
  EXPECT_EQ(outcomes(done), (std::vector{committed, committed, committed, committed}));
  load = must(this->r->load_room("r_1"));
  EXPECT_EQ(load.members[1].own_n, 3);
  EXPECT_EQ(this->summary(b, room.key).unread, 1);
  EXPECT_EQ(this->summary(b, room.key).members, 2);
  EXPECT_EQ(this->findings(), std::vector<std::string>{});
}

TYPED_TEST_P(store_suite, an_invited_one_is_no_member_yet) {
  const auto a = this->user("a"), b = this->user("b");
  auto room = this->room("r_1", {a}, room_kind::private_room);
  this->propose(room, [&](auto& c) {
    c.push_back(room.member(event_kind::member_changed, b, a, membership::invited, role::member,
                            "invited"));
  });
  EXPECT_EQ(must(this->r->room_list(b, "", 10)).rooms.size(), 0u);
  const auto load = must(this->r->load_room("r_1"));
  ASSERT_EQ(load.members.size(), 2u);
  const auto& invited = load.members[0].who.id == "u_b" ? load.members[0] : load.members[1];
  EXPECT_EQ(invited.state, membership::invited);
  EXPECT_EQ(this->summary(a, room.key).members, 1);
  const auto events = must(this->r->events(room.key, 1, 10, 1 << 20)).events;
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, event_kind::member_changed);
  EXPECT_EQ(events[0].role_name, "invited");
  EXPECT_EQ(events[0].user.id, "u_b");
  EXPECT_EQ(events[0].by_id, "u_a");
  EXPECT_EQ(this->findings(), std::vector<std::string>{});
}

TYPED_TEST_P(store_suite, a_rooms_change_is_kept_and_told) {
  const auto a = this->user("a");
  auto room = this->room("r_1", {a});
  append_room_change all;
  all.seq = ++room.head;
  all.at = ++room.now;
  all.by = a;
  all.settings = {"Näme \"x\"", "", 5, 30, history_policy::joined};
  const auto done = this->commit({room.key, 1, room.head - 1, {{all, {}}}});
  ASSERT_EQ(done[0].what, committed) << done[0].why.message;
  this->propose(room, [&](auto& c) { c.push_back(room.rename(a, "Other")); });
  const auto load = must(this->r->load_room("r_1"));
  EXPECT_EQ(load.room.name, "Other");
  EXPECT_EQ(load.room.topic, "");
  EXPECT_EQ(load.room.slow_mode_s, 5);
  EXPECT_EQ(load.room.retention_days, 30);
  EXPECT_EQ(load.room.history, history_policy::joined);
  const auto events = must(this->r->events(room.key, 1, 10, 1 << 20)).events;
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].settings.name, "Näme \"x\"");
  EXPECT_EQ(events[0].settings.topic, "");
  EXPECT_EQ(events[0].settings.slow_mode_s, 5);
  EXPECT_EQ(events[0].settings.history, history_policy::joined);
  EXPECT_EQ(events[1].settings.name, "Other");
  EXPECT_EQ(events[1].settings.topic, std::nullopt);
  EXPECT_EQ(events[1].settings.slow_mode_s, std::nullopt);
  EXPECT_EQ(events[1].sender_id, "u_a");
}

// ---- counters against a recount

TYPED_TEST_P(store_suite, counters_equal_a_recount_after_thousands_of_random_steps) {
  std::mt19937 random(20240607);
  const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  std::vector<user_key> people;
  for (int i = 0; i < 6; ++i)
    people.push_back(this->user("p" + std::to_string(i)));
  struct plain_message {
    seq_no seq;
    user_key sender;
    bool deleted;
  };
  struct state {
    model_room room;
    std::vector<plain_message> messages;
    std::map<user_key, seq_no> mark;
    std::set<user_key> in;
    std::vector<std::pair<user_key, std::string>> nonces;
  };
  std::vector<state> rooms;
  for (int i = 0; i < 4; ++i) {
    state s;
    s.room = this->room("r_" + std::to_string(i), people);
    for (std::size_t k = 0; k < people.size(); ++k) {
      s.in.insert(people[k]);
      s.mark[people[k]] = static_cast<seq_no>(k) + 1;
    }
    rooms.push_back(std::move(s));
  }
  int nonce = 0, steps = 0;
  while (steps < 4000) {
    // A batch: shares of some rooms with some changes each, the model going along as the room actor
    // would.
    std::vector<room_share> shares;
    std::vector<std::size_t> which;
    std::vector<state> after;
    for (std::size_t i = 0; i < rooms.size(); ++i) {
      if (pick(2) == 0) continue;
      auto share = rooms[i].room.share();
      state s = rooms[i];
      bool over = false;  // behind a duplicate nothing counts
      const auto count = 1 + pick(8);
      for (std::size_t k = 0; k < count; ++k) {
        ++steps;
        const auto who = people[pick(people.size())];
        const auto dice = pick(100);
        state next = s;
        if (dice < 55) {
          if (!s.in.contains(who)) continue;
          const bool repeat = !s.nonces.empty() && pick(25) == 0;
          const auto used = repeat ? s.nonces[pick(s.nonces.size())]
                                   : std::pair(who, "n" + std::to_string(++nonce));
          if (!s.in.contains(used.first)) continue;
          share.changes.push_back(next.room.message(used.first, used.second));
          if (repeat) over = true;
          next.messages.push_back({next.room.head, used.first, false});
          next.mark[used.first] = next.room.head;
          next.nonces.push_back(used);
        } else if (dice < 75) {
          if (!s.in.contains(who)) continue;
          const auto to = static_cast<seq_no>(pick(static_cast<std::size_t>(s.room.head) + 5));
          share.changes.push_back(read(who, to));
          next.mark[who] = std::max(next.mark[who], std::min(to, s.room.head));
        } else if (dice < 85) {
          if (!s.in.contains(who) || s.messages.empty()) continue;
          const auto& target = s.messages[pick(s.messages.size())];
          if (target.deleted) continue;
          share.changes.push_back(read(who, target.seq, true));
          next.mark[who] = target.seq - 1;
        } else if (dice < 92) {
          if (s.in.contains(who)) {
            share.changes.push_back(next.room.leave(who));
            next.in.erase(who);
          } else {
            share.changes.push_back(next.room.join(who));
            next.in.insert(who);
            next.mark[who] = next.room.head;
          }
        } else {
          share.changes.push_back(next.room.rename(who, std::to_string(steps)));
        }
        if (!over)
          s = std::move(next);
        else
          s.room.now = next.room.now;
        if (over) break;
      }
      if (share.changes.empty()) continue;
      shares.push_back(std::move(share));
      which.push_back(i);
      after.push_back(std::move(s));
    }
    const auto done = this->o.writer->commit(shares);
    for (std::size_t i = 0; i < shares.size(); ++i) {
      rooms[which[i]] = after[i];
      for (const auto& one : done[i].results)
        ASSERT_TRUE(one.what == committed || one.what == duplicate || one.what == superseded)
            << one.why.message;
    }
    // Somebody deletes a message (the op comes later; the counters must bear it now).
    if (pick(6) == 0) {
      auto& s = rooms[pick(rooms.size())];
      if (!s.messages.empty()) {
        auto& target = s.messages[pick(s.messages.size())];
        target.deleted = true;
        this->b.query("update messages set deleted = 1, text = '' where room = " +
                      std::to_string(raw(s.room.key)) + " and seq = " + std::to_string(target.seq));
      }
    }
    if (pick(12) != 0) continue;
    for (const auto& who : people) {
      const auto list = must(this->r->room_list(who, "", 100)).rooms;
      for (const auto& s : rooms) {
        const auto at =
            std::find_if(list.begin(), list.end(), [&](auto& x) { return x.key == s.room.key; });
        ASSERT_EQ(at != list.end(), s.in.contains(who));
        if (at == list.end()) continue;
        const auto unread = std::count_if(s.messages.begin(), s.messages.end(), [&](auto& x) {
          return x.seq > s.mark.at(who) && x.sender != who && !x.deleted;
        });
        ASSERT_EQ(at->unread, unread)
            << "room " << s.room.id << " user " << raw(who) << " step " << steps;
        ASSERT_EQ(at->read_seq, s.mark.at(who));
        ASSERT_EQ(at->last_seq, s.room.head);
        ASSERT_EQ(at->members, static_cast<std::int64_t>(s.in.size()));
      }
    }
  }
  EXPECT_EQ(this->findings(), std::vector<std::string>{});
  this->reopen();
  for (const auto& s : rooms) {
    const auto load = must(this->r->load_room(s.room.id));
    EXPECT_EQ(load.room.head_seq, s.room.head);
    EXPECT_EQ(load.room.head_n, static_cast<std::int64_t>(s.messages.size()));
  }
}

REGISTER_TYPED_TEST_SUITE_P(
    store_suite, what_is_committed_is_there_after_a_reopen, a_text_is_kept_byte_for_byte,
    a_known_nonce_is_a_duplicate_and_what_stands_behind_it_is_superseded,
    the_nonce_of_a_deleted_message_is_still_known, a_nonce_belongs_to_its_sender_and_room,
    nonces_are_looked_up_in_the_order_of_the_changes, an_op_nonce_makes_the_change_a_duplicate,
    a_reply_to_what_is_no_message_is_refused_alone, a_refused_share_touches_no_other,
    what_stood_before_a_refused_change_stays, a_stale_owner_writes_nothing,
    one_who_is_no_member_cannot_send, a_read_mark_moves_forward_only_and_not_beyond_the_head,
    unread_sets_the_mark_before_a_live_message, one_who_is_no_member_has_no_mark,
    marks_follow_the_order_inside_a_share, a_room_is_made_with_its_members_as_events,
    a_room_is_made_once_per_nonce_pair_and_id, one_who_comes_back_goes_on_with_the_own_count,
    an_invited_one_is_no_member_yet, a_rooms_change_is_kept_and_told,
    counters_equal_a_recount_after_thousands_of_random_steps);

}  // namespace parley::storage::test
