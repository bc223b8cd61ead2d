// The room's promises: order, once, durable before visible, exact counters, resume without a hole.
#include <random>

#include "tests/support/actor_fixture.hpp"

namespace parley::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class room_test : public actors_test {
 protected:
  void SetUp() override {
    actors_test::SetUp();
    for (auto id : {"ann", "bob", "cid"})
      add_user(id);
  }
  static std::vector<seq_no> range(seq_no from, seq_no to) {
    std::vector<seq_no> out;
    for (auto s = from; s <= to; ++s)
      out.push_back(s);
    return out;
  }
};

TEST_F(room_test, pipelined_sends_keep_their_order_for_every_recipient) {
  auto ann = connect("ann"), bob = connect("bob");
  auto room = make_room(ann, {"bob"});
  ASSERT_TRUE(enter(ann, room)["ok"]);
  ASSERT_TRUE(enter(bob, room)["ok"]);
  std::vector<int> ids;
  for (int i = 0; i < 300; ++i)
    ids.push_back(post(ann, message(room, std::to_string(i))));
  run();
  EXPECT_EQ(seqs(bob, room), range(3, 302));
  EXPECT_EQ(seqs(ann, room), range(3, 302));
  auto got = events(bob, "message.created");
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(got[static_cast<std::size_t>(i)]["text"], std::to_string(i));
    EXPECT_EQ(answer(ann, ids[static_cast<std::size_t>(i)])["seq"], 3 + i);
  }
}

TEST_F(room_test, nothing_is_visible_before_it_is_committed) {
  auto ann = connect("ann"), bob = connect("bob");
  auto room = make_room(ann, {"bob"});
  enter(ann, room);
  enter(bob, room);
  auto id = post(ann, message(room, "x"));
  auto commits = metrics_.commits.get();
  while (step()) {
    bool told = !answer(ann, id).is_null() || !events(bob, "message.created").empty() ||
                !events(ann, "message.created").empty();
    if (told) break;
  }
  EXPECT_GT(metrics_.commits.get(), commits);
  EXPECT_TRUE(answer(ann, id)["ok"]);
}

TEST_F(room_test, a_burst_shares_its_commits) {
  auto ann = connect("ann");
  auto room = make_room(ann);
  enter(ann, room);
  auto commits = metrics_.commits.get();
  for (int i = 0; i < 100; ++i)
    post(ann, message(room, "x"));
  run();
  EXPECT_LE(metrics_.commits.get() - commits, 20);
  EXPECT_EQ(seqs(ann, room).size(), 100u);
}

TEST_F(room_test, a_nonce_sent_again_creates_nothing) {
  auto ann = connect("ann"), bob = connect("bob");
  auto room = make_room(ann, {"bob"});
  enter(bob, room);
  auto first = post(ann, message(room, "x", "k")), second = post(ann, message(room, "x", "k"));
  run();
  auto seq = answer(ann, first)["seq"].get<seq_no>();
  EXPECT_EQ(answer(ann, second)["seq"], seq);
  EXPECT_EQ(answer(ann, second)["duplicate"], true);
  EXPECT_EQ(answer(ann, second)["at"], answer(ann, first)["at"]);
  auto other = connect("ann");
  EXPECT_EQ(send_text(other, room, "x", "k")["seq"], seq);
  EXPECT_EQ(send_text(other, room, "y", "k")["error"]["code"], "conflict");
  EXPECT_EQ(send_text(bob, room, "x", "k")["seq"], seq + 1)
      << "another user's nonce is another one";
  EXPECT_EQ(events(bob, "message.created").size(), 2u);
}

TEST_F(room_test, an_old_nonce_in_a_burst_is_answered_and_nobody_else_fails) {
  auto ann = connect("ann"), bob = connect("bob");
  auto room = make_room(ann, {"bob"});
  auto old = send_text(ann, room, "old", "old")["seq"].get<seq_no>();
  restart();
  ann = connect("ann");
  bob = connect("bob");
  enter(bob, room);
  std::vector<int> ids;
  int repeated = 0;
  for (int i = 0; i < 60; ++i) {
    ids.push_back(post(i % 2 == 0 ? ann : bob, message(room, "m" + std::to_string(i))));
    if (i == 20) repeated = post(ann, message(room, "old", "old"));
  }
  run();
  EXPECT_EQ(answer(ann, repeated)["seq"], old);
  EXPECT_EQ(answer(ann, repeated)["duplicate"], true);
  std::set<seq_no> seen;
  for (int i = 0; i < 60; ++i) {
    auto a = answer(i % 2 == 0 ? ann : bob, ids[static_cast<std::size_t>(i)]);
    ASSERT_TRUE(a["ok"]) << a.dump();
    seen.insert(a["seq"].get<seq_no>());
  }
  EXPECT_EQ(seen.size(), 60u);
  EXPECT_EQ(seqs(bob, room), range(old + 1, old + 60));
}

TEST_F(room_test, one_who_left_learns_the_seq_of_what_was_committed_and_nothing_else) {
  auto ann = connect("ann"), bob = connect("bob");
  auto room = make_room(ann, {"bob"});
  auto seq = send_text(bob, room, "x", "k")["seq"].get<seq_no>();
  ASSERT_TRUE(ask(bob, wire::room_leave{room, ""})["ok"]);
  EXPECT_EQ(send_text(bob, room, "x", "k")["seq"], seq);
  EXPECT_EQ(send_text(bob, room, "x", "fresh")["error"]["code"], "forbidden");
  auto hidden = make_room(ann, {"bob"}, room_kind::private_room);
  auto before = send_text(bob, hidden, "x", "k")["seq"].get<seq_no>();
  ask(bob, wire::room_leave{hidden, ""});
  EXPECT_EQ(send_text(bob, hidden, "x", "k")["seq"], before);
  EXPECT_EQ(send_text(bob, hidden, "x", "fresh")["error"]["code"], "not_found");
  EXPECT_EQ(enter(bob, hidden)["error"]["code"], "not_found");
  EXPECT_EQ(ask(bob, wire::history{hidden, {}, {}, 50})["error"]["message"],
            ask(bob, wire::history{"r_missing", {}, {}, 50})["error"]["message"]);
}

TEST_F(room_test, a_leavers_last_event_is_their_own_leave) {
  auto ann = connect("ann"), bob = connect("bob");
  auto room = make_room(ann, {"bob"});
  enter(bob, room);
  auto left = post(bob, wire::room_leave{room, ""});
  post(ann, message(room, "after"));
  run();
  auto seq = answer(bob, left)["seq"].get<seq_no>();
  EXPECT_EQ(seqs(bob, room).back(), seq);
  auto gone = events(bob, "room.mine");
  ASSERT_FALSE(gone.empty());
  EXPECT_EQ(gone.back()["gone"], true);
}

TEST_F(room_test, the_last_owner_hands_over_to_the_longest_serving_member) {
  auto ann = connect("ann"), bob = connect("bob"), cid = connect("cid");
  auto room = make_room(ann, {"bob", "cid"});
  enter(cid, room);
  ask(ann, wire::room_leave{room, ""});
  auto changed = events(cid, "member.changed");
  ASSERT_EQ(changed.size(), 1u);
  EXPECT_EQ(changed[0]["user"], "bob");
  EXPECT_EQ(changed[0]["role"], "owner");
  wire::room_change c;
  c.room = room;
  c.settings.name = "new name";
  EXPECT_TRUE(ask(bob, c)["ok"]);
  EXPECT_EQ(ask(cid, c)["error"]["code"], "forbidden");
}

TEST_F(room_test, counters_agree_with_a_recount_after_every_step) {
  std::mt19937 random(20261130);
  std::map<std::string, person> people{
      {"ann", connect("ann")}, {"bob", connect("bob")}, {"cid", connect("cid")}};
  auto room = make_room(people["ann"], {"bob", "cid"});
  struct sent {
    seq_no seq;
    std::string by;
  };
  std::vector<sent> log;
  std::map<std::string, seq_no> mark{{"ann", 1}, {"bob", 2}, {"cid", 3}};
  seq_no head = 3;
  auto expected = [&](const std::string& who) {
    std::int64_t n = 0;
    for (auto& m : log)
      n += m.seq > mark[who] && m.by != who ? 1 : 0;
    return n;
  };
  const std::vector<std::string> names{"ann", "bob", "cid"};
  for (int i = 0; i < 1500; ++i) {
    auto& who = names[random() % 3];
    auto dice = random() % 10;
    if (dice < 5) {
      head = send_text(people[who], room, "m")["seq"].get<seq_no>();
      log.push_back({head, who});
      mark[who] = head;
    } else if (dice < 8) {
      auto to = static_cast<seq_no>(random() % static_cast<unsigned>(head + 3)) + 1;
      auto a = ask(people[who], wire::message_read{room, to});
      mark[who] = std::max(mark[who], std::min(to, head));
      ASSERT_EQ(a["read_seq"], mark[who]) << i;
      ASSERT_EQ(a["unread"], expected(who)) << i;
    } else if (dice < 9 && !log.empty()) {
      auto& m = log[random() % log.size()];
      auto a = ask(people[who], wire::message_unread{room, m.seq});
      mark[who] = m.seq - 1;
      ASSERT_EQ(a["unread"], expected(who)) << i;
      ASSERT_EQ(a["read_seq"], mark[who]) << i;
    } else if (i % 50 == 0) {
      restart();
      for (auto& n : names)
        people[n] = connect(n);
    }
    // What a fresh session is told comes from the database alone.
    if (i % 25 == 0) {
      for (auto& n : names) {
        auto rooms = ask(people[n], wire::rooms{});
        ASSERT_EQ(rooms["rooms"][0]["unread"], expected(n)) << n << " at " << i;
        ASSERT_EQ(rooms["rooms"][0]["last_seq"], head);
      }
    }
  }
}

TEST_F(room_test, passive_connections_count_on_from_their_base) {
  auto ann = connect("ann"), bob = connect("bob"), other = connect("bob");
  auto room = make_room(ann, {"bob"});
  for (int i = 0; i < 5; ++i)
    send_text(ann, room, "x");
  EXPECT_EQ(client(bob).base[room].unread, 5);
  ask(bob, wire::message_read{room, 5});
  EXPECT_EQ(client(bob).base[room].unread, 2);
  EXPECT_EQ(client(other).base[room].unread, 2) << "the other device is told";
  send_text(bob, room, "mine");
  EXPECT_EQ(client(other).base[room].unread, 0) << "an own message moves the mark";
}

TEST_F(room_test, room_updated_comes_at_least_every_second_under_steady_traffic) {
  auto ann = connect("ann"), bob = connect("bob");
  auto room = make_room(ann, {"bob"});
  advance(seconds(2));
  auto before = events(bob, "room.updated").size();
  for (int i = 0; i < 50; ++i) {
    send_text(ann, room, "x");
    advance(milliseconds(100));
  }
  auto during = events(bob, "room.updated").size() - before;
  EXPECT_GE(during, 4u) << "a re-armed timer never fires under steady traffic";
  EXPECT_LE(during, 6u);
  auto at = events(bob, "room.updated").size();
  advance(seconds(1));
  send_text(ann, room, "last");
  advance(milliseconds(290));
  EXPECT_LE(events(bob, "room.updated").size(), at + 1);
  advance(milliseconds(30));
  EXPECT_EQ(events(bob, "room.updated").back()["last"]["text"], "last");
}

TEST_F(room_test, a_resume_has_neither_hole_nor_repeat_while_others_send) {
  auto ann = connect("ann");
  auto room = make_room(ann, {"bob"});
  for (int i = 0; i < 600; ++i)
    post(ann, message(room, std::string(500, 'x')));
  run();
  for (int round = 0; round < 20; ++round) {
    auto bob = connect("bob");
    relay_.drain_at_once = round % 2 == 0;
    wire::room_enter e;
    e.room = room;
    e.after_seq = 100 + round;
    post(bob, e);
    // Sends fall between every two steps of the replay.
    int steps = 0, sent = 0;
    while (step() || !relay_.drained.empty()) {
      if (++steps % 7 == 0 && sent < 30) {
        post(ann, message(room, "live"));
        ++sent;
      }
      if (!relay_.drained.empty() && steps % 5 == 0) {
        auto due = std::move(relay_.drained);
        relay_.drained.clear();
        for (auto& fn : due)
          fn();
      }
    }
    auto got = seqs(bob, room);
    ASSERT_FALSE(got.empty());
    EXPECT_EQ(got, range(101 + round, got.back())) << "round " << round;
    auto head = send_text(ann, room, "end")["seq"].get<seq_no>();
    EXPECT_EQ(seqs(bob, room).back(), head);
    disconnect(bob);
  }
}

TEST_F(room_test, what_is_not_replayed_is_told) {
  settings_->limits.replay_events = 10;
  auto ann = connect("ann"), bob = connect("bob");
  auto room = make_room(ann, {"bob"});
  for (int i = 0; i < 30; ++i)
    send_text(ann, room, "x");
  auto a = enter(bob, room, 0);
  ASSERT_EQ(a["gap"].size(), 1u) << a.dump();
  EXPECT_EQ(a["gap"][0], (json{{"from", 1}, {"to", 22}, {"why", "far"}}));
  EXPECT_EQ(seqs(bob, room), range(23, 32));
  auto reset = enter(bob, room, 99);
  EXPECT_EQ(reset["reset"], true);
  EXPECT_EQ(enter(bob, room, 5, "another epoch")["reset"], true);
  EXPECT_FALSE(enter(bob, room, 32, ctx_->epoch).contains("reset"));
}

TEST_F(room_test, entering_again_replays_again_after_its_answer) {
  auto ann = connect("ann");
  auto room = make_room(ann);
  for (int i = 0; i < 5; ++i)
    send_text(ann, room, "x");
  enter(ann, room, 2);
  auto before = client(ann).got.size();
  auto a = enter(ann, room, 3);
  EXPECT_EQ(client(ann).got[before]["re"], a["re"]);
  EXPECT_EQ(seqs(ann, room, before), range(4, 6));
}

TEST_F(room_test, an_idle_room_is_put_away_and_comes_back_unchanged) {
  auto ann = connect("ann"), bob = connect("bob");
  auto room = make_room(ann, {"bob"});
  send_text(ann, room, "x", "k");
  ask(ann, wire::room_exit{room});
  EXPECT_EQ(metrics_.rooms_awake.get(), 1);
  advance(seconds(settings_->storage.room_idle_s + 30));
  EXPECT_EQ(metrics_.rooms_awake.get(), 0);
  EXPECT_EQ(send_text(ann, room, "x", "k")["duplicate"], true);
  EXPECT_EQ(send_text(ann, room, "y")["seq"], 4);
  EXPECT_EQ(client(bob).base[room].unread, 2) << "passive ones are watched again";
}

TEST_F(room_test, hello_wakes_no_room) {
  auto ann = connect("ann");
  make_room(ann);
  restart();
  connect("ann");
  EXPECT_EQ(metrics_.rooms_awake.get(), 0);
}

TEST_F(room_test, a_request_that_meets_the_put_away_is_not_lost) {
  auto ann = connect("ann"), bob = connect("bob");
  auto room = make_room(ann, {"bob"});
  for (int round = 0; round < 40; ++round) {
    ask(ann, wire::room_exit{room});
    caf::anon_send(ctx_->directory,
                   admin_passivate{room, std::make_shared<reply_fn>([](reply) {})});
    for (int i = 0; i < round; ++i)
      step();
    auto id = post(ann, message(room, "x"));
    auto hi = post(bob, wire::history{room, {}, {}, 1});
    run();
    advance(milliseconds(100));
    EXPECT_TRUE(answer(ann, id).value("ok", false)) << round;
    EXPECT_TRUE(answer(bob, hi).value("ok", false)) << round;
    advance(seconds(3));
  }
}

TEST_F(room_test, a_quiet_room_tells_its_head) {
  auto ann = connect("ann");
  auto room = make_room(ann);
  enter(ann, room);
  advance(seconds(24));
  EXPECT_TRUE(events(ann, "sync").empty());
  advance(seconds(2));
  ASSERT_EQ(events(ann, "sync").size(), 1u);
}

TEST_F(room_test, typing_ends_by_itself_on_send_and_on_leaving) {
  auto ann = connect("ann"), bob = connect("bob");
  auto room = make_room(ann, {"bob"});
  enter(ann, room);
  enter(bob, room);
  ask(ann, wire::typing{room, true});
  ask(ann, wire::typing{room, true});
  ASSERT_EQ(events(bob, "typing").size(), 1u);
  EXPECT_TRUE(events(ann, "typing").empty());
  advance(seconds(6));
  ASSERT_EQ(events(bob, "typing").size(), 2u);
  EXPECT_EQ(events(bob, "typing")[1]["on"], false);
  ask(ann, wire::typing{room, true});
  send_text(ann, room, "x");
  EXPECT_EQ(events(bob, "typing").size(), 4u);
  ask(ann, wire::typing{room, true});
  disconnect(ann);
  EXPECT_EQ(events(bob, "typing").back()["on"], false);
}

TEST_F(room_test, presence_waits_for_the_grace_and_one_device_takes_nothing_from_another) {
  auto ann = connect("ann"), bob = connect("bob"), phone = connect("bob");
  auto room = make_room(ann, {"bob"});
  enter(ann, room);
  advance(seconds(3));
  auto before = events(ann, "presence").size();
  disconnect(phone);
  advance(seconds(30));
  EXPECT_EQ(events(ann, "presence").size(), before);
  disconnect(bob);
  advance(seconds(8));
  EXPECT_EQ(events(ann, "presence").size(), before) << "the grace runs";
  advance(seconds(5));
  ASSERT_EQ(events(ann, "presence").size(), before + 1);
  EXPECT_EQ(events(ann, "presence").back()["users"][0]["online"], false);
  auto again = connect("bob");
  advance(seconds(2));
  EXPECT_EQ(events(ann, "presence").back()["users"][0]["online"], true);
  disconnect(again);
  advance(seconds(5));
  connect("bob");
  auto flicker = events(ann, "presence").size();
  advance(seconds(20));
  EXPECT_EQ(events(ann, "presence").size(), flicker) << "no flicker within the grace";
}

TEST_F(room_test, read_marks_are_gathered) {
  auto ann = connect("ann"), bob = connect("bob");
  auto room = make_room(ann, {"bob"});
  enter(ann, room);
  enter(bob, room);
  for (int i = 0; i < 20; ++i) {
    auto seq = send_text(ann, room, "x")["seq"].get<seq_no>();
    ask(bob, wire::message_read{room, seq});
    advance(milliseconds(50));
  }
  advance(seconds(1));
  auto marks = events(ann, "read");
  EXPECT_GE(marks.size(), 2u);
  EXPECT_LE(marks.size(), 4u);
  EXPECT_EQ(marks.back()["marks"][0]["read_seq"], 22);
}

TEST_F(room_test, an_invitation_opens_a_private_room_and_nothing_before) {
  auto ann = connect("ann"), bob = connect("bob");
  auto room = make_room(ann, {}, room_kind::private_room);
  EXPECT_EQ(ask(bob, wire::room_join{room, ""})["error"]["code"], "not_found");
  ASSERT_TRUE(ask(ann, wire::room_invite{room, "bob", ""})["ok"]);
  EXPECT_EQ(enter(bob, room)["error"]["code"], "not_found");
  EXPECT_EQ(ask(ann, wire::room_invite{room, "nobody", ""})["error"]["code"], "not_found");
  ASSERT_TRUE(ask(bob, wire::room_join{room, ""})["ok"]);
  EXPECT_TRUE(enter(bob, room)["ok"]);
}

TEST_F(room_test, a_pipelined_invite_and_send_keep_their_order) {
  auto ann = connect("ann");
  auto room = make_room(ann, {}, room_kind::private_room);
  enter(ann, room);
  auto a = post(ann, wire::room_invite{room, "bob", ""});
  auto b = post(ann, message(room, "x"));
  auto c = post(ann, wire::room_invite{room, "cid", ""});
  run();
  EXPECT_EQ(answer(ann, a)["seq"], 2);
  EXPECT_EQ(answer(ann, b)["seq"], 3);
  EXPECT_EQ(answer(ann, c)["seq"], 4);
}

TEST_F(room_test, a_reply_to_what_is_no_message_fails_alone) {
  auto ann = connect("ann");
  auto room = make_room(ann);
  enter(ann, room);
  auto m = message(room, "x");
  m.reply_to = 1;  // the creation
  auto a = post(ann, message(room, "first")), b = post(ann, m),
       c = post(ann, message(room, "third"));
  run();
  EXPECT_EQ(answer(ann, a)["seq"], 2);
  EXPECT_EQ(answer(ann, b)["error"]["code"], "not_found");
  EXPECT_EQ(answer(ann, c)["seq"], 3);
  m = message(room, "y");
  m.reply_to = 2;
  EXPECT_EQ(ask(ann, m)["seq"], 4);
}

TEST_F(room_test, a_direct_room_is_one_per_pair) {
  auto ann = connect("ann"), bob = connect("bob");
  auto room = make_room(ann, {"bob"}, room_kind::direct);
  EXPECT_EQ(make_room(bob, {"ann"}, room_kind::direct), room);
  wire::room_create c;
  c.name = "x";
  c.kind = room_kind::direct;
  c.members = {"bob", "cid"};
  EXPECT_EQ(ask(ann, c)["error"]["code"], "bad_request");
}

TEST_F(room_test, hello_enters_what_it_names) {
  auto ann = connect("ann");
  auto one = make_room(ann, {"bob"}), two = make_room(ann);
  send_text(ann, one, "x");
  wire::hello h;
  h.enter = wire::hello::enter_mode::listed;
  h.enter_rooms = {{one, 1}, {two, 0}, {"r_none", 0}};
  auto bob = connect("bob", h);
  auto& first = client(bob).got.at(0);
  ASSERT_EQ(first["entered"].size(), 3u) << first.dump();
  EXPECT_EQ(first["entered"][0]["last_seq"], 3);
  EXPECT_EQ(first["entered"][1]["error"]["code"], "forbidden");
  EXPECT_EQ(first["entered"][2]["error"]["code"], "not_found");
  EXPECT_EQ(seqs(bob, one), range(2, 3)) << "the replay follows the answer";
  wire::hello all;
  all.enter = wire::hello::enter_mode::all;
  auto again = connect("ann", all);
  EXPECT_EQ(client(again).got.at(0)["entered"].size(), 2u);
  send_text(ann, one, "y");
  EXPECT_EQ(seqs(again, one), range(4, 4));
}

TEST_F(room_test, a_session_that_enters_all_enters_what_it_joins_later) {
  wire::hello all;
  all.enter = wire::hello::enter_mode::all;
  auto ann = connect("ann"), bob = connect("bob", all);
  auto room = make_room(ann);
  send_text(ann, room, "before");
  auto joined = ask(bob, wire::room_join{room, ""})["seq"].get<seq_no>();
  EXPECT_EQ(seqs(bob, room), range(joined, joined));
  EXPECT_EQ(events(bob, "member.joined").at(0)["user"], "bob");
  send_text(ann, room, "after");
  EXPECT_EQ(seqs(bob, room), range(joined, joined + 1));
  auto own = make_room(bob);
  EXPECT_EQ(seqs(bob, own), range(1, 1));
}

}  // namespace
}  // namespace parley::test
