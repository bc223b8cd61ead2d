// check_store finds each kind of damage: a whole store is tampered with by SQL, one kind after
// another.
#include <fstream>

#include "tests/storage/support.hpp"

namespace parley::storage::test {
namespace {

struct damage {
  const char* name;
  const char* sql;
  const char* finding;  // a part of what must be said
};

void PrintTo(const damage& d, std::ostream* to) { *to << d.name; }

class check_finds : public store_fixture<sqlite_backend>,
                    public ::testing::WithParamInterface<damage> {
 public:
  /// Two rooms with messages, reads, a leaver, a rejoiner, nonces, a direct room and a deleted
  /// message.
  void fill() {
    const auto a = user("a", "hash"), b = user("b", "hash"), c = user("c");
    auto one = room("r_1", {a, b, c}), two = room("r_2", {b, a}, room_kind::direct);
    for (int i = 0; i < 12; ++i)
      say(one, i % 3 == 0 ? a : b, "n" + std::to_string(i));
    say(two, a, "n1");
    propose(one, [&](auto& x) {
      x.push_back(with_nonce(one.rename(a, "new"), a, "o1"));
      x.push_back(one.leave(c));
      x.push_back(one.leave(b));
      x.push_back(one.join(b));
      x.push_back(read(a, 9));
    });
    create(creation("r_3", {a}, room_kind::public_room, "c1"));
    b_.query("update messages set deleted = 1, text = '' where seq = 6 and room = 1");
  }
  sqlite_backend& b_ = b;
};

TEST_P(check_finds, it) {
  fill();
  ASSERT_EQ(findings(), std::vector<std::string>{}) << "a whole store";
  b.query(GetParam().sql);
  const auto found = findings();
  bool said = false;
  for (const auto& text : found)
    said = said || text.find(GetParam().finding) != text.npos;
  EXPECT_TRUE(said) << "found instead: " << ::testing::PrintToString(found);
}

INSTANTIATE_TEST_SUITE_P(
    damage, check_finds,
    ::testing::Values(
        damage{"a_lost_event", "delete from events where room = 1 and seq = 7", "but it has"},
        damage{"a_lost_last_event", "delete from events where room = 1 and seq = 19", "head is 19"},
        damage{"a_foreign_event", "insert into events values (1, 99, 13, 1, 0, 1, null)",
               "1 to 99"},
        damage{"a_wrong_head", "update rooms set head_seq = 4 where room_key = 1", "head is 4"},
        damage{"a_wrong_head_n", "update rooms set head_n = 4 where room_key = 1", "head n is 4"},
        damage{"a_lost_message", "delete from messages where room = 1 and seq = 8",
               "the event has no message"},
        damage{"a_message_without_event", "update events set kind = 13 where room = 1 and seq = 8",
               "has no event of its own"},
        damage{"another_sender", "update events set sender = 3 where room = 1 and seq = 8",
               "has no event of its own"},
        damage{"a_doubled_n", "update messages set n = 3 where room = 1 and n = 4",
               "n is 3 and should be 4"},
        damage{"swapped_ns", "update messages set n = 9 - n where room = 1 and n in (4, 5)",
               "and should be"},
        damage{"a_wrong_own_n", "update messages set own_n = 7 where room = 1 and seq = 4",
               "own n is 7"},
        damage{"a_wrong_own_count", "update room_members set own_n = 7 where room = 1 and user = 1",
               "own count is 7"},
        damage{"time_running_back", "update events set at = 5 where room = 1 and seq = 9",
               "older than the event before it"},
        damage{"a_wrong_last_activity", "update rooms set last_at = 5 where room_key = 1",
               "the room says 5"},
        damage{"a_deleted_text", "update messages set text = 'still here' where deleted = 1",
               "still has its text"},
        damage{"a_wrong_member_count", "update rooms set members = 9 where room_key = 1",
               "counts 9 members"},
        damage{"a_mark_beyond_the_head",
               "update room_members set read_seq = 900 where room = 1 and user = 1",
               "beyond the head"},
        damage{"a_wrong_read_n", "update room_members set read_n = 1 where room = 1 and user = 1",
               "should count 10, 4"},
        damage{"a_wrong_read_own",
               "update room_members set read_own = 0 where room = 1 and user = 1",
               "should count 10, 4"},
        damage{"a_wrong_state", "update room_members set state = 2 where room = 1 and user = 3",
               "state is 2"},
        damage{"a_wrong_join", "update room_members set joined_seq = 2 where room = 1 and user = 2",
               "the last join or leave is"},
        damage{"a_lost_member", "delete from room_members where room = 1 and user = 2",
               "has no row"},
        damage{"a_lost_room", "delete from rooms where room_key = 1", "events of room 1"},
        damage{"messages_of_no_room", "delete from rooms where room_key = 1", "messages of room 1"},
        damage{"members_of_no_room", "delete from rooms where room_key = 1", "members of room 1"},
        damage{"a_lost_user", "delete from users where user_key = 2", "member 2, who is no user"},
        damage{"a_lost_sender", "delete from users where user_key = 2", "sender 2, who is no user"},
        damage{"a_lost_target", "delete from users where user_key = 3",
               "it concerns 3, who is no user"},
        damage{"a_password_of_nobody", "insert into credentials values (77, 'x', 1)",
               "password of user 77"},
        damage{"a_suspension_of_nobody", "insert into user_suspensions values (77, null, '', 1)",
               "suspension of user 77"},
        damage{"a_nonce_of_no_event", "update op_nonces set seq = 88", "names the seq 88"},
        damage{"a_nonce_of_no_room", "update room_creates set room = 88", "names the room 88"},
        damage{"a_change_of_no_message", "insert into events values (3, 2, 2, 1, 50, 1, null)",
               "concerns the message 50"},
        damage{"a_mention_of_no_message", "insert into message_mentions values (1, 1, 500)",
               "a mention in"},
        damage{"a_reaction_to_no_message", "insert into reactions values (1, 500, 'x', 1, 1)",
               "a reaction in"},
        damage{"a_direct_room_without_pair", "update rooms set pair = null where kind = 3",
               "has no pair"},
        damage{"no_epoch", "delete from meta where k = 'epoch'", "meta has no epoch"}),
    [](const auto& info) { return std::string(info.param.name); });

class checks : public store_fixture<sqlite_backend> {};

TEST_F(checks, name_a_damaged_page) {
  const auto a = user("a");
  auto r1 = room("r_1", {a});
  for (int i = 0; i < 200; ++i)
    say(r1, a, "n" + std::to_string(i), std::string(500, 'x'));
  close();
  const auto pages = number(b.path(), "pragma page_count");
  ASSERT_GT(pages, 30);
  {
    std::fstream file(b.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp((pages - 5) * 4096);
    const std::string garbage(4096, '\xA5');
    file.write(garbage.data(), static_cast<std::streamsize>(garbage.size()));
  }
  const auto found = findings();
  ASSERT_FALSE(found.empty());
}

TEST_F(checks, run_beside_a_writer_and_change_nothing) {
  const auto a = user("a");
  auto r1 = room("r_1", {a});
  say(r1, a, "n1");
  EXPECT_TRUE(findings().empty());
  say(r1, a, "n2");
  EXPECT_TRUE(findings().empty());
  EXPECT_EQ(must(r->history(r1.key, {}, {}, 50, 1)).messages.size(), 2u);
}

TEST(check, of_a_missing_database_is_an_error_and_makes_none) {
  sqlite_backend b;
  const auto found = check_store(b.c);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, errc::unavailable);
  EXPECT_FALSE(std::filesystem::exists(b.path()));
}

TEST_F(checks, refuse_another_schema) {
  b.query("update meta set v = '99' where k = 'schema_version'");
  const auto found = check_store(b.c);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, errc::conflict);
}

}  // namespace
}  // namespace parley::storage::test
