// The server with known faults. See fake_server.hpp.
#include "fake/fake_server.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <queue>
#include <set>

#include "client/http.hpp"
#include "client/json_scan.hpp"
#include "floor/epoll_server.hpp"

namespace parley::bench {

FaultAt parse_fault(const std::string& text) {
  const std::size_t colon = text.find(':');
  FaultAt out;
  out.message = leading_number(text);
  if (colon != std::string::npos)
    out.receiver = leading_number(std::string_view(text).substr(colon + 1));
  if (out.message == 0) throw Failure("a fault is MESSAGE:RECEIVER, both from 1: " + text);
  return out;
}

namespace {

class FakeServer final : public EpollServer {
 public:
  explicit FakeServer(const FakeOptions& options)
      : EpollServer(options.listen), options_(options) {}

 private:
  struct Room {
    std::set<std::string> members;
    std::vector<std::uint32_t> active;  // connection indexes by entering
    std::uint64_t seq = 0;
    std::uint64_t messages = 0;
  };
  struct Due {
    nanos at;
    std::uint64_t order;
    std::uint32_t conn;
    std::string frame;
    bool operator<(const Due& other) const {  // the earliest on top
      return at != other.at ? at > other.at : order > other.order;
    }
  };

  int on_http(std::string_view method, std::string_view target, std::string_view,
              std::string_view body, std::string& answer) override {
    if (target == "/readyz" || target == "/livez") {
      answer = "{}";
      return 200;
    }
    if (target == "/metrics") {
      answer = "chat_db_statements_total " + std::to_string(statements_) +
               "\nchat_db_commits_total " + std::to_string(messages_) + "\nchat_db_rows_total " +
               std::to_string(2 * messages_) + "\n";
      return 200;
    }
    if (method == "POST" && target == "/admin/tokens") {
      ObjectScan scan(body);
      while (scan.next())
        if (scan.key() == "user") {
          const std::string user(scan.value());
          answer = "{\"user\":" + quoted(user) + ",\"token\":" + quoted("t-" + user) + "}";
          return 200;
        }
      return 400;
    }
    answer = "{\"code\":\"not_found\"}";
    return 404;
  }

  std::string on_upgrade(Conn&) override { return "parley.v1"; }

  void on_gone(Conn& conn) override {
    for (auto& [id, room] : rooms_)
      std::erase(room.active, conn.index);
  }

  void answer(Conn& conn, std::string_view id, bool text_id, const std::string& fields) {
    std::string out = "{\"re\":";
    out += text_id ? quoted(id) : std::string(id);
    send(conn, server_frame(Opcode::text, out + fields + "}"));
  }

  void on_text(Conn& conn, std::string_view payload) override {
    std::string_view op;
    std::string_view id;
    bool text_id = false;
    std::string room_id;
    std::string text;
    std::string_view nonce;
    std::string_view token;
    std::string_view members;
    std::uint64_t seq = 0;
    ObjectScan scan(payload);
    while (scan.next()) {
      const auto key = scan.key();
      if (key == "op")
        op = scan.value();
      else if (key == "id") {
        id = scan.value();
        text_id = scan.is_string();
      } else if (key == "room")
        room_id = scan.value();
      else if (key == "text")
        text = scan.value();
      else if (key == "nonce")
        nonce = scan.value();
      else if (key == "token")
        token = scan.value();
      else if (key == "members")
        members = scan.value();
      else if (key == "seq")
        seq = scan.number();
    }
    if (op == "hello") {
      conn.name = token.substr(0, 2) == "t-" ? std::string(token.substr(2)) : "";
      answer(conn, id, text_id, ",\"ok\":true,\"session\":\"s\",\"epoch\":\"e\",\"rooms\":[]");
    } else if (op == "room.create") {
      const std::string made = "r_fake" + std::to_string(rooms_.size() + 1);
      Room& room = rooms_[made];
      room.members.insert(conn.name);
      ArrayScan list(members);
      while (list.next())
        room.members.insert(std::string(list.value().substr(1, list.value().size() - 2)));
      room.seq = room.members.size();
      answer(conn, id, text_id,
             ",\"ok\":true,\"room\":" + quoted(made) + ",\"seq\":" + std::to_string(room.seq));
    } else if (op == "room.enter") {
      Room& room = rooms_[room_id];
      room.active.push_back(conn.index);
      answer(conn, id, text_id,
             ",\"ok\":true,\"members\":[],\"read_seq\":0,\"last_seq\":" + std::to_string(room.seq));
    } else if (op == "message.send") {
      send_message(conn, id, text_id, room_id, text, nonce);
    } else if (op == "message.read") {
      answer(conn, id, text_id,
             ",\"ok\":true,\"unread\":0,\"mentions\":0,\"read_seq\":" + std::to_string(seq));
    } else {
      answer(conn, id, text_id, ",\"error\":{\"code\":\"bad_request\",\"message\":\"unknown op\"}");
    }
  }

  void later(std::uint32_t conn, nanos at, std::string frame) {
    due_.push({at, order_++, conn, std::move(frame)});
  }

  void send_message(Conn& conn, std::string_view id, bool text_id, const std::string& room_id,
                    const std::string& text, std::string_view nonce) {
    const std::uint64_t number = ++messages_;
    statements_ += 3;
    // Deliberate: the whole loop stops, as a server does that blocks its only thread.
    if (options_.stall.message == number)
      sleep_until(now() + static_cast<nanos>(options_.stall.receiver) * ms);
    if (options_.refuse.message == number) {
      answer(conn, id, text_id,
             ",\"error\":{\"code\":\"overloaded\",\"message\":\"told to\",\"retry_after_ms\":100}");
      return;
    }
    Room& room = rooms_[room_id];
    const nanos at = now() + options_.delay;
    if (options_.drop_event.message == number) {
      const std::uint64_t s = ++room.seq;
      for (std::size_t j = 0; j < room.active.size(); ++j)
        if (j + 1 != options_.drop_event.receiver)
          later(room.active[j], at,
                server_frame(Opcode::text, "{\"ev\":\"member.joined\",\"room\":" + quoted(room_id) +
                                               ",\"seq\":" + std::to_string(s) +
                                               ",\"user\":\"u_new\"}"));
    }
    const std::uint64_t s = ++room.seq;
    ++room.messages;
    answer(conn, id, text_id, ",\"ok\":true,\"at\":1,\"seq\":" + std::to_string(s));
    const std::string body = "{\"ev\":\"message.created\",\"room\":" + quoted(room_id) +
                             ",\"seq\":" + std::to_string(s) +
                             ",\"at\":1,\"sender\":" + quoted(conn.name) + ",\"text\":\"" + text +
                             "\",\"mentions\":[]";
    const std::string plain = server_frame(Opcode::text, body + "}");
    const std::string with_nonce =
        server_frame(Opcode::text, body + ",\"nonce\":" + quoted(nonce) + "}");
    for (std::size_t j = 0; j < room.active.size(); ++j) {
      const std::uint32_t to = room.active[j];
      const std::string& frame = to == conn.index ? with_nonce : plain;
      const auto here = [&](const FaultAt& f) {
        return f.message == number && f.receiver == j + 1;
      };
      if (here(options_.drop)) continue;
      if (here(options_.swap)) {
        held_[to] = frame;
        continue;
      }
      later(to, at, frame);
      if (here(options_.duplicate)) later(to, at, frame);
      if (const auto held = held_.find(to); held != held_.end()) {
        later(to, at, held->second);
        held_.erase(held);
      }
    }
    if (options_.misroute.message == number)
      for (const auto& [other, r] : rooms_)
        if (other != room_id && !r.active.empty()) {
          later(r.active.front(), at, plain);
          break;
        }
    const std::uint64_t wrong =
        options_.miscount.message != 0 && number >= options_.miscount.message ? 1 : 0;
    for (const auto& c : connections()) {
      if (!c || c->dead || c->name.empty() || c->name == conn.name) continue;
      if (std::find(room.active.begin(), room.active.end(), c->index) != room.active.end())
        continue;
      if (room.members.count(c->name) == 0) continue;
      later(
          c->index, at,
          server_frame(Opcode::text, "{\"ev\":\"unread\",\"rooms\":[{\"room\":" + quoted(room_id) +
                                         ",\"unread\":" + std::to_string(room.messages + wrong) +
                                         ",\"mentions\":0,\"last_seq\":" + std::to_string(s) +
                                         ",\"read_seq\":0}]}"));
    }
    if (options_.delay == 0) on_timer();
  }

  nanos next_timer() const override { return due_.empty() ? 0 : due_.top().at; }
  void on_timer() override {
    while (!due_.empty() && due_.top().at <= now()) {
      const Due& top = due_.top();
      if (top.conn < connections().size() && connections()[top.conn])
        send(*connections()[top.conn], top.frame);
      due_.pop();
    }
  }

  FakeOptions options_;
  std::map<std::string, Room> rooms_;
  std::priority_queue<Due> due_;
  std::map<std::uint32_t, std::string> held_;
  std::uint64_t order_ = 0;
  std::uint64_t messages_ = 0;
  std::uint64_t statements_ = 0;
};

}  // namespace

int serve_fake(const FakeOptions& options) {
  FakeServer server(options);
  std::printf("listening on http://127.0.0.1:%d\nadmin on http://127.0.0.1:%d\n", server.port(),
              server.port());
  std::fflush(stdout);
  server.run();
  return 0;
}

}  // namespace parley::bench
