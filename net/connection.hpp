// One WebSocket as its relay sees it: a queue outward, the rooms it is in, a few deadlines.
// ws_connection.cpp implements it over Beast; tests may over anything. Lives on one I/O thread;
// nobody else may touch it.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "actors/ports.hpp"
#include "net/out_queue.hpp"

namespace parley::net {

struct room_entry;

class connection : public std::enable_shared_from_this<connection>, public out_queue::owner {
 public:
  virtual ~connection() = default;
  virtual out_queue& out() = 0;
  /// Says `bye` where the code is one of ours, closes with the code, and tells the runtime that the
  /// session has ended. What has not begun to go out never does. Does nothing where it is closing
  /// already.
  virtual void close(int code, std::string_view reason,
                     std::optional<std::int64_t> retry_after_ms) = 0;
  /// One request has been answered.
  virtual void answered() = 0;
  /// A deadline set by relay_loop::schedule has come. Returns the next one; INT64_MAX: none.
  virtual std::int64_t on_due(std::int64_t now) = 0;
  /// The relay's deferred word that the queue is sealed: the session has ended.
  virtual void leave() = 0;
  /// The thread has taken new settings.
  virtual void settings_changed() {}

 private:
  friend class relay_loop;
  friend struct room_entry;

  struct membership {
    enum class place : std::uint8_t { entering, active, passive };
    room_entry* room;
    std::uint32_t position;  // in the room's list of that place
    place where;
  };
  struct held_frame {
    frame_ptr frame;
    out_queue::kind kind;
    std::function<void()> drained;
  };
  // What few connections have at a time.
  struct extras {
    std::vector<held_frame> held;  // until the hello answer
    std::size_t held_bytes = 0;
    std::vector<std::function<void()>> drained;  // when the queue has run empty
    std::vector<room_entry*> unread;  // passive rooms whose numbers changed since they were told
  };
  extras& more() {
    if (!extras_) extras_ = std::make_unique<extras>();
    return *extras_;
  }

  connection_id id_;
  user_key user_{};
  std::vector<membership> rooms_;
  std::unique_ptr<extras> extras_;
  std::int64_t due_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t unread_at_ =
      std::numeric_limits<std::int64_t>::min() / 2;  // when `unread` was last sent
  std::atomic<std::int64_t>* entered_ = nullptr;  // how many rooms it is active in, for the admin
  bool greeted_ = false, flushing_ = false, over_ = false, left_ = false, telling_ = false;

 public:
  const connection_id& id() const { return id_; }
  /// Where to show how many rooms it has entered; outlives the connection.
  void show_entered_in(std::atomic<std::int64_t>* cell) { entered_ = cell; }
  bool greeted() const { return greeted_; }
};

}  // namespace parley::net
