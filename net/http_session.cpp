// See http_session.hpp. One object per socket, on its I/O thread alone; it lives as long as an
// operation or a deadline of its own is pending. Safe requests may be pipelined up to
// limits.http_in_flight; one with a body or with an effect waits for those before it and holds back
// those behind it. Answers leave in the order of the requests.
#include "net/http_session.hpp"

#include <sys/socket.h>

#include <array>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <deque>
#include <limits>
#include <memory>
#include <vector>

#include "net/address.hpp"
#include "net/http/services.hpp"
#include "net/http_gate.hpp"
#include "net/ws_connection.hpp"
#include "net/ws_handshake.hpp"
#include "schemas/log.hpp"

namespace parley::net {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using timer_type =
    asio::basic_waitable_timer<std::chrono::steady_clock,
                               asio::wait_traits<std::chrono::steady_clock>, io_executor>;

constexpr std::int64_t ms = 1'000'000;         // in nanoseconds
constexpr std::int64_t idle_ns = 60'000 * ms;  // a kept-alive connection without a request
constexpr std::int64_t answer_ns =
    70'000 * ms;  // protocol.md: a commit's outcome is known within 60 s, or never told
constexpr std::int64_t linger_ns =
    1'000 * ms;  // how long a closed side is read, so that no reset eats the answer
constexpr std::size_t linger_bytes = 1 << 20;
constexpr std::size_t in_max = 65536;  // unparsed bytes held; beyond it the socket is not read

std::string_view date_now(unix_ms now) {
  thread_local std::int64_t second = -1;
  thread_local std::string text;
  if (now / 1000 != second) {
    second = now / 1000;
    text = http::http_date(second);
  }
  return text;
}

class session;

// One request on its way: its answer may come from any thread.
struct slot final : http::responder::sink, std::enable_shared_from_this<slot> {
  slot(io_executor e, std::weak_ptr<session> s) : executor(e), owner(std::move(s)) {}
  void answer(http::response r) override;
  void abandon() override;

  const io_executor executor;
  const std::weak_ptr<session> owner;
  std::atomic<bool> answered{false};
  // Below: the I/O thread alone.
  bool done = false, lost = false, head_only = false, keep_alive = true, old = false;
  std::int64_t begun = 0;
  http::response what;
};

class session final : public std::enable_shared_from_this<session> {
 public:
  session(io_thread& io, tcp_socket socket, std::string peer, bool admin)
      : io_(io), socket_(std::move(socket)), timer_(io.executor()), peer_(std::move(peer)),
        admin_(admin) {
    counters().connections_http.add();
  }
  ~session() {
    counters().connections_http.add(-1);
    if (!handed_over_) counters().connections_total.add();  // a WebSocket counts itself
  }
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  void start() {
    error_code ignored;
    socket_.non_blocking(true, ignored);
    since_ = now();
    const auto local = socket_.local_endpoint(ignored);
    if (!ignored) {
      local_ = local.address().to_string();
      local_authority_ = (local.address().is_v6() ? "[" + local_ + "]" : local_) + ":" +
                         std::to_string(local.port());
    }
    go_on();
  }

  // An answer has come (or will never come) for one of the slots.
  void settled() { pump(); }

 private:
  enum class at : std::uint8_t { head, held, body, closing, lingering, gone };
  struct outgoing {
    std::string head, body;
    std::string_view packed;
  };

  metrics& counters() { return io_.server().counters; }
  http::services& services() { return *io_.server().http; }
  const limits& bounds() { return io_.settings().limits; }
  std::int64_t now() const { return steady_ns(); }

  // ---- in

  void read() {
    if (reading_ || eof_ || at_ == at::gone || (at_ != at::lingering && in_.size() >= in_max))
      return;
    reading_ = true;
    socket_.async_wait(tcp_socket::wait_read, [self = shared_from_this()](error_code why) {
      self->reading_ = false;
      self->readable(why);
    });
  }

  void readable(error_code why) {
    if (at_ == at::gone) return;
    if (why) return end();
    // A buffer per thread and not per connection: an idle connection costs no memory.
    thread_local std::array<char, 16384> piece;
    const auto n = socket_.read_some(asio::buffer(piece), why);
    if (why == asio::error::would_block || why == asio::error::try_again) return go_on();
    if (why && why != asio::error::eof) return end();
    if (at_ == at::lingering) {
      lingered_ += n;
      if (why || lingered_ > linger_bytes) return end();
      return go_on();
    }
    counters().bytes_in.add(static_cast<std::int64_t>(n));
    if (why) eof_ = true;
    if (n > 0 && in_.empty() && at_ == at::head && requests_ > 0) since_ = now();
    if (at_ != at::closing) in_.append(piece.data(), n);
    pump();
  }

  // Parses and answers as far as possible without waiting. Answers given meanwhile only mark their
  // slot.
  void pump() {
    if (pumping_ || at_ == at::gone) return;
    pumping_ = true;
    while (step()) {
    }
    pumping_ = false;
    if (at_ == at::gone) return;
    flush();
    go_on();
  }

  // One step; false where it needs bytes, an answer or nothing any more.
  bool step() {
    take_answers();
    if (at_ == at::gone) return false;
    switch (at_) {
    case at::head:
      return step_head();
    case at::held:
      return step_held();
    case at::body:
      return step_body();
    default:
      return false;
    }
  }

  bool step_head() {
    if (barrier_ || slots_.size() >= static_cast<std::size_t>(bounds().http_in_flight))
      return false;
    if (in_.empty()) {
      if (eof_ && slots_.empty() && out_.empty() && !writing_) end();
      return false;
    }
    auto seen = http::examine_head(in_, checked_);
    if (std::holds_alternative<http::need_more>(seen)) {
      if (eof_)
        refuse(failure{errc::bad_request, "the request ends within its head", std::nullopt, 400});
      return false;
    }
    if (auto* bad = std::get_if<failure>(&seen)) {
      refuse(*bad);
      return false;
    }
    auto& whole = std::get<http::gate_head>(seen);
    ++requests_;
    head_ = std::move(whole.head);
    const auto path = std::string_view(head_.target).substr(0, head_.target.find('?'));
    websocket_ = !admin_ && path == "/ws";
    if (websocket_) raw_head_ = in_.substr(in_.compare(0, 2, "\r\n") == 0 ? 2 : 0, whole.size);
    if (websocket_ && in_.compare(0, 2, "\r\n") == 0) raw_head_.resize(whole.size - 2);
    in_.erase(0, whole.size);
    checked_ = 0;
    body_.clear();
    if (auto bad = look_at_head()) {
      refuse(*bad);
      return false;
    }
    at_ = at::held;
    return true;
  }

  // What is refused from the head alone; the body is not read then, so the connection ends.
  std::optional<failure> look_at_head() {
    if (!head_.authority.empty() &&
        !http::is_own_authority(head_.authority, listen(), local_, public_url()))
      return failure{errc::bad_request, "this server does not serve the host of the target",
                     std::nullopt, 421};
    std::vector<std::string_view> forwarded;
    for (const auto& [name, value] : head_.fields)
      if (name == "x-forwarded-for") forwarded.push_back(value);
    address_ = forwarded.empty() ? peer_ : io_.proxies().client_of(peer_, forwarded);
    if (address_ != peer_ && !socket_.ticket.move_to(address_)) {
      counters().rejected_rate_limited.add();
      return failure{errc::rate_limited, "too many connections from this address", 1000};
    }
    if (websocket_ || !head_.has_body()) return std::nullopt;
    if (head_.content_length.value_or(0) > static_cast<std::uint64_t>(bounds().body_bytes))
      return failure{errc::too_large,
                     "the body is over " + std::to_string(bounds().body_bytes) + " bytes",
                     std::nullopt, 413};
    const auto* type = head_.find("content-type");
    if (type == nullptr || !is_json(*type))
      return failure{errc::bad_request, "the body must be application/json", std::nullopt, 415};
    return std::nullopt;
  }

  static bool is_json(std::string_view type) {
    std::string low;
    for (const char c : type)
      if (c != ' ' && c != '\t' && c != '"')
        low.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
    const auto semicolon = low.find(';');
    if (low.substr(0, semicolon) != "application/json") return false;
    return semicolon == std::string::npos || low.substr(semicolon) == ";" ||
           low.substr(semicolon) == ";charset=utf-8";
  }

  bool step_held() {
    const bool safe = head_.method == "GET" || head_.method == "HEAD" || head_.method == "OPTIONS";
    const bool alone = websocket_ || head_.has_body() || !safe;
    if (alone && !slots_.empty()) return false;
    if (websocket_) {
      if (!out_.empty() || writing_) return false;
      hand_over();
      return false;
    }
    barrier_next_ = alone;
    if (!head_.has_body()) {
      run();
      return true;
    }
    if (head_.expect_continue) out_.push_back({"HTTP/1.1 100 Continue\r\n\r\n", {}, {}});
    decoder_ = http::chunk_decoder(static_cast<std::size_t>(bounds().body_bytes));
    body_since_ = now();
    at_ = at::body;
    return true;
  }

  bool step_body() {
    if (head_.chunked) {
      std::size_t used = 0;
      const auto state = decoder_.feed(in_, body_, used);
      in_.erase(0, used);
      using enum http::chunk_decoder::state;
      if (state == done) {
        run();
        return true;
      }
      if (state == bad)
        refuse(
            failure{errc::bad_request, "the chunked body is not well-formed", std::nullopt, 400});
      else if (state == too_large)
        refuse(failure{errc::too_large,
                       "the body is over " + std::to_string(bounds().body_bytes) + " bytes",
                       std::nullopt, 413});
      else if (eof_)
        end();
      return false;
    }
    const auto missing = static_cast<std::size_t>(*head_.content_length) - body_.size();
    const auto n = std::min(missing, in_.size());
    body_.append(in_, 0, n);
    in_.erase(0, n);
    if (n == missing) {
      run();
      return true;
    }
    if (eof_) end();
    return false;
  }

  std::shared_ptr<slot> add_slot() {
    auto s = std::make_shared<slot>(io_.executor(), weak_from_this());
    s->begun = now();
    slots_.push_back(s);
    return s;
  }

  // The request is whole: run its handler.
  void run() {
    auto s = add_slot();
    s->head_only = head_.method == "HEAD";
    s->keep_alive = head_.keep_alive;
    s->old = head_.minor == 0;
    if (!head_.keep_alive)
      at_ = at::closing;
    else
      at_ = at::head;
    barrier_ = barrier_next_;
    since_ = now();
    http::request rq;
    rq.head = std::move(head_);
    rq.body = std::move(body_);
    rq.address = address_;
    rq.local_address = local_;
    head_ = {};
    body_ = {};
    http::responder out(s);
    try {
      if (admin_) return http::serve_admin(services(), std::move(rq), out);
      // A page of another origin may change nothing in anybody's name (there is no CORS either).
      const auto* origin = rq.head.find("origin");
      if (barrier_next_ && origin != nullptr && !io_.origins().allows(*origin, local_authority_))
        return out(fail(
            errc::forbidden,
            "this Origin may not ask; server.public_url and server.allowed_origins say which may"));
      http::dispatch(services().main, std::move(rq), out);
    } catch (const std::exception& e) {
      // A defect of a handler must not take the process with it.
      log::error("http", "a handler threw", {{"what", e.what()}});
      out(fail(errc::internal, "the server made an error"));
    }
  }

  // Answers a request that cannot be read to its end, and ends the connection behind it.
  void refuse(const failure& why) {
    auto s = add_slot();
    s->answered = true;
    s->done = true;
    s->what = http::problem(why);
    s->keep_alive = false;
    at_ = at::closing;
    in_.clear();
    take_answers();
  }

  void hand_over() {
    handed_over_ = true;
    at_ = at::gone;
    error_code ignored;
    socket_.cancel(ignored);
    timer_.cancel();
    upgrade_request rq{std::move(raw_head_), address_};
    accept_websocket(io_, std::move(socket_), std::move(rq), std::move(in_));
  }

  // ---- out

  // Moves the answers that are due, in order, to the output.
  void take_answers() {
    while (!slots_.empty() && slots_.front()->done) {
      auto s = std::move(slots_.front());
      slots_.pop_front();
      if (slots_.empty()) {
        barrier_ = false;
        since_ = now();  // a next head that came meanwhile has its full time from here on
      }
      if (s->lost) return end();
      const bool keep =
          s->keep_alive && !s->what.close && !io_.server().stopping.load(std::memory_order_relaxed);
      if (keep && s->old) s->what.headers.emplace_back("Connection", "keep-alive");
      outgoing o;
      o.head = http::response_head(s->what, keep, date_now(io_.server().now()));
      if (!s->head_only && s->what.status != 204 && s->what.status != 304) {
        o.body = std::move(s->what.body);
        o.packed = s->what.packed;
      }
      out_.push_back(std::move(o));
      counters().http_seconds.observe_ns(now() - s->begun);
      const auto hundred = static_cast<std::size_t>(s->what.status / 100);
      if (hundred < counters().http_status.size()) counters().http_status[hundred].add();
      if (s->what.status == 400) counters().bad_requests.add();
      if (!keep) {
        // Nothing behind it will be answered.
        at_ = at::closing;
        slots_.clear();
        in_.clear();
      }
    }
  }

  void flush() {
    if (writing_ || out_.empty() || at_ == at::gone) return;
    std::vector<asio::const_buffer> buffers;
    for (const auto& o : out_) {
      buffers.push_back(asio::buffer(o.head));
      if (o.packed.data() != nullptr)
        buffers.push_back(asio::buffer(o.packed.data(), o.packed.size()));
      else if (!o.body.empty())
        buffers.push_back(asio::buffer(o.body));
    }
    writing_ = true;
    write_since_ = now();
    // A deque's elements stay where they are when others are added behind.
    asio::async_write(
        socket_, buffers,
        [self = shared_from_this(), count = out_.size()](error_code why, std::size_t n) {
          self->writing_ = false;
          if (self->at_ == at::gone) return;
          if (why) return self->end();
          self->counters().bytes_out.add(static_cast<std::int64_t>(n));
          self->out_.erase(self->out_.begin(),
                           self->out_.begin() + static_cast<std::ptrdiff_t>(count));
          self->pump();
        });
  }

  void go_on() {
    if (at_ == at::gone) return;
    if (at_ == at::closing && slots_.empty() && out_.empty() && !writing_) {
      // Our side is said; what the peer still sends is read away, since a reset could overtake the
      // answer.
      if (eof_) return end();
      at_ = at::lingering;
      since_ = now();
      error_code ignored;
      socket_.shutdown(tcp_socket::shutdown_send, ignored);
    }
    read();
    arm();
  }

  void end() {
    if (at_ == at::gone) return;
    at_ = at::gone;
    slots_.clear();
    error_code ignored;
    socket_.close(ignored);
    timer_.cancel();
  }

  // ---- deadlines

  std::int64_t deadline() {
    std::int64_t until = std::numeric_limits<std::int64_t>::max();
    const auto no_later = [&](std::int64_t t) { until = std::min(until, t); };
    if (writing_) no_later(write_since_ + bounds().body_timeout_ms * ms);
    if (!slots_.empty()) no_later(slots_.front()->begun + answer_ns);
    if (at_ == at::body) no_later(body_since_ + bounds().body_timeout_ms * ms);
    if (at_ == at::lingering) no_later(since_ + linger_ns);
    if (at_ == at::head && slots_.empty() && !writing_)
      no_later(since_ + (requests_ == 0 || !in_.empty() ? bounds().head_timeout_ms * ms : idle_ns));
    return until;
  }

  void arm() {
    const auto until = deadline();
    if (until == std::numeric_limits<std::int64_t>::max() || (armed_ && armed_until_ <= until))
      return;
    armed_ = true;
    armed_until_ = until;
    timer_.expires_at(std::chrono::steady_clock::time_point(std::chrono::nanoseconds(until)));
    timer_.async_wait([self = shared_from_this()](error_code why) {
      if (why || self->at_ == at::gone) return;
      self->armed_ = false;
      self->timed_out();
    });
  }

  // Bytes that have arrived and were not announced yet; false where there are none.
  bool take_what_is_there() {
    if (eof_ || (at_ != at::head && at_ != at::body) || in_.size() >= in_max) return false;
    thread_local std::array<char, 16384> piece;
    error_code why;
    const auto n = socket_.read_some(asio::buffer(piece), why);
    if (why || n == 0) return false;  // an end or an error is told by the read that waits
    counters().bytes_in.add(static_cast<std::int64_t>(n));
    if (in_.empty() && at_ == at::head && requests_ > 0) since_ = now();
    in_.append(piece.data(), n);
    return true;
  }

  void timed_out() {
    if (now() < deadline()) return arm();
    // Where this thread was held up, what came in time may still lie in the kernel: it counts.
    if (take_what_is_there()) {
      pump();
      if (at_ == at::gone || now() < deadline()) return;
    }
    const bool quiet =
        at_ == at::lingering || writing_ || !slots_.empty() || (at_ == at::head && in_.empty());
    if (quiet) return end();
    refuse(failure{errc::bad_request, "the request did not come to its end in time", std::nullopt,
                   408});
    flush();
    go_on();
  }

  std::string_view listen() {
    return admin_ ? std::string_view(services().admin_authority)
                  : std::string_view(io_.server().listen_authority);
  }
  std::string_view public_url() {
    return admin_ ? std::string_view() : std::string_view(io_.settings().server.public_url);
  }

  io_thread& io_;
  tcp_socket socket_;
  timer_type timer_;
  const std::string peer_;
  std::string local_, local_authority_, address_;
  const bool admin_;

  at at_ = at::head;
  bool reading_ = false, writing_ = false, eof_ = false, pumping_ = false, armed_ = false;
  bool websocket_ = false, handed_over_ = false, barrier_ = false, barrier_next_ = false;
  std::int64_t since_ = 0, body_since_ = 0, write_since_ = 0, armed_until_ = 0;
  std::size_t checked_ = 0, lingered_ = 0;
  std::uint64_t requests_ = 0;
  std::string in_, raw_head_, body_;
  http::request_head head_;
  http::chunk_decoder decoder_{0};
  std::deque<std::shared_ptr<slot>> slots_;
  std::deque<outgoing> out_;
};

void slot::answer(http::response r) {
  if (answered.exchange(true)) return;
  asio::dispatch(executor, [self = shared_from_this(), r = std::move(r)]() mutable {
    self->what = std::move(r);
    self->done = true;
    if (auto s = self->owner.lock()) s->settled();
  });
}

void slot::abandon() {
  if (answered.exchange(true)) return;
  asio::dispatch(executor, [self = shared_from_this()] {
    self->done = self->lost = true;
    if (auto s = self->owner.lock()) s->settled();
  });
}

}  // namespace

void start_http(io_thread& io, tcp_socket socket, std::string peer_address, bool admin) {
  std::make_shared<session>(io, std::move(socket), std::move(peer_address), admin)->start();
}

}  // namespace parley::net
