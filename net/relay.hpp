// One I/O thread's relay: takes what rooms and sessions have to say (actors/ports.hpp) and writes
// it to the thread's sockets. Knows rooms only as lists of connections. Never waits for a socket;
// everything but post() on its own thread.
#pragma once
#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "actors/ports.hpp"
#include "net/connection.hpp"
#include "net/out_queue.hpp"

namespace parley::net {

class io_thread;

class relay_loop final : public relay {
 public:
  /// Connections served by a fan-out before other work has its turn; 512 sends are about 4 ms.
  static constexpr std::size_t slice = 512;
  /// Frames given to connections in one turn before their writes, other rooms' included.
  static constexpr std::size_t turn_budget = 2048;
  /// Publications of one room that go out together, slice by slice, so that each socket gets one
  /// write.
  static constexpr std::size_t batch_max = 32;

  explicit relay_loop(io_thread& io);
  ~relay_loop() override;

  // ---- any thread
  void post(relay_op op) override;
  /// Posted and not yet begun; for metrics.
  std::size_t inbox_length() const;

  // ---- own thread
  /// Gives the connection its number.
  void add(std::shared_ptr<connection> c);
  /// Forgets it: the socket is gone.
  void remove(connection& c);
  /// Takes it out of all rooms, and gives it no frame any more; its number stays until remove().
  void detach(connection& c);
  /// Calls c.leave() soon, outside of whatever is under way.
  void leave_later(connection& c);
  /// on_due at `at` or up to a tick later, unless an earlier one is set.
  void schedule(connection& c, std::int64_t at);
  /// A frame of the connection's own, by the order of the relay's: held until it is greeted, sent
  /// before the loop turns.
  void give(connection& c, frame_ptr frame);
  /// The connection's queue has run empty.
  void ran_empty(connection& c);
  void tick(std::int64_t now);
  void settings_changed();
  void close_all(int code, std::string reason, std::int64_t spread_ns, std::function<void()> done);
  void refresh_clock();
  /// Drops every connection without a word, when the thread has ended.
  void drop_all();

  const std::int64_t& clock() const { return clock_; }
  /// When the last tick came late (over 1 s): what peers sent meanwhile is perhaps not read yet.
  std::int64_t late_at() const { return late_at_; }
  traffic& totals() { return totals_; }
  std::size_t connections() const { return connections_; }
  std::size_t rooms() const { return rooms_.size(); }
  bool closing_all() const { return closing_all_ != nullptr; }

 private:
  struct posted {
    relay_op op;
    std::int64_t at;  // steady time of the post, of publications that are measured
  };
  struct slot {
    std::shared_ptr<connection> who;
    std::uint32_t generation = 0;
  };
  struct due_entry {
    std::int64_t at;
    std::uint32_t slot, generation;
    bool operator<(const due_entry& o) const { return at > o.at; }  // the earliest on top
  };
  struct measured {
    std::int64_t committed, posted;
  };
  struct shutdown {
    int code;
    std::string reason;
    std::vector<connection_id> left;
    std::size_t next = 0;
    std::int64_t begun, spread;
    std::function<void()> done;
  };
  using place = connection::membership::place;

  void wake();
  void turn();
  void end_turn();
  connection* find(const connection_id& id);
  /// Frames given, as a measure of work.
  std::size_t handle(posted& p);
  std::size_t run(relay_op& op, std::int64_t at);
  void advance(room_entry& room);
  void publish_to(room_entry& room, const publication& p, std::size_t from, std::size_t to);
  void finish_fan(room_entry& room);

  void give(connection& c, const frame_ptr& frame, out_queue::kind kind,
            std::function<void()> drained = {});
  void flush_later(connection& c);
  void flush_all();
  room_entry& room_of(const room_ref& ref);
  room_entry* find_room(room_key key);
  connection::membership* find_membership(connection& c, const room_entry& room);
  void place_in(connection& c, room_entry& room, place where, const numbers& base = {});
  void unplace(connection& c, connection::membership& m);
  void forget(connection& c, room_entry& room);
  void release_if_empty(room_entry& room);
  void know_user(connection& c, user_key user);
  void changed(connection& c, room_entry& room);
  void tell_unread(connection& c);
  void tell_due(std::int64_t now);
  void arm_tell();
  std::int64_t unread_interval() const;
  void set_numbers_of(const set_numbers& op, room_entry& room);
  void advance_shutdown(std::int64_t now);
  void publish_counters();

  io_thread& io_;
  mutable std::mutex lock_;
  std::vector<posted> inbox_;
  bool woken_ = false;  // a turn is posted; under the lock

  std::vector<posted> ops_;  // of this turn and, where they were many, the next ones
  std::size_t next_op_ = 0;
  std::int64_t clock_ = 0, last_tick_ = 0, late_at_ = 0;
  traffic totals_, told_;
  std::vector<slot> slots_;
  std::vector<std::uint32_t> free_;
  std::size_t connections_ = 0;
  std::unordered_map<std::int64_t, std::unique_ptr<room_entry>> rooms_;
  std::unordered_map<std::int64_t, std::vector<connection*>> users_;
  std::vector<room_entry*> busy_;             // a fan-out under way, or operations that wait for it
  std::vector<connection*> to_flush_, over_;  // until the end of the turn
  std::vector<std::shared_ptr<connection>> leaving_;
  std::vector<connection*> tell_now_;  // their `unread` goes out with this turn
  std::deque<std::pair<std::int64_t, connection_id>> tell_later_;  // by time
  boost::asio::steady_timer tell_timer_;
  bool tell_armed_ = false;
  std::vector<due_entry> due_;  // a heap
  std::vector<measured> measured_;
  std::unique_ptr<shutdown> closing_all_;
};

}  // namespace parley::net
