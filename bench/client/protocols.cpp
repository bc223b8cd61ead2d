// parley.v1, Socket.IO 4 (Engine.IO 4 over WebSocket) and the floor's bare broadcast, as seen by
// the measuring client. See protocol.hpp.
#include <cstdio>

#include <array>

#include "client/json_scan.hpp"
#include "client/protocol.hpp"

namespace parley::bench {

std::string marked_text(std::uint32_t run, std::uint64_t message, std::size_t bytes) {
  static constexpr std::string_view words =
      "the quick message that someone types into a room while others are reading along and ";
  std::array<char, 40> head{};
  std::snprintf(head.data(), head.size(), "~%08x~%llu~ ", run,
                static_cast<unsigned long long>(message));
  std::string out(head.data());
  while (out.size() < bytes)
    out.append(words.substr(0, std::min(words.size(), bytes - out.size())));
  return out;
}

Marker read_marker(std::string_view text) {
  Marker out;
  if (text.size() < 12 || text[0] != '~' || text[9] != '~') return out;
  for (std::size_t i = 1; i < 9; ++i) {
    const char c = text[i];
    const bool digit = c >= '0' && c <= '9';
    if (!digit && (c < 'a' || c > 'f')) return out;
    out.run = out.run << 4U | static_cast<std::uint32_t>(digit ? c - '0' : c - 'a' + 10);
  }
  const std::size_t end = text.find('~', 10);
  if (end == std::string_view::npos || end == 10) return out;
  out.message = leading_number(text.substr(10));
  out.found = true;
  return out;
}

namespace {

class Parley final : public Protocol {
 public:
  std::string name() const override { return "parley"; }
  std::string subprotocol() const override { return "parley.v1"; }
  std::string target(const SessionPlan&) const override { return "/ws"; }

  std::vector<std::string> opened(const SessionPlan& plan) const override {
    std::vector<std::string> out{R"({"op":"hello","id":"h","client":"parley-bench","token":)" +
                                 quoted(plan.token) + "}"};
    if (plan.enter) {
      std::string enter = R"({"op":"room.enter","id":"e","room":)" + quoted(plan.room_id);
      if (plan.resume_after) enter += ",\"after_seq\":" + std::to_string(*plan.resume_after);
      out.push_back(enter + "}");
    }
    return out;
  }

  Step opening(const SessionPlan& plan, std::string_view payload, std::vector<std::string>&,
               std::string& why) const override {
    ParsedFrame frame;
    parse(payload, frame);
    if (frame.kind == FrameKind::refusal || frame.kind == FrameKind::bye) {
      why = std::string(payload.substr(0, 300));
      return Step::failed;
    }
    if (frame.kind != FrameKind::answer) return Step::none;
    if (frame.id == "e") return Step::ready;
    if (frame.id == "h") return plan.enter ? Step::wait : Step::ready;
    return Step::none;
  }

  void parse(std::string_view payload, ParsedFrame& out) const override {
    std::string_view ev;
    bool ok = false;
    bool answer = false;
    bool has_seq = false;
    std::string_view unread_rooms;
    ObjectScan scan(payload);
    while (scan.next()) {
      const std::string_view key = scan.key();
      if (key == "ev")
        ev = scan.value();
      else if (key == "re") {
        answer = true;
        out.id = scan.value();
      } else if (key == "ok")
        ok = scan.value() == "true";
      else if (key == "error")
        out.error = scan.value();
      else if (key == "room")
        out.room = scan.value();
      else if (key == "seq") {
        out.seq = scan.number();
        has_seq = true;
      } else if (key == "from_seq")
        out.from_seq = scan.number();
      else if (key == "text")
        out.text = scan.value();
      else if (key == "read_seq")
        out.read_seq = scan.number();
      else if (key == "last_seq")
        out.read_seq = scan.number();
      else if (key == "duplicate")
        out.duplicate = scan.value() == "true";
      else if (key == "rooms")
        unread_rooms = scan.value();
    }
    if (scan.malformed()) return;
    if (answer) {
      out.kind = ok && out.error.empty() ? FrameKind::answer : FrameKind::refusal;
    } else if (ev == "message.created") {
      out.kind = FrameKind::message;
    } else if (ev == "unread") {
      out.kind = FrameKind::unread;
      ArrayScan rooms(unread_rooms);
      while (rooms.next()) {
        UnreadEntry entry;
        ObjectScan one(rooms.value());
        while (one.next()) {
          if (one.key() == "room")
            entry.room = one.value();
          else if (one.key() == "unread")
            entry.unread = one.number();
          else if (one.key() == "last_seq")
            entry.last_seq = one.number();
        }
        out.unread.push_back(entry);
      }
    } else if (ev == "bye") {
      out.kind = FrameKind::bye;
    } else if (has_seq && !out.room.empty()) {
      out.kind = FrameKind::event;
    }
  }

  std::string send(const SessionPlan& from, std::uint64_t message,
                   std::string_view text) const override {
    const Marker marker = read_marker(text);
    std::array<char, 48> nonce{};
    std::snprintf(nonce.data(), nonce.size(), "b%08x-%llu", marker.run,
                  static_cast<unsigned long long>(message));
    return R"({"op":"message.send","id":)" + std::to_string(message) +
           ",\"room\":" + quoted(from.room_id) + ",\"nonce\":\"" + nonce.data() +
           "\",\"text\":" + quoted(text) + "}";
  }

  bool has_read_marks() const override { return true; }
  std::string read(const SessionPlan& who, std::uint64_t seq) const override {
    return R"({"op":"message.read","id":"r)" + std::to_string(seq) +
           "\",\"room\":" + quoted(who.room_id) + ",\"seq\":" + std::to_string(seq) + "}";
  }
};

// Packets: Engine.IO type digit (0 open, 2 ping, 3 pong, 4 message), then Socket.IO's (0 connect,
// 2 event, 3 ack, 4 connect error), an optional ack id, a JSON array.
class SocketIo final : public Protocol {
 public:
  std::string name() const override { return "socket.io"; }
  std::string target(const SessionPlan&) const override {
    return "/socket.io/?EIO=4&transport=websocket";
  }
  std::vector<std::string> opened(const SessionPlan&) const override { return {}; }

  Step opening(const SessionPlan& plan, std::string_view payload, std::vector<std::string>& to_send,
               std::string& why) const override {
    if (payload.substr(0, 1) == "0") {
      to_send.emplace_back("40");
      return Step::wait;
    }
    if (payload.substr(0, 2) == "44") {
      why = std::string(payload.substr(0, 300));
      return Step::failed;
    }
    if (payload.substr(0, 2) == "40") {
      to_send.push_back("420[\"enter\"," + quoted(plan.room_id) + "," + quoted(plan.user) + "]");
      return Step::wait;
    }
    if (payload.substr(0, 3) == "430") return Step::ready;
    return Step::none;
  }

  void parse(std::string_view payload, ParsedFrame& out) const override {
    if (payload == "2") {
      out.kind = FrameKind::ping;
      return;
    }
    if (payload.substr(0, 2) == "43") {
      std::size_t at = 2;
      while (at < payload.size() && payload[at] != '[')
        ++at;
      out.id = payload.substr(2, at - 2);
      out.kind = FrameKind::answer;
      ArrayScan array(payload.substr(at));
      if (array.next()) {
        ObjectScan scan(array.value());
        while (scan.next())
          if (scan.key() == "seq") out.seq = scan.number();
      }
      return;
    }
    if (payload.substr(0, 2) != "42") return;
    ArrayScan array(payload.substr(2));
    if (!array.next() || array.value() != "\"message\"" || !array.next()) return;
    ObjectScan scan(array.value());
    while (scan.next()) {
      if (scan.key() == "room")
        out.room = scan.value();
      else if (scan.key() == "seq")
        out.seq = scan.number();
      else if (scan.key() == "text")
        out.text = scan.value();
    }
    out.kind = FrameKind::message;
  }

  std::string send(const SessionPlan& from, std::uint64_t message,
                   std::string_view text) const override {
    return "42" + std::to_string(message) + "[\"send\"," + quoted(from.room_id) + "," +
           quoted(text) + "]";
  }
  std::string pong() const override { return "3"; }
};

// The floor joins a connection to the room its target names and repeats every payload to that room.
class Floor final : public Protocol {
 public:
  std::string name() const override { return "floor"; }
  std::string target(const SessionPlan& plan) const override { return "/" + plan.room_id; }
  std::vector<std::string> opened(const SessionPlan&) const override { return {"?"}; }
  Step opening(const SessionPlan&, std::string_view payload, std::vector<std::string>&,
               std::string&) const override {
    return payload == "!" ? Step::ready : Step::none;
  }
  void parse(std::string_view payload, ParsedFrame& out) const override {
    ObjectScan scan(payload);
    while (scan.next()) {
      if (scan.key() == "text")
        out.text = scan.value();
      else if (scan.key() == "room")
        out.room = scan.value();
    }
    if (!out.text.empty()) out.kind = FrameKind::message;
  }
  std::string send(const SessionPlan& from, std::uint64_t, std::string_view text) const override {
    // As long as Parley's own event, so that both write the same number of bytes.
    return R"({"ev":"message.created","room":)" + quoted(from.room_id) +
           R"(,"seq":1000,"at":1764520000000,"sender":"u_0123456789abcdef","mentions":[],"hashtags":[],"reactions":[],"text":)" +
           quoted(text) + "}";
  }
  bool acknowledges() const override { return false; }
  bool numbers_events() const override { return false; }
};

}  // namespace

std::shared_ptr<const Protocol> parley_protocol() { return std::make_shared<Parley>(); }
std::shared_ptr<const Protocol> socketio_protocol() { return std::make_shared<SocketIo>(); }
std::shared_ptr<const Protocol> floor_protocol() { return std::make_shared<Floor>(); }

}  // namespace parley::bench
