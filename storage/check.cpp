// `parleyd check`: integrity of the whole store, read-only and in one snapshot, so that it runs
// beside a server. Each row of `checks` is a query that finds nothing where all is well; what it
// finds is told as its text.
#include <array>
#include <filesystem>

#include "storage/migrate.hpp"
#include "storage/open_store.hpp"
#include "storage/sql.hpp"
#include "storage/store.hpp"

namespace parley::storage {
namespace {

constexpr std::size_t most_findings = 100;

// Rooms are named by their id, people by theirs; a key stands in where the row is gone.
constexpr std::array checks = {
    // The log.
    "select 'room ' || r.id || ': head is ' || r.head_seq || ', but it has ' || count(e.seq) || ' "
    "events, '"
    " || ifnull(min(e.seq), 0) || ' to ' || ifnull(max(e.seq), 0)"
    " from rooms r left join events e on e.room = r.room_key group by r.room_key"
    " having count(e.seq) <> r.head_seq or ifnull(max(e.seq), 0) <> r.head_seq or "
    "ifnull(min(e.seq), 1) <> 1",
    "select 'room ' || r.id || ': head n is ' || r.head_n || ', but it has ' || count(m.seq) || ' "
    "messages'"
    " from rooms r left join messages m on m.room = r.room_key group by r.room_key"
    " having count(m.seq) <> r.head_n",
    "select 'room ' || room || ', seq ' || seq || ': n is ' || n || ' and should be ' || should "
    "from"
    " (select room, seq, n, row_number() over (partition by room order by seq) as should from "
    "messages)"
    " where n <> should",
    "select 'room ' || room || ', seq ' || seq || ': own n is ' || own_n || ' and should be ' || "
    "should from"
    " (select room, seq, own_n, row_number() over (partition by room, sender order by seq) as "
    "should"
    "  from messages) where own_n <> should",
    "select 'room ' || e.room || ', seq ' || e.seq || ': the event has no message' from events e"
    " left join messages m on m.room = e.room and m.seq = e.seq where e.kind = 1 and m.seq is null",
    "select 'room ' || m.room || ', seq ' || m.seq || ': the message has no event of its own' from "
    "messages m"
    " left join events e on e.room = m.room and e.seq = m.seq and e.kind = 1 and e.sender = "
    "m.sender"
    "  and e.at = m.at where e.seq is null",
    "select 'room ' || room || ', seq ' || seq || ': it is older than the event before it' from"
    " (select room, seq, at, lag(at) over (partition by room order by seq) as before from events)"
    " where at < before",
    "select 'room ' || r.id || ': the last event is of ' || e.at || ', the room says ' || r.last_at"
    " from rooms r join events e on e.room = r.room_key and e.seq = r.head_seq where e.at <> "
    "r.last_at",
    "select 'room ' || room || ', seq ' || seq || ': it is deleted and still has its text' from "
    "messages"
    " where deleted <> 0 and text <> ''",
    // Members.
    "select 'room ' || r.id || ': it counts ' || r.members || ' members, but has '"
    " || (select count(*) from room_members m where m.room = r.room_key and m.state = 2) from "
    "rooms r"
    " where r.members <> (select count(*) from room_members m where m.room = r.room_key and "
    "m.state = 2)",
    "select 'room ' || m.room || ', user ' || m.user || ': own count is ' || m.own_n || ', but "
    "there are '"
    " || (select count(*) from messages x where x.room = m.room and x.sender = m.user) || ' "
    "messages'"
    " from room_members m where m.own_n <>"
    " (select count(*) from messages x where x.room = m.room and x.sender = m.user)",
    "select 'room ' || m.room || ', user ' || m.user || ': the mark ' || m.read_seq || ' is beyond "
    "the head '"
    " || r.head_seq from room_members m join rooms r on r.room_key = m.room where m.read_seq > "
    "r.head_seq",
    "select 'room ' || room || ', user ' || user || ': the mark ' || read_seq || ' counts ' || "
    "read_n"
    " || ' messages, ' || read_own || ' own, and should count ' || n || ', ' || own from"
    " (select m.*, ifnull((select x.n from messages x where x.room = m.room and x.seq <= m.read_seq"
    "   order by x.seq desc limit 1), 0) as n,"
    "  ifnull((select x.own_n from messages x where x.room = m.room and x.sender = m.user"
    "   and x.seq <= m.read_seq order by x.seq desc limit 1), 0) as own from room_members m)"
    " where read_n <> n or read_own <> own",
    "select 'room ' || m.room || ', user ' || m.user || ': state is ' || m.state || ', joined at '"
    " || m.joined_seq || ', but the last join or leave is ' || ifnull(e.seq, 'none') from "
    "room_members m"
    " left join events e on e.room = m.room and e.seq = (select max(x.seq) from events x"
    "  where x.room = m.room and x.target = m.user and x.kind in (10, 11))"
    " where (m.state = 2) <> (ifnull(e.kind, 0) = 10) or (m.state = 2 and m.joined_seq <> e.seq)",
    "select 'room ' || e.room || ': user ' || e.target || ' joined at ' || e.seq || ' and has no "
    "row' from"
    " events e left join room_members m on m.room = e.room and m.user = e.target"
    " where e.kind = 10 and m.user is null",
    // Nonces.
    "select 'room ' || o.room || ': a nonce names the seq ' || o.seq || ', which is no event' from "
    "op_nonces o"
    " left join events e on e.room = o.room and e.seq = o.seq where e.seq is null",
    "select 'user ' || c.user || ': a nonce names the room ' || c.room || ', which there is not'"
    " from room_creates c left join rooms r on r.room_key = c.room where r.room_key is null",
    // What names something that is not there.
    "select 'events of room ' || e.room || ', which there is not' from events e"
    " left join rooms r on r.room_key = e.room where r.room_key is null group by e.room",
    "select 'messages of room ' || m.room || ', which there is not' from messages m"
    " left join rooms r on r.room_key = m.room where r.room_key is null group by m.room",
    "select 'members of room ' || m.room || ', which there is not' from room_members m"
    " left join rooms r on r.room_key = m.room where r.room_key is null group by m.room",
    "select 'room ' || m.room || ': member ' || m.user || ', who is no user' from room_members m"
    " left join users u on u.user_key = m.user where u.user_key is null",
    "select 'room ' || m.room || ': sender ' || m.sender || ', who is no user' from messages m"
    " left join users u on u.user_key = m.sender where u.user_key is null group by m.room, "
    "m.sender",
    "select 'room ' || e.room || ', seq ' || e.seq || ': it concerns ' || e.target || ', who is no "
    "user'"
    " from events e left join users u on u.user_key = e.target"
    " where e.kind between 10 and 12 and u.user_key is null",
    "select 'room ' || e.room || ', seq ' || e.seq || ': it concerns the message ' || e.target"
    " || ', which there is not' from events e left join messages m on m.room = e.room and m.seq = "
    "e.target"
    " where e.kind between 2 and 7 and m.seq is null",
    "select 'a mention in room ' || x.room || ', seq ' || x.seq || ', which is no message'"
    " from message_mentions x left join messages m on m.room = x.room and m.seq = x.seq where "
    "m.seq is null",
    "select 'a reaction in room ' || x.room || ', seq ' || x.seq || ', which is no message'"
    " from reactions x left join messages m on m.room = x.room and m.seq = x.seq where m.seq is "
    "null",
    "select 'a password of user ' || c.user || ', who is no user' from credentials c"
    " left join users u on u.user_key = c.user where u.user_key is null",
    "select 'a suspension of user ' || s.user || ', who is no user' from user_suspensions s"
    " left join users u on u.user_key = s.user where u.user_key is null",
    "select 'direct room ' || id || ' has no pair' from rooms where (kind = 3) <> (pair is not "
    "null)",
    // The store itself.
    "select 'meta has no ' || k from (select 'schema_version' as k union select 'epoch' union "
    "select"
    " 'durability' union select 'clean') where k not in (select k from meta)",
};

void find(connection& c, const std::string& sql, std::vector<std::string>& out) {
  std::string text;
  soci::indicator is = soci::i_null;
  statement st(c, sql, soci::into(text, is));
  for (bool row = st.execute(); row && out.size() < most_findings; row = st.fetch())
    out.push_back(is == soci::i_ok ? text : "a row that cannot be told: " + sql);
  st.reset();
}

}  // namespace

result<std::vector<std::string>> check_store(const config& c) {
  auto path = sqlite_path(c);
  if (!path) return path.error();
  if (std::error_code e; !std::filesystem::exists(*path, e))
    return fail(errc::unavailable, "there is no database at " + *path);
  std::vector<std::string> out;
  try {
    connection db(*path, connection::mode::read_only, nullptr);
    db.run("begin");
    auto all = migrations("sqlite");
    if (!all) return all.error();
    const auto version = schema_version(db);
    if (version != static_cast<std::int64_t>(all->size()))
      return fail(errc::conflict, "the database has schema " + std::to_string(version) +
                                      ", this program checks " + std::to_string(all->size()));
    find(db, "pragma integrity_check(20)", out);
    if (out.size() == 1 && out.front() == "ok") out.clear();
    for (const auto* sql : checks)
      find(db, sql, out);
    db.run("commit");
  } catch (const sql_error& e) {
    // A damaged page ends the reading; that it does is the finding.
    if (e.code != lite::corrupt && e.code != lite::not_a_database) return to_failure(e);
    out.push_back(std::string("the database is damaged: ") + e.what());
  }
  if (out.size() >= most_findings) out.push_back("… and maybe more");
  return out;
}

}  // namespace parley::storage
