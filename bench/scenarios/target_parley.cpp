// Parley as a target: process, store, users, rooms. See target.hpp.
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "client/machine.hpp"
#include "scenarios/mariadb.hpp"
#include "scenarios/target.hpp"

namespace parley::bench {

using nlohmann::json;

std::string find_server(const std::string& given) {
  if (!given.empty()) {
    if (!std::filesystem::exists(given)) throw Failure("no server at " + given);
    return std::filesystem::absolute(given).string();
  }
  const std::filesystem::path here = std::filesystem::path(self_path()).parent_path();
  for (const auto& candidate :
       {here / "parleyd", here.parent_path() / "parleyd", here.parent_path() / "net/app/parleyd",
        here.parent_path() / "bin/parleyd", std::filesystem::path("build/release/parleyd")})
    if (std::filesystem::exists(candidate)) return std::filesystem::absolute(candidate).string();
  throw Failure("no parleyd beside " + here.string() + ": name it with --server PATH");
}

Endpoint wait_for_port(Child& child, nanos timeout, const std::string& word) {
  const nanos deadline = now() + timeout;
  for (;;) {
    const std::string log = read_file(child.log_path());
    const std::size_t at = log.find(word);
    const std::size_t end =
        log.find_first_of(" \r\n", at == std::string::npos ? at : at + word.size());
    if (at != std::string::npos && end != std::string::npos)
      return parse_endpoint(log.substr(at + word.size(), end - at - word.size()));
    if (!child.running())
      throw Failure("the server ended with " + std::to_string(child.status()) + ":\n" +
                    child.tail());
    if (now() > deadline)
      throw Failure("the server did not say where it listens:\n" + child.tail());
    sleep_until(now() + 5 * ms);
  }
}

Caller::Caller(const Endpoint& server, const std::string& token) : fd_(dial(server, 5 * sec)) {
  const std::string key = random_key();
  const std::string request = upgrade_request(server.text(), "/ws", key, "parley.v1", "");
  if (::send(fd_.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0)
    throw Failure("cannot send");
  std::string head;
  const nanos deadline = now() + 10 * sec;
  while (head.find("\r\n\r\n") == std::string::npos) {
    pollfd p{fd_.get(), POLLIN, 0};
    if (now() > deadline || ::poll(&p, 1, 1000) < 0) throw Failure("no answer to the upgrade");
    std::array<char, 4096> chunk{};
    const ssize_t n = ::recv(fd_.get(), chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (n == 0) throw Failure("the server closed the upgrade");
    if (n > 0) head.append(chunk.data(), static_cast<std::size_t>(n));
  }
  const std::size_t end = head.find("\r\n\r\n");
  const std::string problem = check_upgrade(head.substr(0, end + 2), key, "parley.v1");
  if (!problem.empty()) throw Failure(problem);
  reader_.feed(head.data() + end + 4, head.size() - end - 4);
  call({{"op", "hello"}, {"token", token}, {"client", "parley-bench"}});
}

std::string Caller::next_payload(nanos deadline) {
  Frame frame;
  for (;;) {
    if (reader_.next(frame)) {
      if (frame.op == Opcode::text) return std::string(frame.payload);
      if (frame.op == Opcode::ping) {
        const std::string pong = client_frame(Opcode::pong, frame.payload);
        if (::send(fd_.get(), pong.data(), pong.size(), MSG_NOSIGNAL) < 0)
          throw Failure("cannot send");
      }
      if (frame.op == Opcode::close)
        throw Failure("the server closed: " + std::string(frame.payload.substr(2)));
      continue;
    }
    if (reader_.failed()) throw Failure("the server broke RFC 6455: " + reader_.error());
    if (now() > deadline) throw Failure("no answer within 10 s");
    pollfd p{fd_.get(), POLLIN, 0};
    ::poll(&p, 1, 100);
    std::array<char, 16384> chunk{};
    const ssize_t n = ::recv(fd_.get(), chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (n == 0) throw Failure("the server closed the connection");
    if (n > 0) reader_.feed(chunk.data(), static_cast<std::size_t>(n));
  }
}

json Caller::call(json request) {
  const std::uint64_t id = ++id_;
  request["id"] = id;
  const std::string frame = client_frame(Opcode::text, request.dump());
  std::size_t done = 0;
  const nanos deadline = now() + 10 * sec;
  while (done < frame.size()) {
    pollfd p{fd_.get(), POLLOUT, 0};
    ::poll(&p, 1, 100);
    const ssize_t n = ::send(fd_.get(), frame.data() + done, frame.size() - done, MSG_NOSIGNAL);
    if (n > 0)
      done += static_cast<std::size_t>(n);
    else if (errno != EAGAIN || now() > deadline)
      throw Failure("cannot send");
  }
  for (;;) {
    const json answer = json::parse(next_payload(deadline), nullptr, false);
    if (!answer.is_object() || !answer.contains("re")) continue;
    if (answer["re"] != json(id)) throw Failure("refused: " + answer.dump());
    if (!answer.value("ok", false))
      throw Failure(request["op"].get<std::string>() + " refused: " + answer.dump());
    return answer;
  }
}

namespace {

class Parley final : public ParleyTarget {
 public:
  explicit Parley(ParleyOptions options) : options_(std::move(options)) {
    external_ = !options_.connect.empty();
    if (external_) {
      endpoint_ = parse_endpoint(options_.connect);
      if (options_.admin.empty())
        throw Failure("--connect needs --admin HOST:PORT and --admin-token");
      admin_endpoint_ = parse_endpoint(options_.admin);
      admin_token_ = options_.admin_token;
    } else {
      options_.program = find_server(options_.program);
      if (options_.db != "sqlite" && options_.db != "mysql")
        throw Failure("--db is sqlite or mysql");
    }
  }

  std::string name() const override { return options_.db == "mysql" ? "parley/mysql" : "parley"; }
  std::shared_ptr<const Protocol> protocol() const override { return parley_protocol(); }
  Endpoint endpoint() const override {
    Endpoint out = endpoint_;
    if (options_.link != nullptr) out.netns = options_.link->client_netns();
    return out;
  }
  nanos last_start_took() const override { return start_took_; }
  Child& process() override { return child_; }
  HttpClient admin() const override { return HttpClient(admin_endpoint_, admin_token_); }

  void start() override {
    if (external_) return;
    stop();
    folder_ = std::make_unique<TempFolder>(options_.data_parent);
    if (options_.db == "mysql") {
      database_ = std::make_unique<MariaDb>(folder_->path());
      db_url_ = database_->url();
    }
    if (disk_.is_null()) disk_ = fdatasync_of(folder_->path());
    launch();
  }

  bool restart() override {
    if (external_) return false;
    // A server that does not stop by itself is no reason to measure nothing, but is never kept
    // quiet.
    if (!child_.stop()) {
      ++unclean_stops_;
      std::fprintf(stderr, "WARNING: the server did not stop by itself with 0 (status %d):\n%s\n",
                   child_.status(), child_.tail().c_str());
    }
    launch();
    return true;
  }

  void stop() override {
    child_ = Child();
    database_.reset();
    folder_.reset();
  }

  std::string token_for(const std::string& user) override {
    if (!admin_calls_) admin_calls_ = std::make_unique<HttpClient>(admin_endpoint_, admin_token_);
    const HttpAnswer answer =
        admin_calls_->call("POST", "/admin/tokens", json({{"user", user}}).dump());
    const json body = json::parse(answer.body, nullptr, false);
    if (answer.status / 100 != 2 || !body.is_object() || !body.contains("token"))
      throw Failure("POST /admin/tokens answered " + std::to_string(answer.status) + ": " +
                    answer.body.substr(0, 300));
    return body["token"].get<std::string>();
  }

  Prepared prepare(const Population& p) override {
    Prepared out;
    constexpr std::size_t at_once = 100;  // members named in one room.create
    const std::string batch = std::to_string(++batches_);
    for (std::size_t r = 0; r < p.rooms; ++r) {
      std::vector<std::string> users;
      std::vector<std::string> tokens;
      for (std::size_t m = 0; m < p.members; ++m) {
        users.push_back("bench-" + batch + "-" + std::to_string(r) + "-" + std::to_string(m));
        tokens.push_back(token_for(users.back()));
      }
      Endpoint direct = endpoint_;  // beside the link: preparing need not be slow
      if (options_.link != nullptr) direct.netns = options_.link->server_netns();
      Caller owner(direct, tokens[0]);
      const std::size_t named = std::min(users.size(), at_once);
      const json members(std::vector<std::string>(
          users.begin() + 1, users.begin() + static_cast<std::ptrdiff_t>(named)));
      const json made = owner.call({{"op", "room.create"},
                                    {"name", "bench " + batch + " " + std::to_string(r)},
                                    {"kind", "public"},
                                    {"members", members}});
      const auto room = made.at("room").get<std::string>();
      out.rooms.push_back(room);
      HttpClient joiner(direct);
      for (std::size_t m = named; m < users.size(); ++m) {
        const HttpAnswer answer = joiner.call_as(
            tokens[m], "PUT", "/api/v1/rooms/" + room + "/members/" + users[m], "{}");
        if (answer.status / 100 != 2)
          throw Failure("joining " + room + " answered " + std::to_string(answer.status) + ": " +
                        answer.body.substr(0, 300));
      }
      for (std::size_t s = 0; s < p.sessions; ++s) {
        SessionPlan plan;
        plan.user = users[s];
        plan.token = tokens[s];
        plan.room = static_cast<std::uint32_t>(r);
        plan.room_id = room;
        plan.enter = s + p.passive < p.sessions;
        out.sessions.push_back(std::move(plan));
      }
    }
    return out;
  }

  Metrics metrics() override {
    HttpClient client(admin_endpoint_, admin_token_);
    const HttpAnswer answer = client.call("GET", "/metrics");
    return answer.status == 200 ? Metrics(answer.body) : Metrics();
  }

  ServerCost cost() const override {
    ServerCost out;
    out.cpu = child_.cpu();
    out.rss_kib = child_.peak_rss_kib();
    if (database_) {
      out.database_cpu = database_->process().cpu();
      out.database_rss_kib = database_->process().peak_rss_kib();
    }
    return out;
  }

  json describe() const override {
    json out{{"settings", settings()}, {"db", options_.db}};
    if (external_) {
      out["connected_to"] = options_.connect;
      return out;
    }
    const CommandResult version = run_command({options_.program, "version"}, 5 * sec);
    out["unclean_stops"] = unclean_stops_;
    out["version"] = version.output.substr(0, version.output.find('\n'));
    out["data_file_system"] = folder_ ? file_system_of(folder_->path()) : "";
    out["fdatasync"] = disk_;
    if (database_) out["database_version"] = database_->version();
    return out;
  }

  std::string no_result() const override {
    if (!external_ && folder_ && in_memory(folder_->path()))
      return "the data folder lies in memory (" + file_system_of(folder_->path()) + ")";
    return {};
  }

 private:
  // Limits that stop people, not servers: a load needs them out of the way. The JSON names them.
  std::vector<std::string> settings() const {
    std::vector<std::string> out{"limits.messages_per_s=1000000", "limits.messages_burst=1000000",
                                 "limits.connections_per_address=100000"};
    out.insert(out.end(), options_.settings.begin(), options_.settings.end());
    return out;
  }

  void launch() {
    const std::string data = folder_->path() + "/data";
    std::filesystem::create_directories(data);
    const std::string ports = data + "/parleyd.ports";
    std::filesystem::remove(ports);
    const std::string host =
        options_.link != nullptr ? options_.link->server_address() : "127.0.0.1";
    std::vector<std::string> args{options_.program, "serve",     "--data",         data,
                                  "--listen",       host + ":0", "--admin-listen", "127.0.0.1:0"};
    if (!db_url_.empty()) args.insert(args.end(), {"--db", db_url_});
    for (const auto& s : settings())
      args.insert(args.end(), {"--set", s});
    const int netns = options_.link != nullptr ? options_.link->server_netns() : -1;
    child_ = Child(args, folder_->path() + "/server.log", netns);
    const nanos deadline = now() + 60 * sec;
    std::string told;
    while (told.find("admin=") == std::string::npos || told.back() != '\n') {
      if (!child_.running())
        throw Failure(options_.program + " ended with " + std::to_string(child_.status()) + ":\n" +
                      child_.tail());
      if (now() > deadline)
        throw Failure("the server was not ready within 60 s:\n" + child_.tail());
      sleep_until(now() + ms);
      told = read_file(ports);
      if (told.empty()) told = " ";
    }
    const auto field = [&](const std::string& name) {
      const std::size_t at = told.find(name);
      if (at == std::string::npos) throw Failure("parleyd.ports lacks " + name);
      const std::size_t from = at + name.size();
      return parse_endpoint(told.substr(from, told.find('\n', from) - from));
    };
    endpoint_ = field("listen=");
    admin_endpoint_ = told.rfind("admin=", 0) == 0 ? field("admin=") : field("\nadmin=");
    admin_endpoint_.netns = netns;
    std::ifstream token(data + "/admin.token");
    std::getline(token, admin_token_);
    admin_calls_ = std::make_unique<HttpClient>(admin_endpoint_, admin_token_);
    for (;;) {
      if (admin_calls_->call("GET", "/readyz").status == 200) break;
      if (now() > deadline) throw Failure("/readyz was not 200 within 60 s:\n" + child_.tail());
      sleep_until(now() + ms);
    }
    start_took_ = now() - child_.started();
  }

  ParleyOptions options_;
  bool external_ = false;
  std::unique_ptr<TempFolder> folder_;
  std::unique_ptr<MariaDb> database_;
  std::string db_url_;
  Child child_;
  Endpoint endpoint_;
  Endpoint admin_endpoint_;
  std::string admin_token_;
  std::unique_ptr<HttpClient> admin_calls_;
  nanos start_took_ = 0;
  json disk_;
  std::uint64_t batches_ = 0;
  std::uint64_t unclean_stops_ = 0;
};

}  // namespace

std::unique_ptr<ParleyTarget> make_parley_target(ParleyOptions options) {
  return std::make_unique<Parley>(std::move(options));
}

std::unique_ptr<Target> make_parley(ParleyOptions options) {
  return make_parley_target(std::move(options));
}

}  // namespace parley::bench
