#include "net/ws_connection.hpp"

#include <algorithm>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <limits>
#include <nlohmann/json.hpp>

#include "actors/runtime.hpp"
#include "net/connection.hpp"
#include "net/last_word.hpp"
#include "net/relay.hpp"
#include "net/ws_handshake.hpp"
#include "net/ws_layer.hpp"
#include "schemas/log.hpp"
#include "schemas/wire/json_decode.hpp"
#include "schemas/wire/json_encode.hpp"

namespace parley::net {

namespace {

namespace ws = boost::beast::websocket;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t ms_ns = 1'000'000;
constexpr std::int64_t second_ns = 1'000'000'000;
constexpr std::size_t reason_max = 123;  // RFC 6455 5.5: a control frame's 125 bytes less the code

const frame_ptr& ping_frame() {
  static const frame_ptr frame = std::make_shared<const std::string>("\x89\x00", 2);
  return frame;
}

/// Of close codes that an endpoint may not send, Beast takes 5000 and above as valid.
constexpr std::uint16_t last_valid_code = 4999;

/// Whether the frame is a hello that was ill-formed inside, which deserves an answer, and not
/// another first frame.
bool names_hello(std::string_view text) {
  const auto parsed = wire::parse_strict(text);
  if (!parsed || !parsed->is_object()) return false;
  const auto op = parsed->find("op");
  return op != parsed->end() && op->is_string() && op->get_ref<const std::string&>() == "hello";
}

void count_disconnect(metrics& m, int code) {
  const auto it = std::find(disconnect_codes.begin(), disconnect_codes.end(), code);
  if (it != disconnect_codes.end())
    m.disconnects[static_cast<std::size_t>(it - disconnect_codes.begin())].add();
}

/// Tokens that come back with time.
struct bucket {
  double level;
  std::int64_t at;
  bool take(double per_s, double burst, std::int64_t now) {
    level = std::min(burst, level + per_s * static_cast<double>(now - at) / 1e9);
    at = now;
    if (level < 1) return false;
    level -= 1;
    return true;
  }
};

class ws_connection final : public connection, ws_channel::reader {
 public:
  ws_connection(io_thread& io, std::shared_ptr<ws_channel> channel, handshake shake,
                std::string address)
      : io_(io), channel_(*channel), ws_(ws_layer(std::move(channel))),
        bearer_(std::move(shake.bearer)) {
    card_ = std::make_shared<session_card>();
    card_->address = std::move(address);
    card_->connected_at = io.server().now();
    const std::int64_t now = io.now();
    pings_ = {static_cast<double>(limits().pings_per_s), now};
    metrics& m = io.server().counters;
    m.connections_ws.add();
    m.connections_total.add();
  }
  ~ws_connection() override { io_.server().counters.connections_ws.add(-1); }

  void start(std::string_view raw_head, std::string leftover, std::string subprotocol);

  out_queue& out() override { return channel_; }
  void close(int code, std::string_view reason,
             std::optional<std::int64_t> retry_after_ms) override;
  void answered() override;
  std::int64_t on_due(std::int64_t now) override;
  void leave() override;
  void settings_changed() override;

 private:
  enum class phase : std::uint8_t { handshake, before_hello, open, ended };

  const parley::limits& limits() const { return io_.settings().limits; }
  std::shared_ptr<ws_connection> self() {
    return std::static_pointer_cast<ws_connection>(shared_from_this());
  }
  std::weak_ptr<ws_connection> weak() { return self(); }

  void read();
  void got(error_code ec, std::size_t n);
  void message(std::string_view text);
  void first(std::string_view text);
  void say(std::string text);
  void control(ws::frame_type kind);
  void ended();
  void schedule(std::int64_t at) { io_.sockets().schedule(*this, at); }
  std::int64_t beat(std::int64_t now);

  // out_queue::owner, ws_channel::reader
  void on_drained() override { io_.sockets().ran_empty(*this); }
  void on_sealed() override;
  void on_failed() override;
  void on_waiting() override { schedule(io_.sockets().clock() + limits().outgoing_age_ms * ms_ns); }
  void on_bytes() override;

  // The relay's slot holds the connection; handlers hold weak pointers, so that no cycle through
  // Beast's or the queue's suspended operations outlives the thread.
  io_thread& io_;
  ws_channel& channel_;
  ws::stream<ws_layer, false> ws_;
  std::string big_;     // a message that did not come in one piece
  std::string bearer_;  // of the handshake, until hello
  std::shared_ptr<session_card> card_;
  session_ref session_;
  std::int64_t hello_by_ = never;  // before_hello: when it closes
  std::int64_t opened_at_ = 0;     // when the message under way began
  std::int64_t next_ping_ = never, pinged_at_ = 0;
  bucket pings_{};
  std::int64_t in_flight_ = 0;
  std::uint32_t opened_message_ = 0;  // its number among the messages
  std::uint8_t silent_pings_ = 0;     // ours, since the last byte came
  phase phase_ = phase::handshake;
  bool closing_ = false, reading_ = false, paused_ = false, message_open_ = false;
  // A message longer than this takes a turn of the loop per piece; Beast reads ahead, so it costs
  // no system call.
  char small_[256];
};

void ws_connection::start(std::string_view raw_head, std::string leftover,
                          std::string subprotocol) {
  channel_.set_owner(this);
  channel_.listener = this;
  channel_.totals = &io_.sockets().totals();
  channel_.show_in(&card_->queued_bytes, &card_->queued_frames);
  show_entered_in(&card_->rooms_entered);
  settings_changed();
  // All time-outs are ours, by the thread's tick; Beast's would arm a timer for every read.
  ws_.set_option(ws::stream_base::timeout{ws::stream_base::none(), ws::stream_base::none(), false});
  ws_.set_option(ws::stream_base::decorator(
      [named = !subprotocol.empty(), &subprotocol](ws::response_type& answer) {
        answer.set(http::field::server,
                   "parley");  // erased, Beast would put its own name and version there
        if (named) answer.set(http::field::sec_websocket_protocol, subprotocol);
      }));
  // Beast posts before it calls this, so that it comes from the loop.
  ws_.control_callback([this](ws::frame_type kind, boost::beast::string_view) { control(kind); });

  auto parser = std::make_shared<http::request_parser<http::empty_body>>();
  parser->header_limit(16384);
  error_code ec;
  parser->put(boost::asio::buffer(raw_head.data(), raw_head.size()), ec);
  if (ec || !parser->is_header_done()) {
    channel_.abort();
    io_.sockets().remove(*this);
    return;
  }
  channel_.prefix = std::move(leftover);
  hello_by_ = io_.now() + limits().hello_timeout_ms * ms_ns;
  schedule(hello_by_);
  ws_.async_accept(parser->get(), [w = weak(), parser](error_code failed) {
    const auto self = w.lock();
    if (!self) return;
    if (failed) return self->ended();
    self->phase_ = phase::before_hello;
    self->read();
  });
  // The answer has been made; what the decorator refers to ends with this call.
  ws_.set_option(ws::stream_base::decorator([](ws::response_type&) {}));
}

void ws_connection::settings_changed() {
  const auto& l = limits();
  out_queue::bounds bounds;
  bounds.bytes = static_cast<std::size_t>(l.outgoing_bytes);
  bounds.frames = static_cast<std::size_t>(l.outgoing_frames);
  bounds.age_ns = l.outgoing_age_ms * ms_ns;
  channel_.set_bounds(bounds);
  channel_.unframed_max = static_cast<std::uint64_t>(2 * l.frame_bytes + 16384);
  ws_.read_message_max(static_cast<std::size_t>(l.frame_bytes));
}

// ---------------------------------------------------------------- inward

void ws_connection::read() {
  if (reading_ || phase_ == phase::ended) return;
  reading_ = true;
  ws_.async_read_some(boost::asio::buffer(small_), [w = weak()](error_code ec, std::size_t n) {
    if (const auto self = w.lock()) self->got(ec, n);
  });
}

void ws_connection::got(error_code ec, std::size_t n) {
  reading_ = false;
  io_.sockets().refresh_clock();
  if (ec) return ended();
  if (closing_) return read();  // the close under way still needs a reader
  if (ws_.got_binary()) {
    close(1003, "text frames only", std::nullopt);
  } else if (!ws_.is_message_done()) {
    big_.append(small_, n);
  } else if (big_.empty()) {
    message({small_, n});
  } else {
    big_.append(small_, n);
    const std::string whole = std::exchange(big_, {});
    message(whole);
  }
  if (phase_ == phase::open && !closing_ && in_flight_ >= limits().in_flight) {
    paused_ = true;  // the window is full: what the client sends waits in its own socket
    return;
  }
  read();
}

void ws_connection::on_bytes() {
  silent_pings_ = 0;
  const auto& scanner = channel_.scanner;
  if (!scanner.open()) {
    message_open_ = false;
  } else if (!message_open_ || opened_message_ != scanner.messages()) {
    message_open_ = true;
    opened_message_ = scanner.messages();
    opened_at_ = io_.now();
    schedule(opened_at_ + limits().message_ms * ms_ns);
  }
  if (scanner.most_fragments() > static_cast<std::uint64_t>(limits().fragments))
    close(1008, "a message of too many fragments", std::nullopt);
}

void ws_connection::control(ws::frame_type kind) {
  channel_.mark = channel_.bytes_in;
  ++io_.sockets().totals().frames_in;
  if (closing_) return;
  if (kind == ws::frame_type::close) {
    // Our close wins over the reply that Beast is about to write.
    if (ws_.reason().code > last_valid_code) close(1002, {}, std::nullopt);
    return;
  }
  // The answer to a ping of ours is expected; others, asked for by nobody, are paid for like pings.
  if (kind == ws::frame_type::pong && pinged_at_ != 0) {
    pinged_at_ = 0;
    return;
  }
  const auto rate = static_cast<double>(limits().pings_per_s);
  if (!pings_.take(rate, rate, io_.now())) close(1008, "too many control frames", std::nullopt);
}

void ws_connection::message(std::string_view text) {
  channel_.mark = channel_.bytes_in;
  ++io_.sockets().totals().frames_in;
  if (phase_ == phase::before_hello) return first(text);
  const std::int64_t begun = steady_ns();
  auto frame = wire::decode_frame(text);
  metrics& m = io_.server().counters;
  if (auto* why = std::get_if<failure>(&frame.body)) {
    m.bad_requests.add();
    return say(wire::error_frame(frame.id.empty() ? "null" : frame.id, *why));
  }
  auto& request = std::get<wire::request>(frame.body);
  if (std::holds_alternative<wire::hello>(request)) {
    m.bad_requests.add();
    return say(wire::error_frame(frame.id, fail(errc::bad_request, "hello was said already: op.")));
  }
  // Typing without an id has no answer, but its place in the window: it is given back by an empty
  // `deliver`.
  card_->in_flight.store(++in_flight_, std::memory_order_relaxed);
  io_.server().rt->submit(session_, std::move(frame.id), std::move(request), begun);
}

void ws_connection::first(std::string_view text) {
  auto frame = wire::decode_frame(text);
  if (auto* why = std::get_if<failure>(&frame.body)) {
    io_.server().counters.bad_requests.add();
    if (!names_hello(text)) return close(4001, "hello must be the first frame", std::nullopt);
    auto error = wire::make_frame(wire::error_frame(frame.id.empty() ? "null" : frame.id, *why));
    if (channel_.push(std::move(error)) == out_queue::sent::overflow)
      return close(4008, "reads too slowly", std::nullopt);
    return channel_.flush();
  }
  auto* hello = std::get_if<wire::hello>(&std::get<wire::request>(frame.body));
  if (!hello) return close(4001, "hello must be the first frame", std::nullopt);
  const std::string& token = hello->token ? *hello->token : bearer_;
  if (token.empty()) return close(4001, "hello needs a token", std::nullopt);
  auto who = io_.server().tokens.check(token);
  if (!who) return close(4001, who.error().message, std::nullopt);
  std::string().swap(bearer_);
  phase_ = phase::open;
  hello_by_ = never;
  card_->in_flight.store(++in_flight_, std::memory_order_relaxed);
  // Spread evenly: consecutive slots land far from each other (the golden ratio's multiplicative
  // hash).
  const double phase_of =
      static_cast<double>(static_cast<std::uint32_t>(id().slot * 2654435769u)) / 4294967296.0;
  const auto interval = static_cast<double>(limits().ping_interval_s * second_ns);
  next_ping_ = io_.now() + static_cast<std::int64_t>(interval * (1.0 - phase_of));
  schedule(next_ping_);
  session_ = io_.server().rt->open_session(id(), card_, std::move(*who), std::move(frame.id),
                                           std::move(*hello));
}

void ws_connection::say(std::string text) { io_.sockets().give(*this, wire::make_frame(text)); }

void ws_connection::answered() {
  if (in_flight_ > 0) card_->in_flight.store(--in_flight_, std::memory_order_relaxed);
  if (!paused_ || in_flight_ >= limits().in_flight) return;
  paused_ = false;
  // What the client sent meanwhile has not been read, so its silence says nothing, and its message
  // was not slow.
  silent_pings_ = 0;
  opened_at_ = io_.now();
  if (message_open_) schedule(opened_at_ + limits().message_ms * ms_ns);
  read();
}

// ---------------------------------------------------------------- time

std::int64_t ws_connection::on_due(std::int64_t now) {
  if (phase_ == phase::ended) return never;
  if (channel_.failed()) return never;
  if (channel_.sealed()) return channel_.tick(now);
  if (phase_ == phase::handshake || phase_ == phase::before_hello) {
    if (now >= hello_by_) {
      close(4001, "no hello in time", std::nullopt);
      return closing_ && !channel_.failed() ? now : never;
    }
    return hello_by_;
  }
  std::int64_t next = channel_.overdue_at();
  if (now >= next) {
    close(4008, "reads too slowly", std::nullopt);
    return now;
  }
  if (!channel_.empty()) next = std::min(next, now + second_ns);  // a replay's page stands first
  if (message_open_ && !paused_) {
    const std::int64_t by = opened_at_ + limits().message_ms * ms_ns;
    if (now >= by) {
      close(1008, "a message that takes too long", std::nullopt);
      return now;
    }
    next = std::min(next, by);
  }
  return std::min(next, beat(now));
}

std::int64_t ws_connection::beat(std::int64_t now) {
  const auto& l = limits();
  if (silent_pings_ >= 2) {
    const std::int64_t dead =
        std::max(pinged_at_, io_.sockets().late_at()) + l.ping_timeout_s * second_ns;
    if (paused_) {
      silent_pings_ = 0;
    } else if (now >= dead) {
      close(4009, "heart-beat missed", std::nullopt);
      return now;
    } else {
      return dead;
    }
  }
  if (now < next_ping_) return next_ping_;
  next_ping_ = now + l.ping_interval_s * second_ns;
  if (paused_) return next_ping_;  // it rests while we do not read
  ++silent_pings_;
  pinged_at_ = now;
  channel_.push(ping_frame());
  channel_.flush();
  return silent_pings_ >= 2 ? std::min(next_ping_, now + l.ping_timeout_s * second_ns) : next_ping_;
}

// ---------------------------------------------------------------- ends

void ws_connection::close(int code, std::string_view reason,
                          std::optional<std::int64_t> retry_after_ms) {
  if (closing_ || phase_ == phase::ended) return;
  closing_ = true;
  if (phase_ == phase::handshake) return channel_.abort();
  // No `bye` where the peer has broken the framing: it has said its close, or cannot be trusted to
  // read.
  channel_.stop(code == 1002 ? nullptr
                             : wire::make_frame(wire::bye_frame(code, reason, retry_after_ms)));
  paused_ = false;
  std::size_t length = std::min(reason.size(), reason_max);
  while (length > 0 && length < reason.size() &&
         (static_cast<unsigned char>(reason[length]) & 0xc0) == 0x80)
    --length;
  ws_.async_close(
      {static_cast<ws::close_code>(code), boost::beast::string_view(reason.data(), length)},
      [](error_code) {});
  read();  // a close needs a reader; behind it, since Beast may find a framing error in what it has
           // read already
  channel_.flush();
  schedule(io_.now());
  leave();
}

void ws_connection::leave() {
  if (auto session = std::exchange(session_, nullptr)) io_.server().rt->closed(session);
  io_.sockets().detach(*this);
}

void ws_connection::on_sealed() {
  if (phase_ == phase::ended) return;
  closing_ = true;
  count_disconnect(io_.server().counters, channel_.close_code());
  schedule(io_.sockets().clock());
  io_.sockets().leave_later(*this);
}

void ws_connection::on_failed() {
  // A pending read would end by itself, but there may be none: the window is full, or a framing
  // error came behind our close, where Beast's read and close wait for each other for ever.
  boost::asio::post(io_.context(), [w = weak()] {
    if (const auto self = w.lock()) self->ended();
  });
}

void ws_connection::ended() {
  if (phase_ == phase::ended) return;
  const auto hold = self();
  phase_ = phase::ended;
  channel_.abort();  // does nothing where the socket has been closed in order
  leave();
  io_.sockets().remove(*this);
}

}  // namespace

void accept_websocket(io_thread& io, tcp_socket socket, upgrade_request request,
                      std::string leftover) {
  server_context& server = io.server();
  std::string local;
  error_code ec;
  if (const auto here = socket.local_endpoint(ec); !ec) {
    const auto host = here.address().to_string();
    local = (here.address().is_v6() ? "[" + host + "]" : host) + ":" + std::to_string(here.port());
  }
  const auto refuse = [&](const failure& why, const std::string& extra) {
    server.counters.handshakes_refused.add();
    say_and_close(io, std::move(socket), refusal(why, extra));
  };
  if (server.stopping.load(std::memory_order_relaxed) || io.sockets().closing_all() || !server.rt)
    return refuse({errc::unavailable, "The server is stopping.", 1000, 503}, {});
  auto verdict = check_handshake(request.raw_head, local, io.origins());
  if (verdict.refused) return refuse(verdict.refused->why, verdict.refused->extra);

  io.sockets().refresh_clock();
  auto channel =
      std::make_shared<ws_channel>(std::move(socket), io.sockets().clock(), io.sockets().totals());
  std::string subprotocol = verdict.accepted->subprotocol;
  auto connection = std::make_shared<ws_connection>(
      io, std::move(channel), std::move(*verdict.accepted), std::move(request.address));
  io.sockets().add(connection);
  connection->start(request.raw_head, std::move(leftover), std::move(subprotocol));
}

}  // namespace parley::net
