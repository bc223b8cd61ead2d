// The common suite on SQLite, and the number of statements that storage/statements.hpp promises.
#include <filesystem>

#include "tests/storage/store_suite.hpp"

namespace parley::storage::test {

INSTANTIATE_TYPED_TEST_SUITE_P(sqlite, store_suite, ::testing::Types<sqlite_backend>);

namespace {

class statement_counts : public store_fixture<sqlite_backend> {
 public:
  std::int64_t cost(const std::vector<room_share>& shares) {
    const auto before = m.statements.get();
    for (const auto& share : o.writer->commit(shares))
      for (const auto& result : share.results)
        EXPECT_NE(result.what, refused) << result.why.message;
    return m.statements.get() - before;
  }
  room_share share(model_room& room, std::vector<user_key> senders, int each) {
    auto out = room.share();
    for (int i = 0; i < each; ++i)
      for (const auto who : senders)
        out.changes.push_back(room.message(who, "n" + std::to_string(++nonce)));
    return out;
  }
  int nonce = 0;
};

TEST_F(statement_counts, of_messages_are_what_the_statements_file_says) {
  std::vector<user_key> people;
  for (int i = 0; i < 20; ++i)
    people.push_back(user("p" + std::to_string(i)));
  auto one = room("r_1", people), two = room("r_2", people);
  const std::vector<user_key> a{people[0]};
  EXPECT_EQ(cost({share(one, a, 1)}), 6) << "a message alone";
  EXPECT_EQ(cost({share(one, a, 50)}), 2 * 50 + 1 + 3);
  EXPECT_EQ(cost({share(one, people, 1)}), 2 * 20 + 20 + 3);
  EXPECT_EQ(cost({share(one, people, 5)}), 2 * 100 + 20 + 3) << "2.2 a message in a burst";
  EXPECT_EQ(cost({share(one, a, 3), share(two, people, 2)}),
            (2 * 3 + 1 + 3) + (2 * 40 + 20 + 3) + 2);
  EXPECT_EQ(cost({{one.key, 1, one.head, {read(people[3], one.head)}}}), 4) << "a read mark alone";
  const auto known = share(one, a, 1);
  EXPECT_EQ(cost({known}), 6);
  auto again = one.share();
  auto copy = one;
  again.changes.push_back(copy.message(people[0], "n" + std::to_string(nonce)));
  again.changes.push_back(copy.message(people[0], "behind"));
  EXPECT_EQ(cost({again}), 4) << "begin, message, the first one, commit";
}

TEST_F(statement_counts, of_commits_are_one_per_batch) {
  const auto a = user("a");
  std::vector<model_room> rooms;
  std::vector<room_share> shares;
  for (int i = 0; i < 50; ++i)
    rooms.push_back(room("r_" + std::to_string(i), {a}));
  for (auto& r : rooms)
    shares.push_back(share(r, {a}, 2));
  const auto commits = m.commits.get(), rows = m.rows_written.get(), batches = m.batches.get();
  cost(shares);
  EXPECT_EQ(m.commits.get() - commits, 1);
  EXPECT_EQ(m.batches.get() - batches, 1);
  EXPECT_EQ(m.rows_written.get() - rows, 50 * (2 * 2 + 2));
  EXPECT_EQ(m.group_size.sum.load(), 50 + 100) << "the rooms' creations and this batch";
}

// ---- the WAL

class wal : public store_fixture<sqlite_backend> {
 public:
  std::int64_t size() const {
    std::error_code e;
    const auto bytes = std::filesystem::file_size(b.path() + "-wal", e);
    return e ? 0 : static_cast<std::int64_t>(bytes);
  }
};

TEST_F(wal, stays_below_64_mib_under_load) {
  const auto a = user("a");
  auto r1 = room("r_1", {a});
  int nonce = 0;
  std::int64_t largest = 0;
  for (int batch = 0; batch < 24; ++batch) {
    auto share = r1.share();
    for (int i = 0; i < 300; ++i)
      share.changes.push_back(
          r1.message(a, "n" + std::to_string(++nonce), std::string(16000, 'x')));
    for (const auto& done : commit(share))
      ASSERT_EQ(done.what, committed);
    largest = std::max(largest, size());
  }
  EXPECT_GT(number(b.path(), "pragma page_count") * 4096, std::int64_t{100} << 20)
      << "too little was written";
  EXPECT_LT(largest, std::int64_t{64} << 20);
  EXPECT_GT(m.checkpoints.get(), 0);
}

TEST_F(wal, is_copied_by_an_idle_writer) {
  const auto a = user("a");
  auto r1 = room("r_1", {a});
  auto share = r1.share();
  for (int i = 0; i < 300; ++i)
    share.changes.push_back(r1.message(a, "n" + std::to_string(i), std::string(16000, 'x')));
  for (const auto& done : commit(share))
    ASSERT_EQ(done.what, committed);
  const auto before = m.checkpoints.get();
  o.writer->idle();
  EXPECT_EQ(m.checkpoints.get(), before + 1);
  EXPECT_GE(o.writer->idle(), 60000) << "nothing is left to do";
  EXPECT_EQ(m.checkpoints.get(), before + 1);
}

TEST_F(wal, is_not_held_by_a_reader_that_has_answered) {
  const auto a = user("a");
  auto r1 = room("r_1", {a});
  for (int i = 0; i < 5; ++i)
    say(r1, a, "n" + std::to_string(i));
  // Each of them stops before its last row.
  must(r->history(r1.key, {}, {}, 1, 1));
  must(r->events(r1.key, 0, 1, 1 << 20));
  must(r->room_list(a, "", 1));
  must(r->load_room("r_1"));
  must(r->account_by_id("u_a"));
  must(r->credentials_by_name("a"));
  const auto rows = sql(b.path(), "pragma wal_checkpoint(truncate)");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0], "0") << "a checkpoint that needs all readers gone";
  EXPECT_EQ(size(), 0);
}

}  // namespace
}  // namespace parley::storage::test
