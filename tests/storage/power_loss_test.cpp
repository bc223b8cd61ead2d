// Loss of power (F2): a run of group commits and checkpoints is recorded; the disk is put into the
// state after a loss of power at a thousand random points, and every acknowledged message must be
// there.
#include <algorithm>
#include <set>

#include "storage/epoch.hpp"
#include "storage/sqlite_writer.hpp"
#include "tests/storage/power_vfs.hpp"
#include "tests/storage/support.hpp"

namespace parley::storage::test {
namespace {

/// What had been answered at a point of the record.
struct acknowledged {
  std::size_t point;
  std::map<std::string, seq_no> heads;  // by room id
};

class power_loss : public ::testing::Test {
 public:
  sqlite_backend b;
  power_vfs disk{b.folder.path};
  metrics m;
  std::mt19937 random{7};
  std::vector<acknowledged> acks;
  std::vector<model_room> rooms;
  std::string epoch;

  /// Some hundred batches over some rooms with a checkpoint every few.
  void run(const std::string& durability) {
    b.c.storage.durability = durability;
    auto o = must(open_writer(b.c, m));
    epoch = o.epoch;
    o.writer = nullptr;
    sql(b.path(), "update meta set v = '0' where k = 'clean'");  // the run goes on below
    sqlite_writer_options options;
    options.path = b.path();
    options.full = durability == "full";
    options.checkpoint_pages = 120;
    auto writer = make_sqlite_writer(options, m);
    std::vector<user_key> people;
    for (int i = 0; i < 4; ++i) {
      new_user u;
      u.id = u.name = u.folded_name = "u" + std::to_string(i);
      people.push_back(must(writer->apply(u)).who.key);
    }
    for (int i = 0; i < 4; ++i) {
      create_room make;
      make.id = make.name = "r_" + std::to_string(i);
      make.creator = people[0];
      make.members = people;
      make.at = 1;
      model_room room;
      room.id = make.id;
      room.key = writer->commit({{room_key{}, 1, 0, {{make, {}}}}}).at(0).results.at(0).room;
      room.head = 4;
      rooms.push_back(room);
    }
    int nonce = 0;
    for (int batch = 0; batch < 250; ++batch) {
      std::vector<room_share> shares;
      for (auto& room : rooms) {
        if (random() % 2 == 0) continue;
        shares.push_back(room.share());
        for (auto n = 1 + random() % 5; n > 0; --n)
          shares.back().changes.push_back(room.message(people[random() % 4],
                                                       "n" + std::to_string(++nonce),
                                                       std::string(random() % 600, 'x')));
      }
      for (const auto& share : writer->commit(shares))
        for (const auto& r : share.results)
          ASSERT_EQ(r.what, outcome::committed) << r.why.message;
      acknowledged a{disk.now(), {}};
      for (const auto& room : rooms)
        a.heads[room.id] = room.head;
      acks.push_back(std::move(a));
    }
    end = disk.now();
    EXPECT_GT(m.checkpoints.get(), 3);
  }
  std::size_t end = 0;

  /// The heads after a loss of power; the store must be whole.
  std::map<std::string, seq_no> heads(const sqlite_backend& after) {
    const auto findings = must(check_store(after.c));
    EXPECT_EQ(findings, std::vector<std::string>{});
    std::map<std::string, seq_no> out;
    for (const auto& room : rooms)
      out[room.id] =
          number(after.path(), "select head_seq from rooms where id = '" + room.id + "'");
    return out;
  }
  /// What had been acknowledged by then.
  const acknowledged* last_ack(std::size_t point) {
    const acknowledged* out = nullptr;
    for (const auto& a : acks)
      if (a.point <= point) out = &a;
    return out;
  }
};

TEST_F(power_loss, of_a_full_store_loses_nothing_that_was_acknowledged) {
  run("full");
  const auto from = acks.front().point;
  std::size_t in_flight = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto point = from + random() % (end - from + 1);
    in_flight += disk.unsynced(point) > 0 ? 1 : 0;
    sqlite_backend after;
    disk.crash(point, after.folder.path, random, i % 10 == 0);
    const auto there = heads(after);
    const auto* ack = last_ack(point);
    ASSERT_NE(ack, nullptr);
    for (const auto& [room, head] : ack->heads)
      ASSERT_GE(there.at(room), head) << room << " at " << point;
    if (::testing::Test::HasFailure()) FAIL() << "at point " << point << " of " << end;
  }
  EXPECT_GT(in_flight, 300u) << "too few points lay inside a write";
}

TEST_F(power_loss, of_a_relaxed_store_keeps_it_whole_and_changes_the_epoch_after_a_boot) {
  run("relaxed");
  const auto from = acks.front().point;
  int lost = 0;
  for (int i = 0; i < 300; ++i) {
    const auto point = from + random() % (end - from + 1);
    sqlite_backend after;
    after.c.storage.durability = "relaxed";
    disk.crash(point, after.folder.path, random, i % 10 == 0);
    const auto there = heads(after);
    const auto* ack = last_ack(point);
    ASSERT_NE(ack, nullptr);
    for (const auto& [room, head] : ack->heads)
      lost += there.at(room) < head ? 1 : 0;
    if (::testing::Test::HasFailure()) FAIL() << "at point " << point << " of " << end;
    if (i % 10 != 0) continue;
    sql(after.path(), "update meta set v = 'the boot before' where k = 'boot_id'");
    metrics other;
    EXPECT_NE(must(open_writer(after.c, other)).epoch, epoch);
  }
  EXPECT_GT(lost, 0) << "the disk lost nothing: it proves nothing about the full store either";
}

}  // namespace
}  // namespace parley::storage::test
