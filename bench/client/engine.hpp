// The measuring client: connections, receiving threads, one replying thread, one sending thread.
// Sending, receiving and measuring never wait for one another: a receiving thread first stamps
// everything that is there, then parses; what must be answered goes to the replying thread; the
// timed sends have a thread of their own. Called by the scenarios. Must not judge what it records.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "client/clock.hpp"
#include "client/http.hpp"
#include "client/protocol.hpp"
#include "client/ws_codec.hpp"

namespace parley::bench {

inline constexpr std::uint32_t no_message = 0xFFFFFFFF;
inline constexpr std::uint32_t no_room = 0xFFFFFFFF;

/// One numbered event as one session got it.
struct Delivery {
  std::uint32_t session = 0;
  std::uint32_t message = no_message;  // number within the run; no_message: another event
  std::uint32_t room = no_room;        // index; no_room: a room this run does not know
  std::uint32_t lag = 0;               // ns from the kernel's stamp to ours, of the read it came in
  nanos at = 0;                        // when we had it
  std::uint64_t seq = 0;
  std::uint64_t from_seq = 0;
  bool foreign = false;  // a message without this run's marker
};

struct Ack {
  std::uint32_t session = 0;
  std::uint32_t message = no_message;  // no_message: answer to a read mark
  bool ok = false;
  nanos at = 0;
  std::uint64_t seq = 0;
};

struct UnreadNotice {
  std::uint32_t session = 0;
  std::uint32_t room = no_room;
  std::uint64_t unread = 0;
  std::uint64_t last_seq = 0;
  nanos at = 0;
};

struct Sent {
  std::uint32_t session = 0;
  std::uint32_t room = 0;
  nanos due = 0;  // absolute
  nanos at = 0;   // just before the send; 0: never sent
};

/// A send that is to happen `after` the workload's start.
struct PlannedSend {
  nanos after = 0;
  std::uint32_t session = 0;
};

struct SessionTimes {
  nanos dialled = 0;
  nanos connected = 0;  // upgrade answered
  nanos ready = 0;      // last answer of the opening
};

struct EngineOptions {
  std::size_t receivers = 1;
  std::uint32_t run = 0;  // the marker's run
  std::size_t text_bytes = 80;
  bool mark_reads = false;           // every session marks every message it gets
  nanos inject_lag = 0;              // self-test only: the receiver dawdles before each read
  std::size_t connect_window = 256;  // handshakes under way at once
};

/// Everything recorded; complete after Engine::finish().
struct Recording {
  std::vector<Sent> sent;
  std::vector<Delivery> deliveries;  // per session in order of arrival
  std::vector<Ack> acks;
  std::vector<Ack> read_acks;
  std::vector<UnreadNotice> unread;
  std::vector<std::uint32_t> lags;  // one per read
  std::vector<std::string> errors;  // refusals and broken connections, the first 50 of each thread
  std::uint64_t refusals = 0;
  std::uint64_t broken = 0;  // connections that ended unasked
  std::uint64_t reads_sent = 0;
  std::uint64_t backlogged = 0;  // writes that did not go out at once
  std::uint64_t bytes_received = 0;
  std::uint64_t frames_received = 0;
  nanos receive_cpu = 0;  // CPU of the receiving threads
  nanos send_cpu = 0;     // CPU of the sending and replying threads
};

class Engine {
 public:
  Engine(Endpoint server, std::shared_ptr<const Protocol> protocol, std::vector<std::string> rooms,
         std::vector<SessionPlan> sessions, EngineOptions options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Connects all sessions and brings each to ready. Throws Failure at the deadline or when one
  /// fails.
  void open(nanos timeout);
  /// Sends by plan on the sending thread and returns when all are sent.
  void send(const std::vector<PlannedSend>& plan, nanos start);
  /// Keeps `outstanding` sends of each of `senders` unanswered until `until`; returns then.
  void send_closed_loop(const std::vector<std::uint32_t>& senders, unsigned outstanding,
                        nanos until);
  /// Waits until `expected` message deliveries (and `acks` answers, `reads` read answers) are there
  /// and then `grace` longer, or until nothing more came for `quiet`. True when all came.
  bool settle(std::uint64_t expected, std::uint64_t acks, std::uint64_t reads, nanos quiet,
              nanos grace);
  /// Cuts the connections of these sessions at once (RST), as a lost network does.
  void cut(const std::vector<std::uint32_t>& sessions);
  /// Dials sessions that were cut again, resuming after the last seq it saw.
  void reopen(const std::vector<std::uint32_t>& sessions, nanos timeout);
  /// Closes everything, joins the threads and hands over what was recorded.
  Recording finish();

  std::uint64_t delivered() const;
  /// Messages sent so far; only while no send is under way.
  std::uint64_t sent() const { return sent_.size(); }
  const std::vector<SessionTimes>& times() const { return times_; }
  const std::vector<SessionPlan>& plans() const { return plans_; }

 private:
  struct Session;
  struct Receiver;
  struct Reply {
    std::uint32_t session;
    std::uint64_t seq;    // the message to mark read
    std::string payload;  // or this, as a frame of its own
    Opcode op = Opcode::text;
  };

  void receive_loop(Receiver& r);
  void reply_loop();
  void on_bytes(Receiver& r, Session& s, const char* data, std::size_t n, nanos at,
                std::uint32_t lag);
  void on_payload(Receiver& r, Session& s, std::string_view payload, nanos at, std::uint32_t lag);
  void on_end(Receiver& r, Session& s, std::string why);
  void run_cuts(Receiver& r);
  void note(Receiver& r, std::string text);
  void start_dial(std::uint32_t session);
  bool write(Session& s, std::string_view bytes);
  void flush(Session& s);
  void watch(Session& s, bool writable);
  std::uint32_t room_index(std::string_view id) const;
  void dial_all(const std::vector<std::uint32_t>& sessions, nanos timeout);

  Endpoint server_;
  std::shared_ptr<const Protocol> protocol_;
  std::vector<std::string> rooms_;
  std::unordered_map<std::string_view, std::uint32_t> room_of_;
  std::vector<SessionPlan> plans_;
  EngineOptions options_;
  std::vector<SessionTimes> times_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::vector<std::unique_ptr<Receiver>> receivers_;
  std::vector<Sent> sent_;

  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> ready_{0};
  std::atomic<std::uint64_t> backlogged_{0};
  std::mutex failure_lock_;
  std::string failure_;

  std::thread replier_;
  std::mutex reply_lock_;
  std::condition_variable reply_wake_;
  std::vector<Reply> replies_;
  std::atomic<std::uint64_t> reads_sent_{0};
  nanos reply_cpu_ = 0;
  nanos send_cpu_ = 0;

  // Closed loop: how many answers each sending session has had and not yet used.
  std::mutex credit_lock_;
  std::condition_variable credit_wake_;
  std::vector<std::uint32_t> credits_;
  std::atomic<bool> closed_loop_{false};
};

}  // namespace parley::bench
