// HTTP over a real loopback socket with a runtime that a test drives: order, bounds, deadlines,
// hand-over, the admin listener's door. Each client call has a deadline.
#include "net/http_session.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "net/auth/jwt.hpp"
#include "net/http/services.hpp"
#include "net/io_thread.hpp"
#include "net/listener.hpp"
#include "tests/support/fake_runtime.hpp"

namespace parley::net {
namespace {

using json = nlohmann::json;

struct answer_text {
  int status = 0;  // 0: the server closed, -1: nothing came in time
  std::string head, body;
  std::string header(std::string name) const {
    name = "\r\n" + name + ": ";
    const auto at = head.find(name);
    if (at == std::string::npos) return {};
    const auto from = at + name.size();
    return head.substr(from, head.find("\r\n", from) - from);
  }
};

class client {
 public:
  explicit client(std::uint16_t port) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  }
  ~client() { ::close(fd_); }
  client(const client&) = delete;
  client& operator=(const client&) = delete;

  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  void finish_sending() { ::shutdown(fd_, SHUT_WR); }

  answer_text next(bool head_only = false) {
    while (in_.find("\r\n\r\n") == std::string::npos)
      if (const int n = more(); n <= 0) return {n, in_, {}};
    answer_text a;
    a.head = in_.substr(0, in_.find("\r\n\r\n") + 4);
    in_.erase(0, a.head.size());
    a.status = std::stoi(a.head.substr(9, 3));
    const auto length = a.header("Content-Length");
    if (head_only || length.empty() || a.status == 304) return a;
    while (in_.size() < std::stoul(length))
      if (more() <= 0) return {-1, a.head, in_};
    a.body = in_.substr(0, std::stoul(length));
    in_.erase(0, a.body.size());
    return a;
  }
  // Whether the server ends the connection within ten seconds.
  bool ended() {
    while (true) {
      const int n = more();
      if (n <= 0) return n == 0;
    }
  }

 private:
  // 1: bytes came, 0: the end, -1: nothing for ten seconds.
  int more() {
    pollfd p{fd_, POLLIN, 0};
    if (::poll(&p, 1, 10'000) <= 0) return -1;
    char piece[65536];
    const auto n = ::recv(fd_, piece, sizeof piece, 0);
    if (n <= 0) return 0;
    in_.append(piece, static_cast<std::size_t>(n));
    return 1;
  }
  int fd_ = -1;
  std::string in_;
};

class HttpSession : public testing::Test {
 protected:
  void start(config settings = {}) {
    context = std::make_unique<server_context>(tokens, counters,
                                               std::make_shared<const config>(std::move(settings)));
    services = std::make_unique<http::services>(*context);
    services->token_secret = std::string(32, 'k');
    services->admin_token = "the-admin-token-of-this-test";
    services->reload = [] { return http::reload_report{{"log.level"}, {"server.listen"}}; };
    services->check = [] { return std::vector<std::string>{"room r_1: a finding"}; };
    io = std::make_unique<io_thread>(0, *context);
    rt.relays.push_back(&io->inbox());
    context->rt = &rt;
    context->http = services.get();
    http::add_main_routes(*services);
    http::add_admin_routes(*services);
    const auto open = [this](bool admin) {
      auto l = listener::open("127.0.0.1:0", context->entrance, *io, {io.get()},
                              [admin](io_thread& t, tcp_socket s, std::string peer) {
                                start_http(t, std::move(s), std::move(peer), admin);
                              });
      EXPECT_TRUE(l);
      return *l;
    };
    main = open(false);
    admin = open(true);
    context->listen_authority = main->authority();
    services->admin_authority = admin->authority();
    io->start();
  }
  void TearDown() override {
    if (!io) return;
    main->close();
    admin->close();
    io->stop();
  }
  static std::uint16_t port_of(const listener& l) {
    return static_cast<std::uint16_t>(
        std::stoi(l.authority().substr(l.authority().rfind(':') + 1)));
  }
  // Runs `f` on the I/O thread, which reads what it changes, and waits for it.
  template <class F> void on_thread(F f) {
    std::promise<void> done;
    io->post([&] {
      f();
      done.set_value();
    });
    done.get_future().wait();
  }
  client connect() { return client(port_of(*main)); }
  std::string get(std::string_view path, std::string_view fields = "",
                  std::string_view method = "GET") {
    return std::string(method) + " " + std::string(path) +
           " HTTP/1.1\r\nHost: " + main->authority() + "\r\n" + std::string(fields) + "\r\n";
  }
  std::string post(std::string_view path, std::string_view body, std::string_view fields = "") {
    return get(path,
               "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
                   "\r\n" + std::string(fields),
               "POST") +
           std::string(body);
  }
  answer_text ask_admin(std::string_view method, std::string_view path, std::string_view body = "",
                        std::string fields = "", std::string host = "") {
    client c(port_of(*admin));
    if (fields.empty()) fields = "Authorization: Bearer the-admin-token-of-this-test\r\n";
    if (!body.empty()) fields += "Content-Type: application/json\r\n";
    c.send(std::string(method) + " " + std::string(path) +
           " HTTP/1.1\r\nHost: " + (host.empty() ? admin->authority() : host) + "\r\n" + fields +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body));
    return c.next();
  }

  test::fake_tokens tokens;
  metrics counters;
  test::fake_runtime rt;
  std::unique_ptr<server_context> context;
  std::unique_ptr<http::services> services;
  std::unique_ptr<io_thread> io;
  std::shared_ptr<listener> main, admin;
};

const char* const ann = "Authorization: Bearer good-ann\r\n";

TEST_F(HttpSession, AnswersAThousandPipelinedRequestsInOrder) {
  start();
  client c = connect();
  std::string all;
  for (int i = 0; i < 500; ++i)
    all += get("/livez") + get("/nowhere");
  std::thread writer([&] { c.send(all); });
  for (int i = 0; i < 500; ++i) {
    ASSERT_EQ(c.next().status, 200) << i;
    ASSERT_EQ(c.next().status, 404) << i;
  }
  writer.join();
}

TEST_F(HttpSession, KeepsTheOrderOfAnswersThatComeOutOfOrder) {
  start();
  std::promise<reply_fn> slow;
  rt.on_ask = [&](claims, wire::request r, reply_fn then) {
    if (std::holds_alternative<wire::rooms>(r))
      slow.set_value(std::move(then));
    else
      then({answer{"\"which\":\"room\"", std::nullopt}, false});
  };
  client c = connect();
  c.send(get("/api/v1/rooms", ann) + get("/api/v1/rooms/r_1", ann) + get("/livez"));
  slow.get_future().get()(
      {answer{"\"which\":\"rooms\"", std::nullopt}, false});  // from this thread
  EXPECT_EQ(c.next().body, "{\"which\":\"rooms\"}");
  EXPECT_EQ(c.next().body, "{\"which\":\"room\"}");
  EXPECT_EQ(c.next().body, "{\"status\":\"ok\"}");
}

TEST_F(HttpSession, AChangeWaitsForThoseBeforeItAndHoldsBackThoseBehind) {
  start();
  std::mutex lock;
  std::vector<std::string> began;
  std::promise<reply_fn> first, second;
  rt.on_ask = [&](claims, wire::request r, reply_fn then) {
    std::lock_guard hold(lock);
    began.emplace_back(wire::op_name(r));
    if (began.size() == 1) return first.set_value(std::move(then));
    if (began.size() == 2) return second.set_value(std::move(then));
    then({answer{"", std::nullopt}, false});
  };
  client c = connect();
  c.send(get("/api/v1/rooms", ann) +
         post("/api/v1/rooms/r_1/messages", R"({"text":"a","nonce":"n"})", ann) +
         get("/api/v1/rooms", ann));
  auto then = first.get_future().get();
  {
    std::lock_guard hold(lock);
    EXPECT_EQ(began.size(), 1u);
  }
  then({answer{"\"a\":1", std::nullopt}, false});
  EXPECT_EQ(c.next().status, 200);
  then = second.get_future().get();
  {
    std::lock_guard hold(lock);
    EXPECT_EQ(began, (std::vector<std::string>{"rooms", "message.send"}));
  }
  then({answer{"\"seq\":1,\"at\":2", std::nullopt}, false});
  EXPECT_EQ(c.next().status, 201);
  EXPECT_EQ(c.next().status, 200);
}

TEST_F(HttpSession, ClosesWithoutAWordWhereTheOutcomeStaysOpen) {
  start();
  rt.on_ask = [](claims, wire::request, reply_fn then) { then({answer{}, true}); };
  client c = connect();
  c.send(get("/api/v1/rooms", ann));
  EXPECT_EQ(c.next().status, 0);
  // A callback that is dropped says the same.
  rt.on_ask = [](claims, wire::request, reply_fn) {};
  client d = connect();
  d.send(get("/api/v1/rooms", ann));
  EXPECT_EQ(d.next().status, 0);
}

TEST_F(HttpSession, RefusesBodiesFromTheHead) {
  start();
  const auto status = [&](std::string fields) {
    client c = connect();
    c.send(get("/api/v1/login", fields, "POST") + "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
    const auto a = c.next();
    EXPECT_EQ(a.header("Connection"), "close");
    EXPECT_TRUE(c.ended());
    return a.status;
  };
  EXPECT_EQ(status("Content-Type: application/json\r\nContent-Length: 65537\r\n"), 413);
  EXPECT_EQ(
      status("Content-Type: application/json\r\nContent-Length: 65537\r\nExpect: 100-continue\r\n"),
      413);
  EXPECT_EQ(status("Content-Type: text/plain\r\nContent-Length: 2\r\n"), 415);
  EXPECT_EQ(status("Content-Length: 2\r\n"), 415);
  EXPECT_EQ(status("Content-Type: application/jsonx\r\nTransfer-Encoding: chunked\r\n"), 415);
  EXPECT_EQ(
      status(
          "Content-Type: application/json\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n"),
      400);
}

TEST_F(HttpSession, ReadsChunksAndAsksForThemFirst) {
  start();
  rt.on_account = [](account_request r, account_fn then) {
    account_answer a;
    a.who.id = "u_1";
    a.who.name = std::get<login>(r).name;
    a.device = "d1";
    then(a);
  };
  client c = connect();
  c.send(get("/api/v1/login",
             "Content-Type: application/json; charset=UTF-8\r\nTransfer-Encoding: "
             "chunked\r\nExpect: 100-continue\r\n",
             "POST"));
  EXPECT_EQ(c.next().status, 100);
  const std::string body = R"({"name":"ann","password":"long enough"})";
  for (const char b : body)
    c.send(std::string("1\r\n") + b + "\r\n");
  c.send("0\r\n\r\n" + get("/livez"));
  const auto a = c.next();
  EXPECT_EQ(a.status, 200);
  EXPECT_EQ(a.header("Parley-Device"), "d1");
  EXPECT_EQ(a.header("Cache-Control"), "no-store");
  const auto doc = json::parse(a.body);
  EXPECT_EQ(doc.size(), 3u);
  auth::jwt_checker check(services->token_secret, nullptr);
  EXPECT_EQ(check.check(doc["token"].get<std::string>())->user, "u_1");
  EXPECT_EQ(c.next().status, 200);
}

TEST_F(HttpSession, EndsSlowHeadsAndBodies) {
  config settings;
  settings.limits.head_timeout_ms = 50;
  settings.limits.body_timeout_ms = 50;
  start(settings);
  client silent = connect(), head = connect(), body = connect();
  head.send("GET / HT");
  body.send(
      get("/api/v1/login", "Content-Type: application/json\r\nContent-Length: 100\r\n", "POST") +
      "{");
  EXPECT_EQ(silent.next().status, 0);
  EXPECT_EQ(head.next().status, 408);
  EXPECT_EQ(body.next().status, 408);
  EXPECT_TRUE(body.ended());
}

TEST_F(HttpSession, ServesHeadsAndOldClients) {
  start();
  client c = connect();
  c.send(get("/livez", "", "HEAD") + get("/livez"));
  const auto head = c.next(true);
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.header("Content-Length"), "15");
  EXPECT_EQ(c.next().body, "{\"status\":\"ok\"}");
  client old = connect();
  old.send("GET /livez HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.next().status, 200);
  EXPECT_TRUE(old.ended());
  client kept = connect();
  kept.send("GET /livez HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(kept.next().header("Connection"), "keep-alive");
  client last = connect();
  last.send(get("/livez", "Connection: close\r\n") + get("/livez"));
  EXPECT_EQ(last.next().status, 200);
  EXPECT_TRUE(last.ended());
  client half = connect();
  half.send(get("/livez"));
  half.finish_sending();
  EXPECT_EQ(half.next().status, 200);
  EXPECT_TRUE(half.ended());
}

TEST_F(HttpSession, HandsTheSocketOver) {
  start();
  client c = connect();
  c.send(
      get("/livez") +
      get("/ws",
          "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
          "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: parley.v1\r\n"));
  EXPECT_EQ(c.next().status, 200);
  const auto a = c.next();
  EXPECT_EQ(a.status, 101);
  EXPECT_EQ(a.header("Sec-WebSocket-Protocol"), "parley.v1");
  client d = connect();
  d.send(get("/ws", "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 8\r\n"
                    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"));
  EXPECT_EQ(d.next().status, 426);
}

TEST_F(HttpSession, ForeignHostsAndOriginsAreRefused) {
  start();
  client c = connect();
  c.send(get("http://evil.example/livez"));
  EXPECT_EQ(c.next().status, 421);
  client d = connect();
  d.send(get("http://" + main->authority() + "/livez"));
  EXPECT_EQ(d.next().status, 200);
  const auto send = [&](std::string origin) {
    client e = connect();
    e.send(post("/api/v1/rooms/r_1/messages", R"({"text":"a","nonce":"n"})",
                std::string(ann) + "Origin: " + origin + "\r\n"));
    return e.next().status;
  };
  EXPECT_EQ(send("https://evil.example"), 403);
  EXPECT_EQ(send("null"), 403);
  EXPECT_EQ(send("http://" + main->authority()), 201);
}

TEST_F(HttpSession, AProxysWordCountsOnlyWhereItIsTrusted) {
  config settings;
  settings.server.trusted_proxies = {"127.0.0.1"};
  start(settings);
  std::promise<std::string> seen;
  rt.on_account = [&](account_request r, account_fn then) {
    seen.set_value(std::get<login>(r).address);
    then(fail(errc::unauthenticated, "no"));
  };
  client c = connect();
  c.send(post("/api/v1/login", R"({"name":"a","password":"b"})",
              "X-Forwarded-For: 198.51.100.9, 203.0.113.7\r\n"));
  EXPECT_EQ(c.next().status, 401);
  EXPECT_EQ(seen.get_future().get(), "203.0.113.7");
}

TEST_F(HttpSession, RequestsBecomeOperations) {
  start();
  std::mutex lock;
  std::vector<std::pair<std::string, wire::request>> asked;
  rt.on_ask = [&](claims who, wire::request r, reply_fn then) {
    std::lock_guard hold(lock);
    asked.emplace_back(who.user, std::move(r));
    then({answer{"\"seq\":4,\"duplicate\":true", std::nullopt}, false});
  };
  const auto call = [&](std::string_view method, std::string_view path, std::string_view body = "",
                        std::string fields = ann) {
    client c = connect();
    if (!body.empty()) fields += "Content-Type: application/json\r\n";
    c.send(get(path, fields + "Content-Length: " + std::to_string(body.size()) + "\r\n", method) +
           std::string(body));
    return c.next().status;
  };
  EXPECT_EQ(call("PUT", "/api/v1/rooms/r_1/members/ann"), 200);
  EXPECT_EQ(call("PUT", "/api/v1/rooms/r_1/members/bob", "",
                 std::string(ann) + "Idempotency-Key: k-1\r\n"),
            200);
  EXPECT_EQ(call("DELETE", "/api/v1/rooms/r_1/members/ann"), 200);
  EXPECT_EQ(call("DELETE", "/api/v1/rooms/r_1/members/bob"), 403);
  EXPECT_EQ(call("POST", "/api/v1/rooms/r_1/messages", R"({"text":"x"})",
                 std::string(ann) + "Idempotency-Key: \"k-2\"\r\n"),
            200);
  EXPECT_EQ(call("PUT", "/api/v1/rooms/r_1/read", R"({"seq":7})"), 200);
  EXPECT_EQ(call("GET", "/api/v1/users?id=a&id=b,c"), 200);
  EXPECT_EQ(call("GET", "/api/v1/rooms/r_1/messages?before_seq=9&limit=1000"), 200);
  {
    std::lock_guard hold(lock);
    ASSERT_EQ(asked.size(), 7u);
    EXPECT_EQ(std::get<wire::room_join>(asked[0].second).room, "r_1");
    EXPECT_EQ(std::get<wire::room_invite>(asked[1].second).user, "bob");
    EXPECT_EQ(std::get<wire::room_invite>(asked[1].second).nonce, "k-1");
    EXPECT_EQ(std::get<wire::room_leave>(asked[2].second).room, "r_1");
    EXPECT_EQ(std::get<wire::message_send>(asked[3].second).nonce, "k-2");
    EXPECT_EQ(std::get<wire::message_read>(asked[4].second).seq, 7);
    EXPECT_EQ(std::get<wire::users>(asked[5].second).users,
              (std::vector<std::string>{"a", "b", "c"}));
    EXPECT_EQ(std::get<wire::history>(asked[6].second).limit, 200);
    for (const auto& [user, r] : asked)
      EXPECT_EQ(user, "ann");
  }
  // What cannot be asked is refused before anybody is.
  EXPECT_EQ(call("GET", "/api/v1/rooms", "", "X-A: b\r\n"), 401);
  EXPECT_EQ(call("GET", "/api/v1/rooms", "", "Authorization: Bearer bad\r\n"), 401);
  EXPECT_EQ(call("GET", "/api/v1/rooms?limit=x"), 400);
  EXPECT_EQ(call("GET", "/api/v1/rooms/a%20b"), 404);
  EXPECT_EQ(call("GET", "/api/v1/rooms/r_1/messages?before_seq=9&after_seq=1"), 400);
  EXPECT_EQ(call("POST", "/api/v1/rooms/r_1/messages", R"({"text":"no nonce"})"), 400);
  EXPECT_EQ(call("POST", "/api/v1/rooms/r_1/messages", R"({"text":"x"})",
                 std::string(ann) + "Idempotency-Key: a b\r\n"),
            400);
  EXPECT_EQ(call("POST", "/api/v1/rooms/r_1/messages", R"({"text":5,"nonce":"n"})"), 400);
  std::lock_guard hold(lock);
  EXPECT_EQ(asked.size(), 7u);
}

TEST_F(HttpSession, TheAdminsDoor) {
  start();
  rt.storage_now.durability = "full";
  EXPECT_EQ(ask_admin("GET", "/admin/storage").status, 200);
  for (const char* wrong : {"X-A: b\r\n", "Authorization: Bearer x\r\n",
                            "Authorization: Bearer the-admin-token-of-this-tes\r\n",
                            "Authorization: Bearer good-ann\r\n",
                            "Authorization: Basic the-admin-token-of-this-test\r\n"})
    EXPECT_EQ(ask_admin("GET", "/admin/storage", "", wrong).status, 401) << wrong;
  EXPECT_EQ(ask_admin("GET", "/livez", "", "X-A: b\r\n").status, 200);
  EXPECT_EQ(ask_admin("GET", "/readyz", "", "X-A: b\r\n").status, 200);
  const std::string token = "Authorization: Bearer the-admin-token-of-this-test\r\n";
  for (const char* host : {"evil.example", "evil.example:8081", "127.0.0.1"})
    EXPECT_EQ(ask_admin("GET", "/admin/storage", "", token, host).status, 421) << host;
  for (const char* origin : {"https://evil.example", "null", "http://127.0.0.1"})
    EXPECT_EQ(ask_admin("GET", "/admin/storage", "", token + "Origin: " + origin + "\r\n").status,
              403)
        << origin;
  EXPECT_EQ(ask_admin("GET", "/admin/storage", "",
                      token + "Origin: http://" + admin->authority() + "\r\n")
                .status,
            200);
  // Neither listener serves what is the other's.
  EXPECT_EQ(ask_admin("GET", "/api/v1/rooms").status, 404);
  client c = connect();
  c.send(get("/admin/storage", token));
  EXPECT_EQ(c.next().status, 404);
}

TEST_F(HttpSession, TheAdminsLists) {
  start();
  for (int i = 0; i < 5; ++i) {
    room_view r;
    r.room = "r_" + std::to_string(i);
    r.state = i == 4 ? "missing" : "awake";
    rt.room_views.push_back(r);
    actor_view a;
    a.kind = i % 2 == 0 ? "room" : "people";
    a.id = a.kind + "-" + std::to_string(i);
    if (i == 0) a.busy_since_ms = 1500;
    rt.actor_views.push_back(a);
  }
  std::vector<std::string> found;
  std::string path = "/admin/rooms?limit=3";
  for (int page = 0; page < 3 && !path.empty(); ++page) {
    const auto doc = json::parse(ask_admin("GET", path).body);
    EXPECT_EQ(doc["total"], 4);
    for (const auto& r : doc["rooms"])
      found.push_back(r["room"]);
    path =
        doc.contains("next") ? "/admin/rooms?limit=3&cursor=" + doc["next"].get<std::string>() : "";
  }
  EXPECT_EQ(found, (std::vector<std::string>{"r_0", "r_1", "r_2", "r_3"}));
  EXPECT_EQ(ask_admin("GET", "/admin/rooms?cursor=%21").status, 400);
  EXPECT_EQ(ask_admin("GET", "/admin/rooms/r_2").status, 200);
  EXPECT_EQ(ask_admin("GET", "/admin/rooms/r_9").status, 404);
  EXPECT_EQ(json::parse(ask_admin("GET", "/admin/actors?kind=people").body)["total"], 2);
  EXPECT_EQ(json::parse(ask_admin("GET", "/admin/actors/room-0").body)["state"], "stuck");
  EXPECT_EQ(json::parse(ask_admin("GET", "/admin/actors/room-2").body)["state"], "idle");
  const auto metrics = ask_admin("GET", "/metrics");
  EXPECT_EQ(metrics.header("Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_NE(metrics.body.find("chat_connections"), std::string::npos);
}

TEST_F(HttpSession, TheAdminsActions) {
  start();
  EXPECT_EQ(ask_admin("POST", "/admin/reload").body,
            R"({"changed":["log.level"],"ok":true,"restart":["server.listen"]})");
  EXPECT_EQ(ask_admin("POST", "/admin/check", "{}").body,
            R"({"ok":false,"problems":["room r_1: a finding"]})");
  EXPECT_EQ(ask_admin("DELETE", "/admin/sessions/s_1").status, 404);
  EXPECT_EQ(ask_admin("POST", "/admin/rooms/r_1/passivate").status, 404);
  // A token for a name that somebody has: the one who has it is meant.
  rt.on_account = [](account_request r, account_fn then) {
    account_answer a;
    if (const auto* add = std::get_if<admin_add_user>(&r)) {
      if (add->id == "Ann") return then(fail(errc::conflict, "the name is taken"));
      a.who.id = add->id;
      a.generation = 3;
      return then(a);
    }
    if (std::holds_alternative<admin_find_users>(r)) {
      profile other, p;
      other.id = "u_0";
      other.name = "ann2";
      p.id = "u_7";
      p.name = "ann";
      a.found = {other, p};
      return then(a);
    }
    if (const auto* s = std::get_if<admin_suspend>(&r); s != nullptr && s->user != "u_7")
      return then(fail(errc::not_found, "no such user"));
    a.code = "0123456789abcdef";
    then(a);
  };
  const auto made = ask_admin("POST", "/admin/tokens", R"({"user":"Ann","ttl_s":60})");
  EXPECT_EQ(made.status, 201);
  const auto doc = json::parse(made.body);
  EXPECT_EQ(doc["user"], "u_7");
  auth::jwt_checker check(services->token_secret, nullptr);
  EXPECT_EQ(check.check(doc["token"].get<std::string>())->generation, 3);
  EXPECT_EQ(json::parse(ask_admin("POST", "/admin/tokens", R"({"user":"bob"})").body)["user"],
            "bob");
  for (const char* bad : {"{}", R"({"user":5})", R"({"user":"a b"})", R"({"user":"x","ttl_s":0})",
                          R"({"user":"x","ttl_s":"1"})"})
    EXPECT_EQ(ask_admin("POST", "/admin/tokens", bad).status, 400) << bad;
  EXPECT_EQ(ask_admin("POST", "/admin/users/u_7/suspend", R"({"reason":"noise","until":5})").body,
            R"({"ok":true,"user":"u_7"})");
  EXPECT_EQ(ask_admin("POST", "/admin/users/u_7/unsuspend").status, 200);
  EXPECT_EQ(ask_admin("POST", "/admin/users/u_8/suspend", "{}").status, 404);
  EXPECT_EQ(ask_admin("POST", "/admin/users/u_7/password", R"({"password":"short"})").status, 400);
  EXPECT_EQ(ask_admin("POST", "/admin/invitations").body, R"({"invitation":"0123456789abcdef"})");
  EXPECT_EQ(ask_admin("POST", "/admin/invitations", R"({"uses":2})").status, 422);
}

TEST_F(HttpSession, HealthSaysWhatIsWrong) {
  start();
  client c = connect();
  c.send(get("/readyz"));
  EXPECT_EQ(c.next().status, 200);
  on_thread([&] { rt.why_not_ready = "the store cannot be written"; });
  c.send(get("/readyz"));
  auto a = c.next();
  EXPECT_EQ(a.status, 503);
  EXPECT_EQ(a.header("Retry-After"), "1");
  EXPECT_EQ(json::parse(a.body)["checks"]["storage"], "failing");
  on_thread([&] { rt.why_not_ready.reset(); });
  context->stopping = true;
  c.send(get("/readyz"));
  a = c.next();
  EXPECT_EQ(a.status, 503);
  EXPECT_EQ(json::parse(a.body)["checks"]["draining"], true);
  EXPECT_TRUE(c.ended());
}

}  // namespace
}  // namespace parley::net
