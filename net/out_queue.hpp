// The one way out of a WebSocket connection: whatever leaves on the socket, control frames
// included, stands in this queue. Owned by the connection and its layer under Beast (ws_layer.hpp),
// fed by them alone, on the connection's own thread. It knows bytes and frames, but neither Beast
// nor JSON, and what it tells its owner from inside push() is to be noted only.
#pragma once
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "net/io_thread.hpp"
#include "schemas/wire/frame.hpp"

namespace parley::net {

using wire::frame_ptr;

/// What one I/O thread has sent and received; plain numbers, added to the metrics once a turn.
struct traffic {
  std::int64_t frames_in = 0, frames_out = 0, bytes_in = 0, bytes_out = 0;
  std::int64_t peak_bytes = 0;  // the longest queue, in bytes
};

class out_queue : public std::enable_shared_from_this<out_queue> {
 public:
  struct bounds {
    std::size_t bytes = 262144, frames = 1000;  // ours; what Beast writes may take twice as much
    std::int64_t age_ns = 5'000'000'000;        // none waits longer
    std::size_t discard = 262144;               // read and thrown away after the last byte was sent
    std::int64_t half_close_ns =
        1'000'000'000;  // from the close frame to our FIN, the peer's answer or not
    std::int64_t close_ns = 5'000'000'000;  // from the close frame to the reset
  };
  enum class sent : std::uint8_t { ok, stopped, overflow };
  enum class kind : std::uint8_t {
    counted,  // ours, under the bounds
    replay,   // paced by its reader: neither its bytes nor its age count, nor the age of what waits
              // behind it
  };
  struct owner {
    /// Nothing waits any more. From flush() or the socket's own wait, never from push().
    virtual void on_drained() = 0;
    /// A close frame has joined the queue: nothing but what waits before it goes out from now on.
    virtual void on_sealed() = 0;
    /// The socket has failed and is closed. It may come from inside push() or flush(): note it, act
    /// later.
    virtual void on_failed() = 0;
    /// The socket took less than all: from now on frames grow old. It may come from inside push(),
    /// as above.
    virtual void on_waiting() = 0;

   protected:
    ~owner() = default;
  };
  /// Called once the last byte is out and the peer has ended too, or has been given up on. Posted,
  /// never inline.
  struct completion {
    virtual void run(boost::system::error_code ec) = 0;
    virtual ~completion() = default;
  };

  /// `clock`: nanoseconds, kept up by the thread once a turn; outlives the queue, as `totals` does.
  out_queue(tcp_socket socket, const std::int64_t& clock, traffic& totals);
  virtual ~out_queue() = default;

  // ---- frames of ours
  /// Appends; nothing is sent before flush(), but where the bound would be passed. `overflow`: over
  /// it all the same. The first frame of an empty queue is always taken.
  sent push(frame_ptr frame, kind as = kind::counted);
  /// Sends what the socket takes, in one gathered write as a rule; the rest goes when it is
  /// writable again.
  void flush();
  /// Drops what has not begun (the frame under way goes out whole, control frames stay), appends
  /// `last` (may be null) and takes no frame of ours any more. Idempotent; a second `last` is
  /// dropped.
  void stop(frame_ptr last = nullptr);

  // ---- the layer under Beast
  /// A control frame of Beast's, or its HTTP answer: goes out behind what waits, also after stop(),
  /// not after a close frame. False: the connection has failed (this bound passed: it is reset).
  bool push_control(std::string bytes);
  /// Nothing follows the close frame; starts the deadlines. Idempotent.
  void seal();
  /// Waits for the queue to run empty, ends our half, reads and throws away until the peer ends its
  /// own.
  void tear_down(std::unique_ptr<completion> done);

  // ---- ends
  /// The one way out on error: everything dropped, the socket closed. The pending read ends with
  /// operation_aborted, which is where the owner puts itself away; it is not called from here.
  /// Idempotent.
  void fail();
  /// fail() with a reset.
  void abort();

  /// The owner goes, perhaps while the thread's context is being destroyed: fails, telling and
  /// posting nothing.
  void abandon();

  // ---- the owner's tick
  /// Half-close and reset by the deadlines of a sealed queue. Returns when to come again;
  /// INT64_MAX: not.
  std::int64_t tick(std::int64_t now);
  /// When the oldest frame that waits will have waited for too long; INT64_MAX: nothing waits that
  /// grows old.
  std::int64_t overdue_at() const;

  void set_owner(owner* o) { owner_ = o; }
  void set_bounds(const bounds& b) { bounds_ = b; }
  /// Where the length of the queue is shown (session_card); both or none, they outlive the queue.
  void show_in(std::atomic<std::int64_t>* bytes, std::atomic<std::int64_t>* frames) {
    shown_bytes_ = bytes;
    shown_frames_ = frames;
  }

  bool empty() const { return head_ == entries_.size(); }
  bool stopped() const { return stopped_; }
  bool sealed() const { return sealed_; }
  bool failed() const { return failed_; }
  /// Of the close frame that has joined; 0 before.
  int close_code() const { return close_code_; }
  std::size_t bytes() const { return bytes_; }
  std::size_t frames() const { return entries_.size() - head_; }
  tcp_socket& socket() { return socket_; }

 private:
  struct entry {
    frame_ptr frame;
    std::int64_t at;  // when it joined; -1: a replay's page
  };

  void append(frame_ptr frame, std::int64_t at);
  bool over(std::size_t more) const;
  void write_out();
  void took(std::size_t n);
  void finish_empty();
  void arm();
  void shut_sending();
  void discard();
  void finish(boost::system::error_code ec);
  void show();
  std::int64_t size() const { return static_cast<std::int64_t>(bytes_); }

  tcp_socket socket_;
  const std::int64_t& clock_;
  traffic& totals_;
  owner* owner_ = nullptr;
  bounds bounds_;
  // entries_[head_..] wait. A vector and not a deque (an empty one holds 576 bytes); given back
  // when it runs empty.
  std::vector<entry> entries_;
  std::size_t head_ = 0, offset_ = 0;  // offset_: sent of the first that waits
  std::size_t bytes_ = 0, replay_bytes_ = 0, replay_frames_ = 0, discarded_ = 0;
  std::int64_t replay_until_ = 0;  // when the last replay page was out
  std::int64_t sealed_at_ = 0;
  std::atomic<std::int64_t>* shown_bytes_ = nullptr;
  std::atomic<std::int64_t>* shown_frames_ = nullptr;
  std::unique_ptr<completion> teardown_;
  std::uint16_t close_code_ = 0;
  bool stopped_ = false, sealed_ = false, failed_ = false, armed_ = false, shut_ = false;
};

/// The end of the frame of `frames` (whole unmasked frames, one behind another) that holds byte
/// `offset` - 1. `frames.size()` where that is not to be told.
std::size_t frame_end(const std::string& frames, std::size_t offset);

}  // namespace parley::net
