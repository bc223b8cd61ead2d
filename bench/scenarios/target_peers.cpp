// What Parley is measured beside: Socket.IO on Node, and the floor. See target.hpp.
#include <filesystem>

#include "scenarios/target.hpp"

namespace parley::bench {

using nlohmann::json;

namespace {

// A peer keeps rooms in the connections themselves, so preparing it is naming them.
class Peer : public Target {
 public:
  explicit Peer(Link* link) : link_(link) {}

  Prepared prepare(const Population& p) override {
    Prepared out;
    for (std::size_t r = 0; r < p.rooms; ++r) {
      out.rooms.push_back("r_bench" + std::to_string(r));
      for (std::size_t s = 0; s < p.sessions; ++s) {
        SessionPlan plan;
        plan.user = "u_" + std::to_string(r) + "_" + std::to_string(s);
        plan.room = static_cast<std::uint32_t>(r);
        plan.room_id = out.rooms.back();
        plan.enter = true;  // peers know no passive sessions
        out.sessions.push_back(std::move(plan));
      }
    }
    return out;
  }
  void start() override {
    stop();
    folder_ = std::make_unique<TempFolder>();
    const std::string host = link_ != nullptr ? link_->server_address() : "127.0.0.1";
    const int netns = link_ != nullptr ? link_->server_netns() : -1;
    child_ = Child(command(host), folder_->path() + "/peer.log", netns, directory());
    endpoint_ = wait_for_port(child_, 30 * sec);
    if (link_ != nullptr) endpoint_.netns = link_->client_netns();
  }
  bool restart() override {
    start();
    return true;
  }
  Endpoint endpoint() const override { return endpoint_; }
  ServerCost cost() const override {
    ServerCost out;
    out.cpu = child_.cpu();
    out.rss_kib = child_.peak_rss_kib();
    return out;
  }
  void stop() override {
    child_ = Child();
    folder_.reset();
  }

 protected:
  virtual std::vector<std::string> command(const std::string& host) const = 0;
  virtual std::string directory() const { return {}; }

 private:
  Link* link_;
  std::unique_ptr<TempFolder> folder_;
  Child child_;
  Endpoint endpoint_;
};

class SocketIoTarget final : public Peer {
 public:
  SocketIoTarget(std::string folder, Link* link) : Peer(link), folder_(std::move(folder)) {
    if (!std::filesystem::exists(folder_ + "/server.mjs"))
      throw Failure("no Socket.IO peer in " + folder_ + ": name its folder with --peers");
    const auto installed = run_command({folder_ + "/../install"}, 300 * sec);
    if (installed.status != 0)
      throw Failure("bench/peers/install failed (it needs node, npm and a package registry):\n" +
                    installed.output);
  }
  std::string name() const override { return "socket.io"; }
  std::shared_ptr<const Protocol> protocol() const override { return socketio_protocol(); }
  json describe() const override {
    json out{{"stores", "nothing"}};
    const json package =
        json::parse(read_file(folder_ + "/node_modules/socket.io/package.json"), nullptr, false);
    if (package.is_object()) out["version"] = package.value("version", "");
    out["node"] = run_command({"node", "--version"}, 5 * sec).output.substr(0, 12);
    return out;
  }

 protected:
  std::vector<std::string> command(const std::string& host) const override {
    return {"node", "server.mjs", host, "0"};
  }
  std::string directory() const override { return folder_; }

 private:
  std::string folder_;
};

class FloorTarget final : public Peer {
 public:
  FloorTarget(bool gather, Link* link) : Peer(link), gather_(gather) {}
  std::string name() const override { return gather_ ? "floor (gathered)" : "floor"; }
  std::shared_ptr<const Protocol> protocol() const override { return floor_protocol(); }
  json describe() const override { return {{"stores", "nothing"}, {"gather", gather_}}; }

 protected:
  std::vector<std::string> command(const std::string& host) const override {
    std::vector<std::string> out{self_path(), "floor", "--serve", "--listen", host + ":0"};
    if (gather_) out.emplace_back("--gather");
    return out;
  }

 private:
  bool gather_;
};

}  // namespace

std::unique_ptr<Target> make_socketio(const std::string& folder, Link* link) {
  return std::make_unique<SocketIoTarget>(folder, link);
}
std::unique_ptr<Target> make_floor(bool gather, Link* link) {
  return std::make_unique<FloorTarget>(gather, link);
}

}  // namespace parley::bench
