// Every statement that runs for a message or a change of a room, with how often it runs. A test
// counts the executions (metrics.statements) and holds the numbers below true, so that none slips
// in unseen. Used by room_writer and the writer only.
//
// A message alone (one share, one change):          6 = begin + message + event + mark + head +
// commit k messages by s senders in one share, alone:  2k + s + 3 = begin + k (message + event) + s
// marks + head + commit the same beside other shares:                 2k + s + 3 per share
// (savepoint and release instead of begin and
//                                               commit), and one begin and commit for all of them
// a read mark alone:                                4 = begin + mark + guard + commit
// a known nonce:                                    + 1 (first_message), and nothing behind it in
// its share
#pragma once

namespace parley::storage::sql {

// Once per transaction.
inline constexpr auto begin = "begin immediate";
inline constexpr auto commit = "commit";
// Once per share where a transaction has several.
inline constexpr auto savepoint = "savepoint share";
inline constexpr auto release = "release share";
// Only after a failure.
inline constexpr auto rollback_to = "rollback to share";
inline constexpr auto rollback = "rollback";

// Once per message. A known nonce changes no row, nor does a reply to what is no message.
inline constexpr auto message =
    "insert into messages (room, seq, n, own_n, at, sender, nonce, request_hash, text, reply_to)"
    " select :room, :seq, :n, :own_n, :at, :sender, :nonce, :hash, :text, :reply"
    " where :reply is null or exists (select 1 from messages where room = :room and seq = :reply)"
    " on conflict (room, sender, nonce) do nothing";
// Once per event of any kind, messages included.
inline constexpr auto event = "insert into events (room, seq, kind, sender, target, at, body)"
                              " values (:room, :seq, :kind, :sender, :target, :at, :body)";
// Once per sender and share: the sender's own count, and the mark at the sender's last message. The
// room decided on `before` own messages: another number means that it knows something else than the
// database.
inline constexpr auto sender_mark =
    "update room_members set own_n = :own, read_seq = :seq, read_n = :n, read_own = :own"
    " where room = :room and user = :user and state = 2 and own_n = :before";
// Once per share with events. It changes no row where another owner wrote meanwhile.
inline constexpr auto head =
    "update rooms set head_seq = :seq, head_n = head_n + :messages, last_at = :at,"
    " members = members + :joined where room_key = :room and term = :term and head_seq = :expected"
    " and (:first_n = 0 or head_n = :first_n - 1)";
// Once per share without events but with a read mark.
inline constexpr auto guard =
    "select 1 from rooms where room_key = :room and term = :term and head_seq = :expected";

// Once per message whose nonce was known, and per find_nonce.
inline constexpr auto first_message = "select seq, at, request_hash, deleted from messages"
                                      " where room = :room and sender = :sender and nonce = :nonce";

// Once per read mark. n and own count at the mark come from the last messages at or before it.
inline constexpr auto read_forward =
    "update room_members set read_seq = :seq,"
    " read_n = max(read_n, ifnull((select n from messages where room = :room and seq <= :seq"
    "  order by seq desc limit 1), 0)),"
    " read_own = max(read_own, ifnull((select own_n from messages where room = :room and sender = "
    ":user"
    "  and seq <= :seq order by seq desc limit 1), 0))"
    " where room = :room and user = :user and state = 2 and read_seq < :seq"
    " returning read_seq, read_n, read_own";
inline constexpr auto read_backward =
    "update room_members set read_seq = :seq,"
    " read_n = ifnull((select n from messages where room = :room and seq <= :seq"
    "  order by seq desc limit 1), 0),"
    " read_own = ifnull((select own_n from messages where room = :room and sender = :user"
    "  and seq <= :seq order by seq desc limit 1), 0)"
    " where room = :room and user = :user and state = 2 and exists"
    "  (select 1 from messages where room = :room and seq = :seq + 1 and deleted = 0)"
    " returning read_seq, read_n, read_own";
// Where a read mark changed nothing.
inline constexpr auto read_mark = "select read_seq, read_n, read_own from room_members"
                                  " where room = :room and user = :user and state = 2";

// Once per change with a nonce of its own (join, leave, invite, change); a known one changes no
// row.
inline constexpr auto op_nonce =
    "insert into op_nonces (room, user, nonce, request_hash, seq, at)"
    " values (:room, :user, :nonce, :hash, :seq, :at) on conflict (room, user, nonce) do nothing";
inline constexpr auto first_op = "select seq, at, request_hash from op_nonces"
                                 " where room = :room and user = :user and nonce = :nonce";

// Once per change of a membership.
inline constexpr auto member_state =
    "select state from room_members where room = :room and user = :user";
inline constexpr auto member_joined =
    "insert into room_members"
    " (room, user, state, role, joined_seq, joined_at, read_seq, read_n, read_own)"
    " values (:room, :user, 2, :role, :seq, :at, :seq, :n, 0)"
    " on conflict (room, user) do update set state = 2, role = excluded.role,"
    " joined_seq = excluded.joined_seq, joined_at = excluded.joined_at, read_seq = "
    "excluded.read_seq,"
    " read_n = excluded.read_n, read_own = own_n";
inline constexpr auto member_changed =
    "insert into room_members (room, user, state, role) values (:room, :user, :state, :role)"
    " on conflict (room, user) do update set state = excluded.state, role = excluded.role";
// Bodies of events; what is null is left out.
inline constexpr auto member_body =
    "select json_patch('{}', json_object('role', :role, 'reason', :reason))";
inline constexpr auto change_body =
    "select json_patch('{}', json_object('name', :name, 'topic', :topic, 'slow_mode_s', :slow,"
    " 'retention_days', :retention, 'history', :history))";
// Once per change of a room.
inline constexpr auto room_change =
    "update rooms set name = ifnull(:name, name), topic = ifnull(:topic, topic),"
    " slow_mode_s = ifnull(:slow, slow_mode_s),"
    " retention_days = ifnull(:retention, retention_days), history = ifnull(:history, history)"
    " where room_key = :room";

// Once per room that is made; members and events follow with the statements above.
inline constexpr auto known_create =
    "select c.room, r.id, r.created_seq, r.created_at, c.request_hash from room_creates c"
    " join rooms r on r.room_key = c.room where c.user = :user and c.nonce = :nonce";
inline constexpr auto known_pair =
    "select room_key, id, created_seq, created_at from rooms where pair = :pair";
inline constexpr auto room =
    "insert into rooms (id, name, topic, kind, history, pair, creator, created_at, created_seq,"
    " head_seq, members, last_at)"
    " values (:id, :name, :topic, :kind, :history, :pair, :creator, :at, :seq, :seq, :seq, :at)"
    " on conflict (id) do nothing returning room_key";
inline constexpr auto room_create = "insert into room_creates (user, nonce, request_hash, room)"
                                    " values (:user, :nonce, :hash, :room)";

// After a COMMIT whose outcome is unknown.
inline constexpr auto head_of = "select head_seq from rooms where room_key = :room";
inline constexpr auto room_by_id = "select room_key from rooms where id = :id";

}  // namespace parley::storage::sql
