// Opening: who owns the store, which epoch it has, which schema, and what a wrong URL or a broken
// file is told.
#include <fstream>

#include <sys/wait.h>
#include <unistd.h>

#include "storage/epoch.hpp"
#include "storage/migrate.hpp"
#include "tests/storage/support.hpp"

namespace parley::storage::test {
namespace {

class opening : public ::testing::Test {
 public:
  sqlite_backend b;
  metrics m;
  opened open() { return must(open_writer(b.c, m)); }
};

// ---- one owner

TEST_F(opening, a_second_owner_is_told_who_the_first_one_is) {
  auto first = open();
  const auto second = open_writer(b.c, m);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, errc::conflict);
  EXPECT_NE(second.error().message.find("held by process " + std::to_string(::getpid())),
            std::string::npos)
      << second.error().message;
  EXPECT_NE(second.error().message.find("since 20"), std::string::npos);
  EXPECT_FALSE(migrate_store(b.c));
  first = {};
  EXPECT_TRUE(open_writer(b.c, m));
}

TEST_F(opening, two_data_folders_cannot_own_one_database) {
  temp_folder other;
  auto c = b.c;
  c.storage.url = "sqlite:" + b.path();
  c.storage.data = other.path;
  auto first = open();
  const auto second = open_writer(c, m);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, errc::conflict);
  first = {};
  EXPECT_TRUE(open_writer(c, m));
}

TEST_F(opening, a_killed_owner_leaves_no_lock) {
  const auto child = ::fork();
  if (child == 0) {
    metrics own;
    auto o = open_writer(b.c, own);
    ::_exit(o ? 7 : 8);  // without any destructor
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_EQ(WEXITSTATUS(status), 7);
  EXPECT_TRUE(open_writer(b.c, m));
}

// ---- epoch

TEST_F(opening, the_epoch_survives_stops_and_kills) {
  auto o = open();
  const auto epoch = o.epoch;
  EXPECT_FALSE(epoch.empty());
  o = {};
  EXPECT_EQ(open().epoch, epoch);
  for (const std::string durability : {"full", "relaxed"}) {
    b.c.storage.durability = durability;
    open();
    b.query("update meta set v = '0' where k = 'clean'");
    EXPECT_EQ(open().epoch, epoch) << "a kill on the same boot, " << durability;
  }
}

TEST_F(opening, the_epoch_changes_after_an_unclean_relaxed_run_and_a_boot) {
  b.c.storage.durability = "relaxed";
  auto epoch = open().epoch;
  const auto another_boot = [&](const std::string& clean) {
    b.query("update meta set v = 'another boot' where k = 'boot_id'");
    b.query("update meta set v = '" + clean + "' where k = 'clean'");
  };
  another_boot("1");
  EXPECT_EQ(open().epoch, epoch) << "it had ended cleanly";
  another_boot("0");
  const auto now = open().epoch;
  EXPECT_NE(now, epoch);
  EXPECT_EQ(open().epoch, now) << "once only";
  // What counts is how the last run was, not how this one is.
  another_boot("0");
  b.c.storage.durability = "full";
  const auto third = open().epoch;
  EXPECT_NE(third, now);
  another_boot("0");
  EXPECT_EQ(open().epoch, third) << "full durability survives the loss of power";
}

TEST_F(opening, a_store_without_an_epoch_gets_a_new_one) {
  const auto epoch = open().epoch;
  b.query("delete from meta where k = 'epoch'");
  const auto now = open().epoch;
  EXPECT_NE(now, epoch);
  EXPECT_FALSE(now.empty());
}

TEST_F(opening, a_clean_end_is_noted_and_a_running_store_is_not_clean) {
  auto o = open();
  EXPECT_EQ(b.query("select v from meta where k = 'clean'").at(0), "0");
  o = {};
  EXPECT_EQ(b.query("select v from meta where k = 'clean'").at(0), "1");
  EXPECT_EQ(b.query("select v from meta where k = 'durability'").at(0), "full");
  EXPECT_EQ(b.query("select v from meta where k = 'boot_id'").at(0), boot_id());
}

// ---- a damaged log (F21)

class damaged_log : public opening {
 public:
  std::string epoch;
  std::string wal = b.path() + "-wal";
  /// A process that writes and dies without an end, so that its log stays. Nobody looks at the
  /// store before it is opened again, which would recover the log.
  void crash(bool another_boot = false) {
    const auto child = ::fork();
    if (child == 0) {
      metrics own;
      auto o = open_writer(b.c, own);
      if (!o) ::_exit(8);
      if (another_boot) b.query("update meta set v = 'the boot before' where k = 'boot_id'");
      for (int i = 0; i < 20; ++i) {
        new_user u;
        u.id = u.name = u.folded_name = "user" + std::to_string(i);
        if (!o->writer->apply(u)) ::_exit(9);
      }
      std::ofstream(b.folder.path + "/epoch") << o->epoch;
      ::_exit(std::filesystem::file_size(wal) > 50000 ? 7 : 6);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_EQ(WEXITSTATUS(status), 7);
    std::ifstream(b.folder.path + "/epoch") >> epoch;
  }
  void expect_one_refusal() {
    {
      const auto o = open_writer(b.c, m);
      ASSERT_FALSE(o) << "a part of the log is gone and nothing is said";
      EXPECT_EQ(o.error().code, errc::internal);
      EXPECT_NE(o.error().message.find("damaged"), std::string::npos) << o.error().message;
    }
    EXPECT_NE(open().epoch, epoch) << "numbers may name other events now";
    EXPECT_EQ(must(check_store(b.c)), std::vector<std::string>{});
  }
};

TEST_F(damaged_log, that_is_whole_is_taken_as_it_is) {
  crash();
  EXPECT_EQ(open().epoch, epoch);
  EXPECT_EQ(number(b.path(), "select count(*) from users"), 20);
}

TEST_F(damaged_log, that_was_cut_stops_the_start_once) {
  crash();
  std::filesystem::resize_file(wal, std::filesystem::file_size(wal) / 2);
  expect_one_refusal();
}

TEST_F(damaged_log, with_a_flipped_bit_stops_the_start_once) {
  crash();
  std::fstream file(wal, std::ios::in | std::ios::out | std::ios::binary);
  const auto at = static_cast<std::streamoff>(std::filesystem::file_size(wal)) - 9000;
  file.seekg(at);
  const char was = static_cast<char>(file.get());
  file.seekp(at);
  file.put(static_cast<char>(was ^ 4));
  file.close();
  expect_one_refusal();
}

TEST_F(damaged_log, that_is_gone_stops_the_start_once) {
  crash();
  std::filesystem::remove(wal);
  const auto o = open_writer(b.c, m);
  ASSERT_FALSE(o);
  EXPECT_NE(o.error().message.find("damaged"), std::string::npos);
  EXPECT_NE(open().epoch, epoch);
}

TEST_F(damaged_log, of_a_relaxed_run_may_end_with_the_machine_but_not_with_the_process) {
  b.c.storage.durability = "relaxed";
  crash();
  std::filesystem::resize_file(wal, std::filesystem::file_size(wal) - 9000);
  expect_one_refusal();
  std::filesystem::remove(b.path());
  crash(true);
  std::filesystem::resize_file(wal, std::filesystem::file_size(wal) - 9000);
  EXPECT_NE(open().epoch, epoch);
}

// ---- schema

TEST_F(opening, a_new_store_has_the_newest_schema) {
  const auto all = must(migrations("sqlite"));
  ASSERT_GE(all.size(), 1u);
  EXPECT_EQ(open().schema_version, static_cast<std::int64_t>(all.size()));
  EXPECT_EQ(must(migrate_store(b.c)),
            std::pair(std::int64_t(all.size()), std::int64_t(all.size())));
}

TEST_F(opening, a_newer_schema_stops_the_start) {
  open();
  b.query("update meta set v = '1000' where k = 'schema_version'");
  const auto o = open_writer(b.c, m);
  ASSERT_FALSE(o);
  EXPECT_EQ(o.error().code, errc::conflict);
  EXPECT_NE(o.error().message.find("newer"), std::string::npos);
  EXPECT_FALSE(migrate_store(b.c));
}

TEST_F(opening, an_old_schema_is_left_alone_where_that_is_configured) {
  b.c.storage.migrate = false;
  const auto o = open_writer(b.c, m);
  ASSERT_FALSE(o);
  EXPECT_EQ(o.error().code, errc::unavailable);
  EXPECT_NE(o.error().message.find("parleyd migrate"), std::string::npos);
  EXPECT_EQ(must(migrate_store(b.c)).first, 0);
  EXPECT_TRUE(open_writer(b.c, m));
}

TEST_F(opening, a_database_of_another_program_is_not_touched) {
  b.query("create table theirs (x)");
  const auto o = open_writer(b.c, m);
  ASSERT_FALSE(o);
  EXPECT_EQ(o.error().code, errc::conflict);
  EXPECT_EQ(b.query("select name from sqlite_master"), std::vector<std::string>{"theirs"});
}

// ---- what cannot be opened

TEST_F(opening, urls_are_checked) {
  const auto code = [&](const std::string& url) {
    b.c.storage.url = url;
    const auto o = open_writer(b.c, m);
    const auto r = open_reader(b.c, m);
    EXPECT_FALSE(o) << url;
    EXPECT_FALSE(r) << url;
    return o ? errc::internal : o.error().code;
  };
  EXPECT_EQ(code("mysql://u:p@localhost/parley"), errc::unavailable);
  EXPECT_EQ(code("postgres://x"), errc::bad_request);
  EXPECT_EQ(code("sqlite:"), errc::bad_request);
  EXPECT_EQ(code("sqlite::memory:"), errc::bad_request);
  EXPECT_EQ(code("sqlite:a\"b"), errc::bad_request);
  b.c.storage.url = "";
  b.c.storage.durability = "maybe";
  EXPECT_FALSE(open_writer(b.c, m));
}

TEST_F(opening, a_path_may_hold_spaces_and_its_folder_is_made) {
  b.c.storage.url = "sqlite:" + b.folder.path + "/a folder = with spaces/chat = 1.db";
  auto o = must(open_writer(b.c, m));
  EXPECT_TRUE(std::filesystem::exists(b.folder.path + "/a folder = with spaces/chat = 1.db"));
  EXPECT_TRUE(open_reader(b.c, m));
}

TEST_F(opening, a_file_that_is_no_database_is_told_as_such) {
  std::ofstream(b.path()) << std::string(10000, 'x');
  const auto o = open_writer(b.c, m);
  ASSERT_FALSE(o);
  EXPECT_NE(o.error().message.find("damaged"), std::string::npos) << o.error().message;
}

TEST_F(opening, a_folder_that_cannot_be_made_is_told) {
  std::ofstream(b.folder.path + "/file") << "x";
  b.c.storage.data = b.folder.path + "/file/below";
  const auto o = open_writer(b.c, m);
  ASSERT_FALSE(o);
  EXPECT_EQ(o.error().code, errc::unavailable);
}

TEST_F(opening, a_reader_makes_no_database) {
  EXPECT_FALSE(open_reader(b.c, m));
  EXPECT_FALSE(std::filesystem::exists(b.path()));
}

}  // namespace
}  // namespace parley::storage::test
