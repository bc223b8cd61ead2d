// What the measuring client must know of a wire protocol to run a workload over it. One
// implementation per server kind (parley.v1, Socket.IO, the floor). Called by the engine's threads;
// an implementation holds no state that changes, so that all threads may share it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace parley::bench {

/// Who a connection is and what it does after the upgrade.
struct SessionPlan {
  std::string user;
  std::string token;
  std::uint32_t room = 0;           // index into the run's rooms
  std::string room_id;              // as the server names it
  bool enter = true;                // false: stays passive
  std::uint64_t unread_before = 0;  // what a passive session's counter shows before the run
  std::optional<std::uint64_t> resume_after;  // enter with after_seq
};

enum class FrameKind : std::uint8_t {
  other,    // nothing that is measured
  message,  // one delivery of a message
  event,    // another numbered event of a room
  answer,   // the server accepted a request
  refusal,  // the server refused a request
  unread,   // counters of a passive session
  ping,     // a heart-beat of the protocol itself; must be answered
  bye       // the server is about to close
};

struct UnreadEntry {
  std::string_view room;
  std::uint64_t unread = 0;
  std::uint64_t last_seq = 0;
};

/// Views point into the frame.
struct ParsedFrame {
  FrameKind kind = FrameKind::other;
  std::string_view room;
  std::uint64_t seq = 0;
  std::uint64_t from_seq = 0;  // 0 unless the event covers several seqs
  std::string_view text;       // of a message: carries the marker
  std::string_view id;         // of an answer or refusal
  std::string_view error;      // of a refusal: its raw error object
  std::uint64_t read_seq = 0;
  bool duplicate = false;
  std::vector<UnreadEntry> unread;
};

enum class Step : std::uint8_t { none, wait, ready, failed };

class Protocol {
 public:
  virtual ~Protocol() = default;
  virtual std::string name() const = 0;
  virtual std::string subprotocol() const { return {}; }
  virtual std::string target(const SessionPlan& plan) const = 0;
  virtual std::string headers(const SessionPlan&) const { return {}; }
  /// Payloads to send right after the upgrade.
  virtual std::vector<std::string> opened(const SessionPlan& plan) const = 0;
  /// Looks at a frame while the session opens. `none`: it is no part of the opening.
  virtual Step opening(const SessionPlan& plan, std::string_view payload,
                       std::vector<std::string>& to_send, std::string& why) const = 0;
  virtual void parse(std::string_view payload, ParsedFrame& out) const = 0;
  virtual std::string send(const SessionPlan& from, std::uint64_t message,
                           std::string_view text) const = 0;
  virtual bool has_read_marks() const { return false; }
  /// Only where there are read marks.
  virtual std::string read(const SessionPlan&, std::uint64_t /*seq*/) const { return {}; }
  /// The answer to a frame of kind ping.
  virtual std::string pong() const { return {}; }
  /// Whether a send is answered apart from its echo.
  virtual bool acknowledges() const { return true; }
  /// Whether every event of a room has a number, so that a gap is visible.
  virtual bool numbers_events() const { return true; }
};

std::shared_ptr<const Protocol> parley_protocol();
std::shared_ptr<const Protocol> socketio_protocol();
std::shared_ptr<const Protocol> floor_protocol();

/// Every message's text begins with its marker: "~RUN~NUMBER~". RUN tells runs apart, so that what
/// an earlier run left behind is never counted in a later one.
std::string marked_text(std::uint32_t run, std::uint64_t message, std::size_t bytes);
struct Marker {
  bool found = false;
  std::uint32_t run = 0;
  std::uint64_t message = 0;
};
Marker read_marker(std::string_view text);

}  // namespace parley::bench
