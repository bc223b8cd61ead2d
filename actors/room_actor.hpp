// The room's class, apart from room.hpp so that only its own sources and tests see it: handlers of
// requests stand in room_requests.cpp, commits and fan-out in room_commits.cpp, replays in
// room_replay.cpp, timers and the life cycle in room.cpp.
#pragma once
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/context.hpp"
#include "actors/debounce.hpp"
#include "actors/metered.hpp"
#include "actors/room_state.hpp"

namespace parley {

struct connection_hash {
  std::size_t operator()(const connection_id& c) const {
    return (std::size_t{c.io} << 56) ^ (std::size_t{c.slot} << 32) ^ c.generation;
  }
};

class room final : public metered<room_actor::base> {
 public:
  room(caf::actor_config& cfg, context_ptr ctx, std::string id, op_ptr create);
  void on_exit() override;
  behavior_type make_behavior() override;
  const char* name() const override { return "room"; }

  /// For the tests on the coordinator: the state is looked at between messages only.
  const room_state& state() const { return state_; }
  room_link_ptr link();

 private:
  using results = std::span<const storage::change_result>;
  enum class life { loading, awake, missing, failed };

  /// An entry of the room's line: answered strictly in order. One without changes is a barrier: it
  /// runs when everything before it is decided.
  struct pending {
    op_ptr what;
    std::size_t changes = 0;
    bool structural = false;            // membership or settings: rewinding needs a reload
    std::function<void(results)> done;  // all committed, or a barrier's turn
    std::function<void(const storage::change_result&)> duplicate;
  };
  enum class mode : std::uint8_t { passive, entering, active };
  struct connection {
    user_key user{};
    mode how = mode::passive;
    seq_no next = 0;         // entering: the next seq to be replayed
    std::uint64_t turn = 0;  // which enter; answers to an earlier one are void
    bool reading = false;
  };
  struct ring_entry {
    seq_no seq = 0;
    user_key sender{};
    frame_ptr all, own;  // own: for the sender's sessions; null where it is the same
  };

  // ---- life (room.cpp)
  void start_loading();
  void on_loaded(result<storage::room_load> r);
  void on_awake();
  void on_member_sessions(const member_sessions& s);
  void fail_waiting(const failure& why);
  void on_tick(room_timer what);
  void on_idle_tick();
  void on_may_go(bool yes);
  void on_passivate(const passivate_now& p);
  void arm(room_timer what, std::chrono::nanoseconds after);
  void use() { last_use_ = clock().now(); }
  bool may_sleep() const;
  void ask_to_go();
  void finish_passivate(bool yes);
  void update_card();
  const parley::config& settings() const { return ctx_->settings(); }

  // ---- requests (room_requests.cpp)
  void accept(const room_op& r);
  void decide(op_ptr o);
  void refuse(const op_ptr& o, const failure& why);
  void answer(const op_ptr& o, std::string_view fields);
  void at_turn(op_ptr o, std::function<void()> fn);
  bool propose(op_ptr o, std::vector<storage::change> changes, bool structural,
               std::function<void(results)> done,
               std::function<void(const storage::change_result&)> duplicate = {});
  std::optional<storage::op_nonce> nonce_of(const op_ptr& o, const std::string& nonce) const;
  void on(const wire::message_send& r, const op_ptr& o);
  void on(const wire::room_join& r, const op_ptr& o);
  void on(const wire::room_leave& r, const op_ptr& o);
  void on(const wire::room_invite& r, const op_ptr& o);
  void on(const wire::room_change& r, const op_ptr& o);
  void on(const wire::room_enter& r, const op_ptr& o);
  void on(const wire::room_exit& r, const op_ptr& o);
  void on(const wire::message_read& r, const op_ptr& o);
  void on(const wire::message_unread& r, const op_ptr& o);
  void on(const wire::typing& r, const op_ptr& o);
  void on(const wire::history& r, const op_ptr& o);
  void on(const wire::events& r, const op_ptr& o);
  void on(const wire::room_get& r, const op_ptr& o);
  void on(const wire::room_members& r, const op_ptr& o);
  void on(const wire::room_presence& r, const op_ptr& o);
  template <class T> void on(const T&, const op_ptr& o) {
    refuse(o, fail(errc::bad_request, "this op does not concern a room"));
  }
  void propose_create(op_ptr o);
  void settle_nonce(const op_ptr& o, const std::string& hash, const room_state::known& k,
                    bool deleted);
  void answer_duplicate(const op_ptr& o, const storage::change_result& d);
  void look_up_nonce(const op_ptr& o, const failure& otherwise);
  /// An op that would make no event: where its nonce made one already that is answered, else
  /// `decided` runs.
  void unless_known(const op_ptr& o, const std::string& nonce, std::function<void()> decided);
  void move_mark(const op_ptr& o, seq_no seq, bool backward);
  std::vector<wire::member_view> member_views(std::size_t most, bool online_only) const;

  // ---- commits and fan-out (room_commits.cpp)
  void on_commit(const commit_done& c);
  void run_barriers();
  void redo(bool reload);
  void unknown_outcome();
  void publish_event(const event& e, std::function<void(publication&)> more = {});
  void post_all(const relay_op& what);
  void post(const connection_id& to, relay_op what) { ctx_->relays[to.io]->post(std::move(what)); }
  void changed();  // room.updated is due
  void tell_numbers(const room_state::member& m, bool tell_active, connection_id except);
  void flush_members_changed();
  void flush_updated();
  void flush_marks();
  void flush_presence();
  void flush_users();
  void end_typing(user_key user, bool tell);
  void note_presence(user_key user);
  void publish_to_active(frame_ptr frame, user_key skip = {});
  bool names_people() const { return state_.online_count() <= settings().timers.name_nobody_above; }

  // ---- connections and replays (room_replay.cpp)
  connection& attach_connection(user_key user, const connection_id& conn, bool tell_relay);
  void drop_connection(const connection_id& conn, bool tell_relay);
  void enter(const op_ptr& o, std::optional<seq_no> after, const std::optional<std::string>& epoch);
  void make_active(const connection_id& id, connection& c, frame_ptr tail);
  void continue_replay(const connection_id& id, connection& c);
  void read_replays();
  void on_replay_page(const connection_id& id, std::uint64_t turn, result<wire::events_page> page);
  void on_came_online(const std::vector<presence_entry>& who);
  std::string ring_frames(seq_no from, user_key reader) const;
  bool in_ring(seq_no from) const { return !ring_.empty() && ring_.front().seq <= from; }

  context_ptr ctx_;
  std::string id_;
  room_ref ref_;
  op_ptr create_;
  life life_ = life::loading;
  room_state state_;
  std::shared_ptr<room_card> card_;

  std::deque<op_ptr> waiting_;  // came while the room was loading
  std::deque<pending> line_;
  std::size_t in_line_changes_ = 0;
  std::size_t structural_ = 0;  // entries of the line that are
  std::uint64_t generation_ = 1;
  std::unordered_map<connection_id, connection, connection_hash> conns_;
  std::vector<std::int64_t> conns_per_io_;
  std::int64_t active_ = 0, entering_ = 0;
  std::deque<ring_entry> ring_;
  std::size_t ring_bytes_ = 0;
  std::deque<std::pair<connection_id, std::uint64_t>> replays_waiting_;
  std::size_t replay_reads_ = 0;

  std::unordered_map<connection_id, session_link_ptr, connection_hash> attached_;
  std::int64_t received_ = 0;  // passed on by the directory
  bool asked_to_go_ = false;
  std::shared_ptr<reply_fn> passivating_;
  int passivate_tries_ = 0;
  std::size_t reads_ = 0;  // under way

  std::array<bool, static_cast<std::size_t>(room_timer::count_)> armed_{};
  debounce updated_;
  std::set<user_key> marks_, presence_;
  std::map<user_key, caf::actor_clock::time_point> typing_;
  std::map<user_key, profile> users_;
  seq_no members_from_ = 0, members_to_ = 0;
  std::int64_t members_joined_ = 0, members_left_ = 0;
  caf::actor_clock::time_point last_use_{}, last_event_{}, views_at_{};
  std::vector<wire::member_view> views_;  // members as room.enter tells them, at most 1 s old
};

}  // namespace parley
