// Broadcast over the bare loop. See floor_server.hpp.
#include "floor/floor_server.hpp"

#include <algorithm>
#include <cstdio>
#include <map>

#include "floor/epoll_server.hpp"

namespace parley::bench {

namespace {

class FloorServer final : public EpollServer {
 public:
  FloorServer(const std::string& address, bool gather) : EpollServer(address), gather_(gather) {}

 private:
  struct Room {
    std::vector<Conn*> members;
    std::string gathered;
  };

  int on_http(std::string_view, std::string_view, std::string_view, std::string_view,
              std::string& answer) override {
    answer = "the floor speaks WebSocket only\n";
    return 404;
  }

  std::string on_upgrade(Conn& conn) override {
    const auto [at, fresh] =
        index_.try_emplace(conn.target, static_cast<std::uint32_t>(rooms_.size()));
    if (fresh) rooms_.emplace_back();
    conn.tag = at->second;
    rooms_[conn.tag].members.push_back(&conn);
    return {};
  }

  void on_gone(Conn& conn) override {
    if (!conn.upgraded) return;
    auto& members = rooms_[conn.tag].members;
    members.erase(std::remove(members.begin(), members.end(), &conn), members.end());
  }

  void on_text(Conn& conn, std::string_view payload) override {
    if (payload == "?") {  // "are you there": the client's sign that it has joined
      send(conn, server_frame(Opcode::text, "!"));
      return;
    }
    Room& room = rooms_[conn.tag];
    if (gather_) {
      if (room.gathered.empty()) dirty_.push_back(conn.tag);
      append_frame(room.gathered, Opcode::text, payload, false);
      return;
    }
    const std::string frame = server_frame(Opcode::text, payload);
    for (Conn* member : room.members)
      send(*member, frame);
  }

  void on_turn_end() override {
    for (const std::uint32_t tag : dirty_) {
      for (Conn* member : rooms_[tag].members)
        send(*member, rooms_[tag].gathered);
      rooms_[tag].gathered.clear();
    }
    dirty_.clear();
  }

  bool gather_;
  std::map<std::string, std::uint32_t> index_;
  std::vector<Room> rooms_;
  std::vector<std::uint32_t> dirty_;
};

}  // namespace

int serve_floor(const std::string& address, bool gather) {
  FloorServer server(address, gather);
  std::printf("listening on http://%s:%d\n", address.substr(0, address.rfind(':')).c_str(),
              server.port());
  std::fflush(stdout);
  server.run();
  return 0;
}

}  // namespace parley::bench
