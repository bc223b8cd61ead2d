// Messages between actors. All are local to a node: they carry callbacks and shared bytes. What
// will cross nodes gets a struct of its own with `inspect`.
#pragma once
#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/typed_actor.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/meter.hpp"
#include "actors/op.hpp"
#include "actors/ports.hpp"
#include "actors/rate_bucket.hpp"
#include "storage/store.hpp"

namespace parley {

// Handles of actors travel as links, which interfaces.hpp defines: a handle's type names the
// messages it takes.
struct room_link;     // a room's handle and meter
struct session_link;  // a session's handle and connection
using room_link_ptr = std::shared_ptr<const room_link>;
using session_link_ptr = std::shared_ptr<const session_link>;

// ---- requests on their way
struct session_op {
  std::string wire_id;
  std::shared_ptr<wire::request> what;
  std::int64_t started_ns = 0, parsed_ns = 0;
};
/// A request for a room. `attaches`: came by the directory, and the session's actor keeps the
/// room's handle from now on. `counted`: came by the directory, which counts what it passes on.
struct room_op {
  op_ptr what;
  session_link_ptr attaches;
  bool counted = false;
};
/// A session gives the room's handle back; `gone`: since its connection is closed.
struct let_go {
  connection_id conn;
  bool gone = false;
};
/// To the directory: pass it on to the room, waking it. `from` is null over HTTP; else it is told
/// `routed`.
struct route {
  op_ptr what;
  session_link_ptr from;
};
struct create_op {
  op_ptr what;
};
struct routed {
  std::string room;
  room_link_ptr link;
};
/// A room wants to be put away: has it seen everything that was passed on to it? Answered by
/// may_go.
struct let_me_go {
  std::string room;
  std::int64_t received = 0;
};
struct admin_passivate {
  std::string room;
  std::shared_ptr<reply_fn> then;
};
struct hello_user {
  claims who;
  connection_id conn;
  session_link_ptr session;
  bool enters_all = false;  // also rooms joined later
};
struct room_awake {
  room_key room{};
  room_link_ptr link;
};
struct begin_session {
  std::string wire_id;
  std::shared_ptr<wire::hello> what;
  claims who;
};
struct hello_entered {
  std::size_t index = 0;
  std::shared_ptr<wire::entered> what;
};
struct token_expires {
  unix_ms at = 0;
};
struct gateway_op {
  claims who;
  std::shared_ptr<op> what;
  std::int64_t deadline_ms = 0;
};

// ---- storage
/// One room's proposal: a share that joins the next commit. `gate` counts it until its result is
/// given.
struct proposal {
  room_key room{};
  std::uint64_t generation = 0;
  std::shared_ptr<storage::room_share> share;
  std::int64_t proposed_ns = 0;
};
/// The results of a room's shares in one commit, in the order of its proposals.
struct commit_done {
  std::uint64_t generation = 0;
  std::shared_ptr<std::vector<storage::change_result>> results;
  std::int64_t committed_ns = 0;
};
struct flush_now {};
struct writer_idle {};
struct apply_account {
  std::shared_ptr<storage::account_change> what;
};
struct account_result {
  std::shared_ptr<result<storage::account>> what;
};
/// Answers when everything proposed before it is decided.
struct flush_all {};
struct flushed {};

/// A read, run on a reader's thread. `deadline_ns`: steady clock; older jobs are not begun.
class read_job_base {
 public:
  virtual ~read_job_base() = default;
  virtual void run(storage::reader_store& store) = 0;
  virtual void fail(failure why) = 0;
  std::int64_t deadline_ns = 0;
};
struct read_job {
  std::shared_ptr<read_job_base> what;
};
struct read_done {};

// ---- a session as rooms and people see it
struct presence_entry {
  user_key user{};
  connection_id conn;
};
/// people → room: these connections belong to members; told at once for a room that wakes, then one
/// by one.
struct came_online {
  std::vector<presence_entry> who;
};
struct connection_closed {
  presence_entry who;
};
struct online_now {
  std::vector<presence_entry> who;
};
/// people → room: the grace is over.
struct went_offline {
  user_key user{};
  unix_ms last_seen = 0;
};
struct user_changed {
  profile who;
};
/// The connections of one who has just become a member: told `room.mine`; passive from here on,
/// those that enter all rooms active from their own member.joined on.
struct member_sessions {
  user_key user{};
  std::vector<connection_id> conns, enter;
};

// ---- ticks of a room
enum class room_timer : std::uint8_t {
  updated,
  marks,
  presence,
  typing,
  sync,
  idle,
  passivate,
  members,
  users,
  count_
};
struct room_tick {
  room_timer what = room_timer::idle;
};
/// directory → room: the answer to let_me_go.
struct may_go {
  bool yes = false;
};
struct passivate_now {
  std::shared_ptr<reply_fn> then;
};
struct replay_drained {
  connection_id conn;
  std::uint64_t turn = 0;
};

// ---- people
struct hello_ok {
  profile who;
  std::shared_ptr<rate_bucket> bucket;
};
struct hello_result {
  std::optional<hello_ok> ok;
  failure why;
};
struct goodbye {
  std::string user;
  connection_id conn;
};
struct token_renewed {
  std::string user;
  connection_id conn;
  claims now;
};
struct member_joined {
  room_key room{};
  std::string user;
};
struct member_left {
  room_key room{};
  std::string user;
};
struct room_asleep {
  room_key room{};
  room_link_ptr link;
};
struct authenticated {
  std::shared_ptr<result<hello_ok>> what;
};
struct authenticate {
  claims who;
};
struct people_tick {};
/// accounts → people: what changed in the database just now; answered when every socket that it
/// ends is closed.
struct account_changed {
  storage::account now;
  bool end_all = false;  // every session (suspension, deletion)
  std::string keep_jti;  // password change: but those of this token
  std::string end_jti;   // log-out: those of this token alone
  int close_code = 4001;
  std::string reason;
};
struct account_settled {};

// ---- session
struct end_session {
  int code = 1008;
  std::string reason;
};
struct session_ended {};
struct socket_gone {};
/// directory → session: the routed request has been passed on; the handle may be used directly once
/// all are.
struct please_detach {
  std::string room;
};

// ---- accounts
struct account_op {
  std::shared_ptr<account_request> what;
  std::shared_ptr<account_fn> then;
};
struct hash_job {
  std::string password, verify;
};  // verify empty: make a hash
struct hash_done {
  std::string hash;
  bool matches = false;
};

}  // namespace parley

#define PARLEY_LOCAL(type) CAF_ALLOW_UNSAFE_MESSAGE_TYPE(parley::type)
PARLEY_LOCAL(session_op)
PARLEY_LOCAL(room_op)
PARLEY_LOCAL(gateway_op)
PARLEY_LOCAL(proposal)
PARLEY_LOCAL(commit_done)
PARLEY_LOCAL(flush_now)
PARLEY_LOCAL(writer_idle)
PARLEY_LOCAL(apply_account)
PARLEY_LOCAL(account_result)
PARLEY_LOCAL(flush_all)
PARLEY_LOCAL(flushed)
PARLEY_LOCAL(read_job)
PARLEY_LOCAL(read_done)
PARLEY_LOCAL(came_online)
PARLEY_LOCAL(connection_closed)
PARLEY_LOCAL(went_offline)
PARLEY_LOCAL(user_changed)
PARLEY_LOCAL(member_sessions)
PARLEY_LOCAL(room_tick)
PARLEY_LOCAL(may_go)
PARLEY_LOCAL(passivate_now)
PARLEY_LOCAL(replay_drained)
PARLEY_LOCAL(hello_result)
PARLEY_LOCAL(goodbye)
PARLEY_LOCAL(token_renewed)
PARLEY_LOCAL(member_joined)
PARLEY_LOCAL(member_left)
PARLEY_LOCAL(room_asleep)
PARLEY_LOCAL(authenticated)
PARLEY_LOCAL(authenticate)
PARLEY_LOCAL(people_tick)
PARLEY_LOCAL(account_changed)
PARLEY_LOCAL(account_settled)
PARLEY_LOCAL(end_session)
PARLEY_LOCAL(session_ended)
PARLEY_LOCAL(socket_gone)
PARLEY_LOCAL(please_detach)
PARLEY_LOCAL(account_op)
PARLEY_LOCAL(hash_job)
PARLEY_LOCAL(hash_done)
PARLEY_LOCAL(let_go)
PARLEY_LOCAL(route)
PARLEY_LOCAL(create_op)
PARLEY_LOCAL(routed)
PARLEY_LOCAL(let_me_go)
PARLEY_LOCAL(admin_passivate)
PARLEY_LOCAL(hello_user)
PARLEY_LOCAL(room_awake)
PARLEY_LOCAL(online_now)
PARLEY_LOCAL(begin_session)
PARLEY_LOCAL(hello_entered)
PARLEY_LOCAL(token_expires)
