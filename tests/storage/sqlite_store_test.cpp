// The common suite on SQLite, and the number of statements that storage/statements.hpp promises.
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

}  // namespace
}  // namespace parley::storage::test
