// The commands' way to a store: over the admin listener of the server that holds it, else by
// opening it here. Both answer the same requests, so a command is written once.
#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>

#include "actors/runtime.hpp"
#include "net/app/command.hpp"
#include "net/auth/jwt.hpp"
#include "net/auth/keys.hpp"
#include "net/http/services.hpp"
#include "schemas/wire/json_encode.hpp"

namespace parley::app {
namespace {

using clock = std::chrono::steady_clock;

struct descriptor {
  int fd = -1;
  ~descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

// Waits until the socket can be read or written; false when the time is over.
bool ready(int fd, short what, clock::time_point until) {
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - clock::now()).count();
    if (left <= 0) return false;
    pollfd p{fd, what, 0};
    const int n = ::poll(&p, 1, static_cast<int>(left));
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return false;
  }
}

// "127.0.0.1:8081" -> connected socket; -1 where nothing listens there.
int connect_to(const std::string& authority, clock::time_point until) {
  const auto parts = net::http::split_authority(authority);
  if (!parts) return -1;
  auto host = parts->first;
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  if (host == "0.0.0.0") host = "127.0.0.1";
  if (host == "::") host = "::1";
  addrinfo hints{}, *found = nullptr;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(host.c_str(), parts->second.c_str(), &hints, &found) != 0) return -1;
  int fd = ::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd >= 0) {
    const int begun = ::connect(fd, found->ai_addr, found->ai_addrlen);
    int error = 0;
    socklen_t size = sizeof error;
    const bool good =
        begun == 0 || (errno == EINPROGRESS && ready(fd, POLLOUT, until) &&
                       ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0);
    if (!good) {
      ::close(fd);
      fd = -1;
    }
  }
  ::freeaddrinfo(found);
  return fd;
}

class remote_door final : public admin_door {
 public:
  remote_door(std::string authority, std::string token)
      : authority_(std::move(authority)), token_(std::move(token)) {}

  result<admin_answer> call(std::string_view method, std::string_view path, std::string_view body,
                            std::int64_t timeout_ms) override {
    const auto until = clock::now() + std::chrono::milliseconds(timeout_ms);
    const auto lost = [&](const char* what) {
      return fail(errc::unavailable, std::string("the server at ") + authority_ + " " + what);
    };
    descriptor s{connect_to(authority_, until)};
    if (s.fd < 0) return lost("cannot be reached");
    std::string out(method);
    out.append(" ").append(path).append(" HTTP/1.1\r\nHost: ").append(authority_);
    out.append("\r\nAuthorization: Bearer ").append(token_).append("\r\nConnection: close\r\n");
    if (!body.empty()) out.append("Content-Type: application/json\r\n");
    out.append("Content-Length: ")
        .append(std::to_string(body.size()))
        .append("\r\n\r\n")
        .append(body);
    for (std::size_t sent = 0; sent < out.size();) {
      const auto n = ::send(s.fd, out.data() + sent, out.size() - sent, MSG_NOSIGNAL);
      if (n > 0)
        sent += static_cast<std::size_t>(n);
      else if (errno != EAGAIN && errno != EINTR)
        return lost("closed the connection");
      else if (!ready(s.fd, POLLOUT, until))
        return lost("does not answer");
    }
    std::string in;
    char piece[16384];
    while (in.size() < (64u << 20)) {
      const auto n = ::recv(s.fd, piece, sizeof piece, 0);
      if (n == 0) break;
      if (n > 0)
        in.append(piece, static_cast<std::size_t>(n));
      else if (errno != EAGAIN && errno != EINTR)
        return lost("closed the connection");
      else if (!ready(s.fd, POLLIN, until))
        return lost("does not answer");
    }
    // "HTTP/1.1 200 OK"; the body is what stands behind the head until the end of the connection.
    const auto head_end = in.find("\r\n\r\n");
    admin_answer a;
    if (head_end == std::string::npos || in.compare(0, 9, "HTTP/1.1 ") != 0)
      return lost("gave no HTTP answer");
    std::from_chars(in.data() + 9, in.data() + 12, a.status);
    a.body = in.substr(head_end + 4);
    return a;
  }

 private:
  std::string authority_, token_;
};

// The relays of a process without sockets: what would go to one goes nowhere, and a close is done
// at once.
class no_relay final : public relay {
 public:
  void post(relay_op op) override {
    if (auto* c = std::get_if<close_connection>(&op); c != nullptr && c->done) c->done();
  }
};

// One request that is waited for.
struct waiting final : net::http::responder::sink {
  std::mutex lock;
  std::condition_variable changed;
  std::optional<admin_answer> answer_;
  bool lost = false;

  void answer(net::http::response r) override {
    std::lock_guard hold(lock);
    if (!answer_ && !lost) answer_ = admin_answer{r.status, std::string(r.content())};
    changed.notify_all();
  }
  void abandon() override {
    std::lock_guard hold(lock);
    if (!answer_) lost = true;
    changed.notify_all();
  }
};

class local_door final : public admin_door {
 public:
  static result<std::unique_ptr<admin_door>> open(const config& c) {
    auto secrets = net::auth::load_or_make_secrets(c.storage.data);
    if (!secrets) return secrets.error();
    auto door = std::unique_ptr<local_door>(new local_door(c, std::move(*secrets)));
    runtime_options options;
    options.settings = door->context_.settings.get();
    options.counters = &door->counters_;
    options.tokens = &door->tokens_;
    options.relays = {&door->relay_};
    auto started = start_runtime(std::move(options));
    if (!started) return started.error();
    door->runtime_ = std::move(*started);
    door->context_.rt = door->runtime_.get();
    net::http::add_admin_routes(door->services_);
    return std::unique_ptr<admin_door>(std::move(door));
  }
  ~local_door() override {
    if (runtime_) {
      runtime_->drain(std::chrono::seconds(5));
      runtime_->stop(std::chrono::seconds(5));
    }
  }

  result<admin_answer> call(std::string_view method, std::string_view path, std::string_view body,
                            std::int64_t timeout_ms) override {
    net::http::request rq;
    rq.head.method = method;
    rq.head.target = path;
    rq.body = body;
    auto wait = std::make_shared<waiting>();
    net::http::dispatch(services_.admin, std::move(rq), net::http::responder(wait));
    std::unique_lock hold(wait->lock);
    wait->changed.wait_for(hold, std::chrono::milliseconds(timeout_ms),
                           [&] { return wait->answer_ || wait->lost; });
    if (!wait->answer_)
      return fail(errc::unavailable,
                  "the store did not answer in time; whether it was done is open");
    return *wait->answer_;
  }

 private:
  local_door(const config& c, net::auth::data_secrets secrets)
      : tokens_(secrets.token_secret, nullptr),
        context_(tokens_, counters_, std::make_shared<const config>(c)), services_(context_) {
    services_.token_secret = std::move(secrets.token_secret);
  }

  metrics counters_;
  no_relay relay_;
  net::auth::jwt_checker tokens_;
  net::server_context context_;
  net::http::services services_;
  std::unique_ptr<runtime> runtime_;
};

}  // namespace

result<std::unique_ptr<admin_door>> find_running_server(const config& c) {
  std::ifstream in(ports_file(c));
  std::string admin;
  for (std::string line; std::getline(in, line);)
    if (line.rfind("admin=", 0) == 0) admin = line.substr(6);
  if (admin.empty()) return std::unique_ptr<admin_door>();
  // The file of a server that was killed stays behind; then nothing listens there any more.
  const descriptor probe{connect_to(admin, clock::now() + std::chrono::seconds(2))};
  if (probe.fd < 0) return std::unique_ptr<admin_door>();
  auto token = net::auth::load_admin_token(c.storage.data);
  if (!token) return token.error();
  return std::unique_ptr<admin_door>(
      std::make_unique<remote_door>(std::move(admin), std::move(*token)));
}

result<std::unique_ptr<admin_door>> open_admin_door(const config& c) {
  auto running = find_running_server(c);
  if (!running || *running) return running;
  return local_door::open(c);
}

failure failure_of(const admin_answer& a) {
  const auto doc = nlohmann::json::parse(a.body, nullptr, false);
  const auto text = [&](const char* name) {
    return doc.is_object() && doc.contains(name) && doc[name].is_string()
               ? doc[name].get<std::string>()
               : std::string();
  };
  auto said = text("detail");
  if (said.empty()) said = text("title");
  if (said.empty()) said = "the server answered with status " + std::to_string(a.status);
  return fail(errc::internal, std::move(said));
}

}  // namespace parley::app
