// All actors and what each understands, a comment per message: reading this is reading the system.
#pragma once
#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/messages.hpp"

namespace parley {

/// Owns a room: its members, marks, numbers, recent nonces and timers. The only one that gives out
/// seqs.
using room_actor = caf::typed_actor<
    caf::reacts_to<room_op>,            // a client's request; answered through the op's replier
    caf::reacts_to<let_go>,             // a session lets the handle go
    caf::reacts_to<commit_done>,        // the writer decided what was proposed
    caf::reacts_to<came_online>,        // a member's connection is there: passive from here on
    caf::reacts_to<connection_closed>,  // a member's connection is gone
    caf::reacts_to<went_offline>,       // a member without connection, the grace is over
    caf::reacts_to<user_changed>,       // a member's names or picture changed
    caf::reacts_to<member_sessions>,    // the connections of one who has just become a member
    caf::reacts_to<room_tick>,          // one of its timers
    caf::reacts_to<may_go>,             // the directory's answer to let_me_go
    caf::reacts_to<passivate_now>,      // the administrator wants it put away
    caf::reacts_to<replay_drained>>;    // a replaying connection took its page

/// Finds or wakes rooms; the only one that makes them.
using directory_actor = caf::typed_actor<caf::reacts_to<route>,  // pass a request on to its room
                                         caf::reacts_to<create_op>,  // room.create
                                         caf::reacts_to<let_me_go>,  // a room wants to be put away
                                         caf::reacts_to<admin_passivate>>;  // put a room away now

/// A connection's state after hello: whose it is, which rooms it holds, what waits for them.
using session_actor =
    caf::typed_actor<caf::reacts_to<begin_session>,  // hello
                     caf::reacts_to<session_op>,     // a request
                     caf::reacts_to<routed>,         // the directory has passed one on
                     caf::reacts_to<please_detach>,  // a room wants to be put away
                     caf::reacts_to<hello_entered>,  // a room that hello named has answered
                     caf::reacts_to<token_expires>,  // tell the client: one minute
                     caf::replies_to<end_session>::with<session_ended>,  // close; answered when
                                                                         // nothing more goes out
                     caf::reacts_to<session_ended>,  // the socket has been told, nothing more goes
                                                     // out
                     caf::reacts_to<socket_gone>>;   // the connection is closed

/// Requests over HTTP, in a user's name: authenticates, prepares, routes.
using gateway_actor = caf::typed_actor<caf::reacts_to<gateway_op>>;

/// A shard of the users: sessions, suspension, revoked tokens, presence, rate.
using people_actor = caf::typed_actor<
    caf::replies_to<hello_user>::with<hello_result>,     // a session says hello
    caf::reacts_to<goodbye>,                             // it is gone
    caf::reacts_to<token_renewed>,                       // it has another token now
    caf::replies_to<authenticate>::with<authenticated>,  // a request over HTTP: is the token still
                                                         // good?
    caf::replies_to<room_awake>::with<online_now>,  // a room wakes: which members' connections are
                                                    // there?
    caf::reacts_to<room_asleep>,
    caf::reacts_to<member_joined>,  // answered by member_sessions to the awake room
    caf::reacts_to<member_left>, caf::replies_to<account_changed>::with<account_settled>,
    caf::reacts_to<people_tick>>;

/// Registers, logs in, changes what an account is; bounds guesses and hashing.
using accounts_actor = caf::typed_actor<caf::reacts_to<account_op>>;

/// One password hash at a time, on its own thread.
using hasher_actor = caf::typed_actor<caf::replies_to<hash_job>::with<hash_done>>;

/// Owns the writing connection; group commit.
using writer_actor = caf::typed_actor<
    caf::reacts_to<proposal, room_link_ptr>,  // joins the next commit; commit_done goes to the room
    caf::reacts_to<flush_now>,                // commit what has come until here
    caf::reacts_to<writer_idle>,              // checkpoint and other housekeeping
    caf::replies_to<apply_account>::with<account_result>,  // an account's change, a transaction of
                                                           // its own
    caf::replies_to<flush_all>::with<flushed>>;

/// A reading connection on a thread of its own.
using reader_actor = caf::typed_actor<caf::replies_to<read_job>::with<read_done>>;

struct room_link {
  room_actor actor;
  meter_ptr load;  // its mailbox, looked at before anything is added to it
};
struct session_link {
  session_actor actor;
  connection_id conn;
};

/// A session as the gate inward hands it out.
struct session_handle {
  session_actor actor;
  meter_ptr load;
  std::shared_ptr<session_card> card;
};

}  // namespace parley

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(parley::room_link_ptr)
