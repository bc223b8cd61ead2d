// See migrate.hpp.
#include "storage/migrate.hpp"

#include <algorithm>
#include <cctype>

#include "schemas/log.hpp"
#include "schemas/packed.hpp"

namespace parley::storage {

result<std::vector<migration>>
order_migrations(const std::vector<std::pair<std::string_view, std::string_view>>& files,
                 std::string_view dialect) {
  const std::string suffix = "." + std::string(dialect) + ".sql";
  std::vector<migration> all;
  for (const auto& [name, text] : files) {
    if (!name.ends_with(suffix)) continue;
    std::int64_t number = 0;
    std::size_t digits = 0;
    while (digits < name.size() && std::isdigit(static_cast<unsigned char>(name[digits])) != 0)
      number = number * 10 + (name[digits++] - '0');
    if (digits != 4 || name.size() <= 4 || name[4] != '_')
      return fail(errc::internal,
                  "migration " + std::string(name) + " is not named NNNN_name" + suffix);
    all.push_back({number, name, text});
  }
  std::sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.number < b.number; });
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].number != static_cast<std::int64_t>(i) + 1)
      return fail(errc::internal, "migration " + std::to_string(i + 1) +
                                      " is missing or stands twice: found " +
                                      std::string(all[i].name));
  return all;
}

result<std::vector<migration>> migrations(std::string_view dialect) {
  std::vector<std::pair<std::string_view, std::string_view>> files;
  for (std::size_t i = 0; i < migration_files_count; ++i)
    files.emplace_back(migration_files[i].name, migration_files[i].data);
  return order_migrations(files, dialect);
}

std::vector<std::string> split_statements(std::string_view sql) {
  std::vector<std::string> out;
  std::string one;
  const auto finish = [&] {
    if (std::any_of(one.begin(), one.end(), [](unsigned char c) { return std::isspace(c) == 0; }))
      out.push_back(one);
    one.clear();
  };
  for (std::size_t i = 0; i < sql.size();) {
    const char c = sql[i];
    std::size_t end;
    if (c == '-' && sql.substr(i).starts_with("--")) {
      end = std::min(sql.find('\n', i), sql.size());
      i = end;  // comments are dropped
      continue;
    }
    if (sql.substr(i).starts_with("/*")) {
      end = sql.find("*/", i + 2);
      i = end == sql.npos ? sql.size() : end + 2;
      continue;
    }
    if (c == '\'' || c == '"' || c == '`') {
      end = sql.find(c, i + 1);  // a doubled quote is two strings side by side
      end = end == sql.npos ? sql.size() : end + 1;
      one.append(sql.substr(i, end - i));
      i = end;
      continue;
    }
    ++i;
    if (c == ';')
      finish();
    else
      one.push_back(c);
  }
  finish();
  return out;
}

std::int64_t schema_version(connection& c) {
  if (c.ask_number("select count(*) from sqlite_master where type = 'table' and name = 'meta'") ==
      0)
    return 0;
  return c.ask_number("select cast(v as integer) from meta where k = 'schema_version'");
}

result<std::pair<std::int64_t, std::int64_t>> migrate(connection& c,
                                                      const std::vector<migration>& all) {
  const auto from = schema_version(c);
  const auto to = static_cast<std::int64_t>(all.size());
  if (from > to)
    return fail(errc::conflict, "the database has schema " + std::to_string(from) +
                                    ", newer than this program's " + std::to_string(to) +
                                    ": use the newer program");
  if (from == 0 && c.ask_number("select count(*) from sqlite_master where type = 'table'") != 0)
    return fail(errc::conflict,
                "the database belongs to another program: it has tables but no meta");
  for (const auto& step : all) {
    if (step.number <= from) continue;
    c.run("begin immediate");
    try {
      for (const auto& text : split_statements(step.sql))
        c.run(text);
      c.run("insert into meta (k, v) values ('schema_version', '" + std::to_string(step.number) +
            "') on conflict (k) do update set v = excluded.v");
      c.run("commit");
    } catch (const sql_error& e) {
      if (!lite::autocommit(c.session())) c.run("rollback");
      throw sql_error(e.extended, "migration " + std::string(step.name) + ": " + e.what());
    }
    log::info("storage", "schema migrated", {{"file", std::string(step.name)}});
  }
  return std::pair(from, to);
}

}  // namespace parley::storage
