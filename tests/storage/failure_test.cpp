// A disk that is full, a COMMIT that fails, a sync that reports an error: what is answered is what
// the database says after it, and what was refused never comes back.
#include "storage/sqlite_writer.hpp"
#include "tests/storage/power_vfs.hpp"
#include "tests/storage/support.hpp"

namespace parley::storage::test {
namespace {

using enum outcome;

class failing : public store_fixture<sqlite_backend> {
 public:
  /// The store, its writer made anew with these options.
  void with(std::function<void(sqlite_writer_options&)> change) {
    sqlite_writer_options options;
    options.path = b.path();
    change(options);
    o.writer = nullptr;
    o.writer = make_sqlite_writer(options, m);
  }
  /// One message; the model goes back where it was not committed.
  change_result send(model_room& room, user_key who, const std::string& nonce,
                     const std::string& text = "text") {
    const auto before = room;
    auto share = room.share();
    share.changes.push_back(room.message(who, nonce, text));
    auto done = commit(share).at(0);
    if (done.what != committed) room = before;
    return done;
  }
  std::int64_t stored(const std::string& nonce) {
    return number(b.path(), "select count(*) from messages where nonce = '" + nonce + "'");
  }
};

TEST_F(failing, a_full_database_refuses_and_accepts_again_when_there_is_room) {
  const auto a = user("a");
  auto r1 = room("r_1", {a});
  const auto pages = number(b.path(), "pragma page_count");
  with([&](auto& x) { x.max_pages = pages + 20; });
  int sent = 0;
  change_result done;
  do
    done = send(r1, a, "n" + std::to_string(sent++), std::string(3000, 'x'));
  while (done.what == committed && sent < 1000);
  ASSERT_EQ(done.what, refused);
  EXPECT_EQ(done.why.code, errc::unavailable);
  EXPECT_EQ(done.why.message, "storage is full");
  EXPECT_EQ(done.why.status, 507);
  EXPECT_TRUE(done.why.retry_after_ms.has_value());
  EXPECT_EQ(stored("n" + std::to_string(sent - 1)), 0);
  EXPECT_EQ(must(r->history(r1.key, {}, {}, 200, 1)).as_of, r1.head) << "reads go on";
  with([&](auto& x) { x.max_pages = pages + 2000; });
  EXPECT_EQ(send(r1, a, "n" + std::to_string(sent - 1), std::string(3000, 'x')).what, committed);
  EXPECT_TRUE(o.writer->healthy());
  EXPECT_EQ(findings(), std::vector<std::string>{});
}

// ---- injected through the options: only where faults are built in

class injected : public failing {
 public:
  void SetUp() override {
    if (!faults_built_in) GTEST_SKIP() << "built without PARLEY_FAULTS";
    failing::SetUp();
  }
};

TEST_F(injected, a_commit_that_failed_is_refused_once_that_is_known) {
  const auto a = user("a");
  auto r1 = room("r_1", {a}), r2 = room("r_2", {a});
  with([](auto& x) { x.inject.commit_fail = 2; });
  EXPECT_EQ(send(r1, a, "n1").what, committed);
  const auto failures = m.commit_failures.get();
  const auto one = r1, two = r2;
  std::vector<room_share> shares{r1.share(), r2.share()};
  shares[0].changes.push_back(r1.message(a, "n2"));
  shares[0].changes.push_back(read(a, 1));
  shares[1].changes.push_back(r2.message(a, "n2"));
  const auto done = o.writer->commit(shares);
  for (const auto& share : done)
    for (const auto& result : share.results) {
      EXPECT_EQ(result.what, refused);
      EXPECT_EQ(result.why.code, errc::unavailable);
    }
  EXPECT_EQ(m.commit_failures.get() - failures, 1);
  EXPECT_EQ(stored("n2"), 0);
  r1 = one;
  r2 = two;
  with([](auto&) {});
  EXPECT_EQ(send(r1, a, "n2").what, committed);
  EXPECT_EQ(findings(), std::vector<std::string>{});
}

TEST_F(injected, a_commit_whose_answer_was_lost_is_found_committed) {
  const auto a = user("a"), b1 = user("b");
  auto r1 = room("r_1", {a, b1});
  with([](auto& x) { x.inject.commit_lost_answer = 2; });
  EXPECT_EQ(send(r1, a, "n1").what, committed);
  EXPECT_EQ(send(r1, a, "n2").what, committed);  // lost and found
  EXPECT_EQ(stored("n2"), 1);
  with([](auto& x) { x.inject.commit_lost_answer = 1'000'000'007; });
  EXPECT_EQ(send(r1, a, "n3").what, committed);
  // The other kinds of change are found as well.
  for (int kind = 0; kind < 4; ++kind) {
    with([](auto& x) { x.inject.commit_lost_answer = 2; });
    EXPECT_EQ(send(r1, a, "k" + std::to_string(kind)).what, committed);
    auto share = r1.share();
    if (kind == 0) share.changes.push_back(read(b1, r1.head));
    if (kind == 1) share.changes.push_back(r1.rename(a, "new"));
    if (kind == 2) share.changes.push_back(r1.leave(b1));
    if (kind == 3) share = {room_key{}, 1, 0, {creation("r_2", {a, b1})}};
    EXPECT_EQ(commit(share).at(0).what, committed) << kind;
  }
  EXPECT_EQ(must(r->load_room("r_1")).room.name, "new");
  EXPECT_TRUE(r->load_room("r_2"));
  EXPECT_EQ(findings(), std::vector<std::string>{});
}

TEST_F(injected, an_account_change_is_made_once_whatever_its_commit_says) {
  const auto a = user("a");
  new_user u;
  u.id = u.name = u.folded_name = "late";
  with([](auto& x) {
    x.inject.commit_lost_answer = 1;
    x.unknown_ms = 0;
  });
  EXPECT_FALSE(o.writer->apply(u)) << "nothing can be known: each COMMIT's answer is lost";
  with([](auto& x) { x.inject.commit_lost_answer = 2; });
  u.id = u.name = u.folded_name = "twice";
  must(o.writer->apply(touch_seen{{{a, 5}}}));
  EXPECT_EQ(must(o.writer->apply(u)).who.id, "twice");
  EXPECT_EQ(number(b.path(), "select count(*) from users where id = 'twice'"), 1);
  with([](auto& x) { x.inject.commit_fail = 3; });
  u.id = u.name = u.folded_name = "again";
  must(o.writer->apply(touch_seen{{{a, 6}}}));
  must(o.writer->apply(touch_seen{{{a, 7}}}));
  EXPECT_EQ(must(o.writer->apply(u)).who.id, "again");
  EXPECT_EQ(findings(), std::vector<std::string>{});
}

TEST_F(injected, what_stays_unknown_is_said_to_be_unknown) {
  const auto a = user("a");
  auto r1 = room("r_1", {a});
  with([](auto& x) {
    x.inject.commit_fail = 1;
    x.unknown_ms = 0;
  });
  EXPECT_EQ(send(r1, a, "n1").what, unknown);
  EXPECT_FALSE(o.writer->healthy());
  with([](auto&) {});
  EXPECT_TRUE(o.writer->healthy());
  EXPECT_EQ(send(r1, a, "n1").what, committed);
}

TEST(faults, are_read_from_the_environment) {
  ::setenv("PARLEY_FAULTS",
           "commit_delay_ms=3,sync_off=1,storage_hang_ms=4,commit_fail=5,commit_lost_answer=6", 1);
  const auto f = read_faults();
  ::unsetenv("PARLEY_FAULTS");
  const auto at = [](std::int64_t n) { return faults_built_in ? n : 0; };
  EXPECT_EQ(f.commit_delay_ms, at(3));
  EXPECT_EQ(f.sync_off, at(1));
  EXPECT_EQ(f.storage_hang_ms, at(4));
  EXPECT_EQ(f.commit_fail, at(5));
  EXPECT_EQ(f.commit_lost_answer, at(6));
}

// ---- by a disk that fails below SQLite

class failing_disk : public failing {
 public:
  void SetUp() override {
    disk = std::make_unique<power_vfs>(b.folder.path);
    failing::SetUp();
  }
  void TearDown() override {
    close();
    disk = nullptr;
  }
  std::unique_ptr<power_vfs> disk;
  std::mt19937 random{11};
};

TEST_F(failing_disk, full_in_commit_refuses_and_nothing_of_it_comes_back) {
  const auto a = user("a");
  auto r1 = room("r_1", {a});
  ASSERT_EQ(send(r1, a, "n1").what, committed);
  const auto wal = static_cast<std::int64_t>(std::filesystem::file_size(b.path() + "-wal"));
  disk->full_beyond("-wal", wal + 100);
  const auto done = send(r1, a, "n2", std::string(9000, 'x'));
  ASSERT_EQ(done.what, refused);
  EXPECT_EQ(done.why.message, "storage is full");
  EXPECT_FALSE(o.writer->healthy());
  EXPECT_EQ(must(r->history(r1.key, {}, {}, 50, 1)).messages.size(), 1u);
  const auto refused_at = disk->now();
  disk->full_beyond("-wal", -1);
  EXPECT_TRUE(o.writer->healthy());
  EXPECT_EQ(send(r1, a, "n3").what, committed);
  close();
  for (auto point = refused_at; point <= disk->now(); ++point) {
    sqlite_backend after;
    disk->crash(point, after.folder.path, random);
    EXPECT_EQ(must(check_store(after.c)), std::vector<std::string>{});
    EXPECT_EQ(number(after.path(), "select count(*) from messages where nonce = 'n2'"), 0);
  }
}

TEST_F(failing_disk, a_failed_sync_is_never_trusted_and_what_was_refused_stays_away) {
  for (const bool readers : {true, false}) {
    for (const bool write : {false, true}) {
      const std::string id = std::string("r_") + (readers ? "1" : "0") + (write ? "1" : "0");
      const auto a = user("a" + id);
      auto r1 = room(id, {a});
      ASSERT_EQ(send(r1, a, "n1" + id).what, committed);
      if (!readers)
        r = nullptr;  // the reopened database is then recovered from the WAL as after a crash
      if (write)
        disk->fail_writes("-wal", 1);
      else
        disk->fail_syncs("-wal", 1);
      const auto done = send(r1, a, "n2" + id);
      const auto answered = disk->now();
      // Either answer is right as long as it holds from now on, whatever happens to the machine.
      ASSERT_TRUE(done.what == refused || done.what == committed);
      const auto there = done.what == committed ? 1 : 0;
      EXPECT_EQ(stored("n2" + id), there);
      EXPECT_EQ(send(r1, a, "n3" + id).what, committed);
      const auto later = disk->now();
      for (auto point = answered; point <= later; ++point) {
        for (int tries = 0; tries < 3; ++tries) {
          sqlite_backend after;
          disk->crash(point, after.folder.path, random);
          EXPECT_EQ(must(check_store(after.c)), std::vector<std::string>{});
          EXPECT_EQ(
              number(after.path(), "select count(*) from messages where nonce = 'n2" + id + "'"),
              there)
              << "point " << point << " from " << answered << " to " << later;
        }
      }
      if (!r) r = must(open_reader(b.c, m));
    }
  }
  EXPECT_EQ(findings(), std::vector<std::string>{});
}

TEST_F(failing_disk, a_disk_that_stays_broken_ends_unknown_and_the_writer_recovers_later) {
  const auto a = user("a");
  auto r1 = room("r_1", {a});
  with([](auto& x) { x.unknown_ms = 0; });
  disk->fail_syncs("", 1'000'000);
  EXPECT_EQ(send(r1, a, "n1").what, unknown);
  EXPECT_FALSE(o.writer->healthy());
  disk->fail_syncs("", 0);
  EXPECT_TRUE(o.writer->healthy());
  // Asked by its nonce, the store says what came of it.
  const auto head = number(b.path(), "select head_seq from rooms where id = 'r_1'");
  r1.head = head;
  r1.n = r1.own[a] = number(b.path(), "select head_n from rooms where id = 'r_1'");
  const auto again = send(r1, a, "n1");
  EXPECT_TRUE(again.what == committed || again.what == duplicate);
  EXPECT_EQ(stored("n1"), 1);
  EXPECT_EQ(findings(), std::vector<std::string>{});
}

}  // namespace
}  // namespace parley::storage::test
