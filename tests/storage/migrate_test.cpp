// Migrations: order, gaps, statements taken apart, a crash in the middle; and MariaDB takes the
// MySQL files.
#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>

#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storage/migrate.hpp"
#include "tests/storage/support.hpp"

namespace parley::storage::test {
namespace {

using files = std::vector<std::pair<std::string_view, std::string_view>>;

TEST(migrations, are_ordered_by_number_and_chosen_by_dialect) {
  const auto all = must(order_migrations(
      files{{"0002_b.sqlite.sql", "b"}, {"0001_a.mysql.sql", "m"}, {"0001_a.sqlite.sql", "a"}},
      "sqlite"));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].sql, "a");
  EXPECT_EQ(all[1].number, 2);
}

TEST(migrations, with_a_gap_a_double_or_a_wrong_name_are_refused) {
  EXPECT_FALSE(order_migrations(files{{"0002_b.sqlite.sql", ""}}, "sqlite"));
  EXPECT_FALSE(
      order_migrations(files{{"0001_a.sqlite.sql", ""}, {"0003_c.sqlite.sql", ""}}, "sqlite"));
  EXPECT_FALSE(
      order_migrations(files{{"0001_a.sqlite.sql", ""}, {"0001_b.sqlite.sql", ""}}, "sqlite"));
  EXPECT_FALSE(order_migrations(files{{"1_a.sqlite.sql", ""}}, "sqlite"));
  EXPECT_FALSE(order_migrations(files{{"00001_a.sqlite.sql", ""}}, "sqlite"));
}

TEST(migrations, exist_in_both_dialects_or_in_none) {
  const auto sqlite = must(migrations("sqlite")), mysql = must(migrations("mysql"));
  ASSERT_EQ(sqlite.size(), mysql.size());
  ASSERT_GE(sqlite.size(), 1u);
  for (std::size_t i = 0; i < sqlite.size(); ++i)
    EXPECT_EQ(sqlite[i].name.substr(0, sqlite[i].name.find('.')),
              mysql[i].name.substr(0, mysql[i].name.find('.')));
}

TEST(statements, are_taken_apart_at_their_own_semicolons) {
  EXPECT_EQ(split_statements("a;b ; \n\n ;c"), (std::vector<std::string>{"a", "b ", "c"}));
  EXPECT_EQ(split_statements("x ';' y \"a;b\" `;`;z"),
            (std::vector<std::string>{"x ';' y \"a;b\" `;`", "z"}));
  EXPECT_EQ(split_statements("a 'it''s; so' b;"), (std::vector<std::string>{"a 'it''s; so' b"}));
  EXPECT_EQ(split_statements("-- no; 'statement\na /* ; */ b;-- end"),
            (std::vector<std::string>{"\na  b"}));
  EXPECT_TRUE(split_statements(" \n-- nothing\n").empty());
}

class steps : public ::testing::Test {
 public:
  temp_folder folder;
  std::string path = folder.path + "/x.db";
  const std::vector<migration> two = {
      {1, "0001_a.sqlite.sql",
       "create table meta (k text primary key, v text); create table a (x); insert into a values "
       "(1);"},
      {2, "0002_b.sqlite.sql",
       "create table b (x); insert into b values (1); insert into a values (2);"}};
};

TEST_F(steps, are_applied_once) {
  connection c(path, connection::mode::read_write, nullptr);
  EXPECT_EQ(must(migrate(c, {two[0]})), std::pair(std::int64_t{0}, std::int64_t{1}));
  EXPECT_EQ(must(migrate(c, two)), std::pair(std::int64_t{1}, std::int64_t{2}));
  EXPECT_EQ(must(migrate(c, two)), std::pair(std::int64_t{2}, std::int64_t{2}));
  EXPECT_EQ(number(path, "select count(*) from a"), 2);
  EXPECT_FALSE(migrate(c, {two[0]})) << "a newer schema";
}

TEST_F(steps, that_fail_leave_the_version_before_them) {
  connection c(path, connection::mode::read_write, nullptr);
  auto broken = two;
  broken[1].sql = "create table b (x); insert into nothing values (1);";
  EXPECT_THROW(migrate(c, broken), sql_error);
  EXPECT_EQ(schema_version(c), 1);
  EXPECT_EQ(number(path, "select count(*) from sqlite_master where name = 'b'"), 0);
  EXPECT_EQ(must(migrate(c, two)).second, 2);
}

// SIGKILL at many points of the real migrations: the next start finds the version before or after,
// and completes it.
TEST(migration, survives_a_kill_at_any_point) {
  int before = 0, after = 0;
  for (int point = 0; point < 50; ++point) {
    sqlite_backend b;
    std::array<int, 2> pipe{};
    ASSERT_EQ(::pipe(pipe.data()), 0);
    const auto child = ::fork();
    if (child == 0) {
      ::close(pipe[0]);
      // A trace callback would need the connection; a limit on the file's size kills it inside a
      // write just as well.
      metrics own;
      struct sigaction end {};
      end.sa_handler = SIG_DFL;
      ::sigaction(SIGALRM, &end, nullptr);
      ::itimerval in{};
      in.it_value.tv_usec = 200 + point * 400;
      if (::write(pipe[1], "x", 1) != 1) ::_exit(9);
      ::setitimer(ITIMER_REAL, &in,
                  nullptr);  // SIGALRM ends the process like SIGKILL: no destructor runs
      const auto o = open_writer(b.c, own);
      ::_exit(o ? 0 : 9);
    }
    ::close(pipe[1]);
    int status = 0;
    ::waitpid(child, &status, 0);
    ::close(pipe[0]);
    ASSERT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    WIFSIGNALED(status) ? ++before : ++after;
    metrics m;
    {
      const auto o = open_writer(b.c, m);
      ASSERT_TRUE(o) << o.error().message;
      ASSERT_EQ(o->schema_version, static_cast<std::int64_t>(must(migrations("sqlite")).size()));
    }
    ASSERT_EQ(must(check_store(b.c)), std::vector<std::string>{}) << "point " << point;
  }
  EXPECT_GT(before, 0) << "no kill came in time";
}

// ---- MariaDB

/// A private server in a temporary folder, without a network; ended by its own process id.
class mariadb {
 public:
  mariadb() {
    const auto data = folder.path + "/data";
    const std::string as = ::getuid() == 0 ? " --user=root" : "";
    run("mariadb-install-db --no-defaults --auth-root-authentication-method=normal --skip-test-db" +
        as + " --datadir=" + data);
    pid = ::fork();
    if (pid == 0) {
      if (std::freopen((folder.path + "/log").c_str(), "w", stderr) == nullptr) ::_exit(9);
      const auto d = "--datadir=" + data, s = "--socket=" + socket, u = std::string("--user=root");
      ::execlp("mariadbd", "mariadbd", "--no-defaults", d.c_str(), s.c_str(), "--skip-networking",
               "--innodb-buffer-pool-size=16M", ::getuid() == 0 ? u.c_str() : "--skip-name-resolve",
               nullptr);
      ::_exit(9);
    }
  }
  ~mariadb() {
    if (pid <= 0) return;
    ::kill(pid, SIGTERM);
    ::waitpid(pid, nullptr, 0);
  }
  bool ready() {
    // mariadb-admin itself waits, at most for the time given.
    return run("mariadb-admin --no-defaults -uroot --socket=" + socket +
               " --connect-timeout=2 --wait=30 ping") == 0;
  }
  /// The output of a query, or of a file.
  std::string query(const std::string& text, bool file = false) {
    const auto out = folder.path + "/out";
    status = run("mariadb --no-defaults -uroot --socket=" + socket + " -N parley " +
                     (file ? "< '" + text + "'" : "-e \"" + text + "\"") + " > " + out + " 2>&1",
                 false);
    std::ostringstream all;
    all << std::ifstream(out).rdbuf();
    return all.str();
  }
  int run(const std::string& command, bool quiet = true) {
    return std::system((command + (quiet ? " > /dev/null 2>&1" : "")).c_str());
  }
  temp_folder folder;
  std::string socket = folder.path + "/s";
  pid_t pid = 0;
  int status = 0;
};

TEST(mysql_migrations, are_taken_by_mariadb_and_make_the_same_tables) {
  ASSERT_EQ(std::system("command -v mariadbd > /dev/null"), 0)
      << "mariadb-server is needed (scripts/deps)";
  mariadb server;
  ASSERT_TRUE(server.ready());
  ASSERT_EQ(
      server.run("mariadb-admin --no-defaults -uroot --socket=" + server.socket + " create parley"),
      0);
  sqlite_backend b;
  metrics m;
  must(open_writer(b.c, m));
  for (const auto& step : must(migrations("mysql"))) {
    const auto said =
        server.query(std::string(PARLEY_SQL_FOLDER "/") + std::string(step.name), true);
    ASSERT_EQ(server.status, 0) << step.name << ": " << said;
  }
  const auto columns = [](std::vector<std::string> rows) {
    std::sort(rows.begin(), rows.end());
    return rows;
  };
  std::vector<std::string> theirs;
  std::istringstream lines(
      server.query("select concat(table_name, '.', column_name, case is_nullable when 'YES' then "
                   "'?' else '' end)"
                   " from information_schema.columns where table_schema = 'parley'"));
  for (std::string line; std::getline(lines, line);)
    theirs.push_back(line);
  const auto ours = b.query(
      "select m.name || '.' || c.name || case when c.\"notnull\" or c.pk then '' else '?' end"
      " from sqlite_master m, pragma_table_info(m.name) c"
      " where m.type = 'table' and m.name not like 'sqlite_%'");
  EXPECT_EQ(columns(theirs), columns(ours));
  // The same rows are unique.
  const auto refused = [&](const std::string& first, const std::string& second) {
    server.query(first);
    EXPECT_EQ(server.status, 0) << first;
    server.query(second);
    return server.status != 0;
  };
  const std::string message =
      "insert into messages (room, seq, n, own_n, at, sender, nonce, request_hash, text) values ";
  EXPECT_TRUE(refused(message + "(1, 1, 1, 1, 1, 1, 'n', '', '')",
                      message + "(1, 2, 2, 2, 1, 1, 'n', '', '')"));
  EXPECT_TRUE(refused(message + "(2, 1, 1, 1, 1, 1, 'n', '', '')",
                      message + "(2, 1, 1, 1, 1, 1, 'm', '', '')"));
  EXPECT_FALSE(refused(message + "(3, 1, 1, 1, 1, 1, 'n', '', '')",
                       message + "(3, 2, 1, 1, 1, 1, 'N', '', '')"))
      << "nonces are compared by their bytes";
  const std::string user = "insert into users (id, name, folded_name, created_at) values ";
  EXPECT_TRUE(refused(user + "('a', 'A', 'a', 1)", user + "('b', 'A', 'a', 1)"));
}

}  // namespace
}  // namespace parley::storage::test
