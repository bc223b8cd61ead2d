// Threads, sockets and stamps of the measuring client. See engine.hpp.
#include "client/engine.hpp"

#include <linux/errqueue.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "client/json_scan.hpp"

namespace parley::bench {

namespace {
constexpr std::size_t turn_events = 256;
constexpr std::size_t read_size = 16384;
constexpr std::uint64_t wake_tag = ~std::uint64_t{0};
constexpr std::size_t pending_bound = 8U << 20U;  // bytes a connection may hold back
constexpr std::size_t noted_errors = 50;
constexpr std::size_t replies_bound = 1'000'000;
enum class Stage : std::uint8_t { idle, connecting, upgrading, opening, ready, closed };
}  // namespace

struct Engine::Session {
  std::uint32_t index = 0;
  Receiver* receiver = nullptr;
  std::mutex lock;  // guards fd against the writers, and pending
  Fd fd;
  std::string pending;  // what the socket did not take yet
  std::atomic<Stage> stage{Stage::idle};
  std::atomic<bool> ending{false};  // we close it: its end is no fault
  nanos last_read = 0;              // of its receiver only
  std::string key;
  std::string head;
  FrameReader reader{false, 4U << 20U};
  std::atomic<std::uint64_t> last_seq{0};
};

struct Engine::Receiver {
  Fd epoll;
  Fd wake;
  std::thread thread;
  std::vector<Delivery> deliveries;
  std::vector<Ack> acks;
  std::vector<Ack> read_acks;
  std::vector<UnreadNotice> unread;
  std::vector<std::uint32_t> lags;
  std::vector<std::string> errors;
  std::mutex cut_lock;
  std::vector<std::uint32_t> cuts;
  std::vector<Reply> replies;  // gathered in one turn, then handed over at once
  std::uint64_t refusals = 0;
  std::uint64_t broken = 0;
  std::uint64_t bytes = 0;
  std::uint64_t frames = 0;
  std::atomic<std::uint64_t> delivered{0};
  std::atomic<std::uint64_t> acked{0};
  std::atomic<std::uint64_t> reads_acked{0};
  nanos cpu = 0;
  ParsedFrame parsed;
};

Engine::Engine(Endpoint server, std::shared_ptr<const Protocol> protocol,
               std::vector<std::string> rooms, std::vector<SessionPlan> sessions,
               EngineOptions options)
    : server_(std::move(server)), protocol_(std::move(protocol)), rooms_(std::move(rooms)),
      plans_(std::move(sessions)), options_(options) {
  for (std::uint32_t i = 0; i < rooms_.size(); ++i)
    room_of_[rooms_[i]] = i;
  times_.resize(plans_.size());
  credits_.resize(plans_.size());
  for (std::size_t i = 0; i < std::max<std::size_t>(1, options_.receivers); ++i) {
    auto r = std::make_unique<Receiver>();
    r->epoll = Fd(::epoll_create1(EPOLL_CLOEXEC));
    r->wake = Fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    epoll_event e{};
    e.events = EPOLLIN;
    e.data.u64 = wake_tag;
    ::epoll_ctl(r->epoll.get(), EPOLL_CTL_ADD, r->wake.get(), &e);
    // Pages are touched now, not while latency is measured.
    r->deliveries.resize(65536);
    r->deliveries.clear();
    r->lags.resize(65536);
    r->lags.clear();
    r->acks.reserve(4096);
    receivers_.push_back(std::move(r));
  }
  for (std::uint32_t i = 0; i < plans_.size(); ++i) {
    auto s = std::make_unique<Session>();
    s->index = i;
    s->receiver = receivers_[i % receivers_.size()].get();
    sessions_.push_back(std::move(s));
  }
  for (auto& r : receivers_)
    r->thread = std::thread([this, &r] { receive_loop(*r); });
  replier_ = std::thread([this] { reply_loop(); });
}

Engine::~Engine() { finish(); }

std::uint32_t Engine::room_index(std::string_view id) const {
  const auto at = room_of_.find(id);
  return at == room_of_.end() ? no_room : at->second;
}

void Engine::watch(Session& s, bool writable) {
  epoll_event e{};
  e.events = EPOLLIN | (writable ? static_cast<std::uint32_t>(EPOLLOUT) : 0U);
  e.data.u64 = s.index;
  ::epoll_ctl(s.receiver->epoll.get(), EPOLL_CTL_MOD, s.fd.get(), &e);
}

void Engine::start_dial(std::uint32_t index) {
  Session& s = *sessions_[index];
  const std::lock_guard guard(s.lock);
  s.key = random_key();
  s.head.clear();
  s.pending.clear();
  s.reader = FrameReader(false, 4U << 20U);
  s.ending = false;
  times_[index] = {};
  times_[index].dialled = now();
  s.fd = dial_async(server_);
  const int on = 1;
  ::setsockopt(s.fd.get(), SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
  s.stage = Stage::connecting;
  epoll_event e{};
  e.events = EPOLLOUT;
  e.data.u64 = index;
  ::epoll_ctl(s.receiver->epoll.get(), EPOLL_CTL_ADD, s.fd.get(), &e);
}

void Engine::dial_all(const std::vector<std::uint32_t>& sessions, nanos timeout) {
  const nanos deadline = now() + timeout;
  ready_ = 0;
  std::size_t dialled = 0;
  while (ready_.load() < sessions.size()) {
    while (dialled < sessions.size() && dialled - ready_.load() < options_.connect_window)
      start_dial(sessions[dialled++]);
    {
      const std::lock_guard guard(failure_lock_);
      if (!failure_.empty()) throw Failure(failure_);
    }
    if (now() > deadline)
      throw Failure(std::to_string(sessions.size() - ready_.load()) + " of " +
                    std::to_string(sessions.size()) + " sessions were not ready within " +
                    std::to_string(timeout / sec) + " s");
    sleep_until(now() + 200 * us);
  }
}

void Engine::open(nanos timeout) {
  std::vector<std::uint32_t> all(plans_.size());
  for (std::uint32_t i = 0; i < all.size(); ++i)
    all[i] = i;
  dial_all(all, timeout);
}

void Engine::cut(const std::vector<std::uint32_t>& sessions) {
  // The receiving threads do it, since they alone may close what they read from.
  for (auto& r : receivers_) {
    {
      const std::lock_guard guard(r->cut_lock);
      for (const auto i : sessions)
        if (sessions_[i]->receiver == r.get()) r->cuts.push_back(i);
    }
    const std::uint64_t one = 1;
    if (::write(r->wake.get(), &one, sizeof one) < 0)
      throw Failure("cannot wake a receiving thread");
  }
  const nanos deadline = now() + 10 * sec;
  for (const auto i : sessions)
    while (sessions_[i]->stage != Stage::closed) {
      if (now() > deadline) throw Failure("sessions could not be cut within 10 s");
      sleep_until(now() + 100 * us);
    }
}

void Engine::run_cuts(Receiver& r) {
  std::uint64_t times = 0;
  if (::read(r.wake.get(), &times, sizeof times) < 0) return;
  std::vector<std::uint32_t> mine;
  {
    const std::lock_guard guard(r.cut_lock);
    mine.swap(r.cuts);
  }
  for (const auto i : mine) {
    Session& s = *sessions_[i];
    s.ending = true;
    const linger reset{1, 0};
    ::setsockopt(s.fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    on_end(r, s, {});
  }
}

void Engine::reopen(const std::vector<std::uint32_t>& sessions, nanos timeout) {
  for (const auto i : sessions)
    plans_[i].resume_after = sessions_[i]->last_seq.load();
  dial_all(sessions, timeout);
}

bool Engine::write(Session& s, std::string_view bytes) {
  const std::lock_guard guard(s.lock);
  if (!s.fd || s.stage == Stage::closed) return false;
  std::size_t done = 0;
  if (s.pending.empty()) {
    const ssize_t n = ::send(s.fd.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0)
      done = static_cast<std::size_t>(n);
    else if (errno != EAGAIN && errno != EINTR)
      return false;
    if (done == bytes.size()) return true;
  }
  backlogged_.fetch_add(1);
  if (s.pending.size() + bytes.size() > pending_bound) return false;
  s.pending.append(bytes.substr(done));
  watch(s, true);
  return true;
}

void Engine::flush(Session& s) {
  const std::lock_guard guard(s.lock);
  if (!s.fd) return;
  while (!s.pending.empty()) {
    const ssize_t n =
        ::send(s.fd.get(), s.pending.data(), s.pending.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n <= 0) return;
    s.pending.erase(0, static_cast<std::size_t>(n));
  }
  watch(s, false);
}

void Engine::note(Receiver& r, std::string text) {
  if (r.errors.size() < noted_errors) r.errors.push_back(std::move(text));
}

void Engine::on_end(Receiver& r, Session& s, std::string why) {
  Stage before = Stage::closed;
  {
    // In one step: whoever sees `closed` may dial this session again.
    const std::lock_guard guard(s.lock);
    if (s.fd) ::epoll_ctl(r.epoll.get(), EPOLL_CTL_DEL, s.fd.get(), nullptr);
    s.fd.reset();
    before = s.stage.exchange(Stage::closed);
  }
  if (before == Stage::closed) return;
  if (s.ending || stop_) return;
  why = "session " + std::to_string(s.index) + ": " + why;
  note(r, why);
  ++r.broken;
  if (before != Stage::ready) {
    const std::lock_guard guard(failure_lock_);
    if (failure_.empty()) failure_ = why;
  }
}

void Engine::receive_loop(Receiver& r) {
  struct Chunk {
    std::uint32_t session = 0;
    ssize_t size = 0;
    int error = 0;
    nanos at = 0;
    std::uint32_t lag = 0;
    std::uint32_t slot = 0;
  };
  std::vector<char> arena(turn_events * read_size);
  std::fill(arena.begin(), arena.end(), '\0');
  std::vector<Chunk> chunks;
  chunks.reserve(turn_events);
  std::array<epoll_event, turn_events> events{};
  nanos woken = now();
  while (!stop_.load(std::memory_order_relaxed)) {
    // The kernel stamps the last byte of a read. Where a read held several frames the first of them
    // may have waited longer, at most since the socket could last be seen empty: that is when this
    // wait ended, if it slept, else when the one before did.
    const nanos asked = now();
    const int n = ::epoll_wait(r.epoll.get(), events.data(), static_cast<int>(events.size()), 1000);
    const nanos before = std::exchange(woken, now());
    const nanos seen_empty = woken - asked > 20 * us ? woken : before;
    if (options_.inject_lag > 0 && n > 0) sleep_until(now() + options_.inject_lag);
    chunks.clear();
    bool cut_now = false;
    // First everything that is there is read and stamped …
    for (int i = 0; i < n; ++i) {
      const epoll_event& e = events[static_cast<std::size_t>(i)];
      if (e.data.u64 == wake_tag) {
        cut_now = true;  // after this turn's bytes are understood
        continue;
      }
      Session& s = *sessions_[static_cast<std::size_t>(e.data.u64)];
      const Stage stage = s.stage;
      if (stage == Stage::closed) continue;
      if ((e.events & EPOLLOUT) != 0) {
        if (stage == Stage::connecting) {
          int error = 0;
          socklen_t size = sizeof error;
          ::getsockopt(s.fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
          if (error != 0) {
            on_end(r, s, std::string("cannot connect: ") + std::strerror(error));
            continue;
          }
          s.stage = Stage::upgrading;
          watch(s, false);
          write(s, upgrade_request(server_.text(), protocol_->target(plans_[s.index]), s.key,
                                   protocol_->subprotocol(), protocol_->headers(plans_[s.index])));
          continue;
        }
        flush(s);
      }
      if ((e.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0) continue;
      Chunk c;
      c.session = s.index;
      c.slot = static_cast<std::uint32_t>(chunks.size());
      iovec piece{arena.data() + c.slot * read_size, read_size};
      alignas(cmsghdr) std::array<char, 128> control{};
      msghdr message{};
      message.msg_iov = &piece;
      message.msg_iovlen = 1;
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      c.size = ::recvmsg(s.fd.get(), &message, MSG_DONTWAIT);
      c.error = errno;
      c.at = now();
      if (c.size > 0) {
        for (cmsghdr* m = CMSG_FIRSTHDR(&message); m != nullptr; m = CMSG_NXTHDR(&message, m)) {
          if (m->cmsg_level != SOL_SOCKET || m->cmsg_type != SCM_TIMESTAMPNS) continue;
          timespec stamp{};
          std::memcpy(&stamp, CMSG_DATA(m), sizeof stamp);
          const nanos lag = wall() - (static_cast<nanos>(stamp.tv_sec) * sec + stamp.tv_nsec);
          c.lag = static_cast<std::uint32_t>(std::clamp<nanos>(lag, 1, 4'000'000'000));
        }
      }
      chunks.push_back(c);
    }
    // … then it is understood.
    for (const Chunk& c : chunks) {
      Session& s = *sessions_[c.session];
      if (c.size > 0) {
        const bool measured = c.lag > 0 && s.stage == Stage::ready;
        const std::uint64_t frames = r.frames;
        r.bytes += static_cast<std::uint64_t>(c.size);
        on_bytes(r, s, arena.data() + c.slot * read_size, static_cast<std::size_t>(c.size), c.at,
                 c.lag);
        if (measured) {
          nanos lag = c.lag;
          if (r.frames - frames > 1) lag = std::max(lag, c.at - std::max(seen_empty, s.last_read));
          r.lags.push_back(static_cast<std::uint32_t>(std::min<nanos>(lag, 4'000'000'000)));
        }
        s.last_read = c.at;
      } else if (c.size == 0) {
        on_end(r, s, "the server closed the connection");
      } else if (c.error != EAGAIN && c.error != EINTR) {
        on_end(r, s, std::string("connection lost: ") + std::strerror(c.error));
      }
    }
    if (cut_now) run_cuts(r);
    if (!r.replies.empty()) {
      {
        const std::lock_guard guard(reply_lock_);
        if (replies_.size() < replies_bound)
          std::move(r.replies.begin(), r.replies.end(), std::back_inserter(replies_));
        else
          note(r, "a million answers wait to be sent: some were dropped");
      }
      r.replies.clear();
      reply_wake_.notify_one();
    }
  }
  r.cpu = thread_cpu();
}

void Engine::on_bytes(Receiver& r, Session& s, const char* data, std::size_t n, nanos at,
                      std::uint32_t lag) {
  if (s.stage == Stage::upgrading) {
    s.head.append(data, n);
    const std::size_t end = s.head.find("\r\n\r\n");
    if (end == std::string::npos) {
      if (s.head.size() > 16384) on_end(r, s, "the answer to the upgrade has no end");
      return;
    }
    const std::string problem =
        check_upgrade(std::string_view(s.head).substr(0, end + 2), s.key, protocol_->subprotocol());
    if (!problem.empty()) return on_end(r, s, problem);
    times_[s.index].connected = at;
    s.stage = Stage::opening;
    s.reader.feed(s.head.data() + end + 4, s.head.size() - end - 4);
    s.head.clear();
    for (const auto& payload : protocol_->opened(plans_[s.index]))
      write(s, client_frame(Opcode::text, payload));
  } else {
    s.reader.feed(data, n);
  }
  Frame frame;
  while (s.stage != Stage::closed && s.reader.next(frame)) {
    ++r.frames;
    switch (frame.op) {
    case Opcode::text:
      on_payload(r, s, frame.payload, at, lag);
      break;
    case Opcode::ping:
      r.replies.push_back({s.index, 0, std::string(frame.payload), Opcode::pong});
      break;
    case Opcode::close: {
      unsigned code = 1005;
      if (frame.payload.size() >= 2)
        code = static_cast<unsigned>(static_cast<unsigned char>(frame.payload[0])) << 8U |
               static_cast<unsigned char>(frame.payload[1]);
      on_end(r, s,
             "closed by the server with " + std::to_string(code) + " " +
                 std::string(frame.payload.substr(std::min<std::size_t>(2, frame.payload.size()))));
      break;
    }
    case Opcode::binary:
      note(r, "a binary frame");
      break;
    default:
      break;
    }
  }
  if (s.reader.failed()) on_end(r, s, "a frame that breaks RFC 6455: " + s.reader.error());
}

void Engine::on_payload(Receiver& r, Session& s, std::string_view payload, nanos at,
                        std::uint32_t lag) {
  if (s.stage == Stage::opening) {
    std::vector<std::string> to_send;
    std::string why;
    const Step step = protocol_->opening(plans_[s.index], payload, to_send, why);
    for (const auto& p : to_send)
      write(s, client_frame(Opcode::text, p));
    if (step == Step::failed) return on_end(r, s, "cannot open: " + why);
    if (step == Step::ready) {
      times_[s.index].ready = at;
      s.stage = Stage::ready;
      if (protocol_->numbers_events()) {
        ParsedFrame answer;
        protocol_->parse(payload, answer);
        if (!plans_[s.index].resume_after)
          s.last_seq = std::max(s.last_seq.load(), answer.read_seq);
      }
      ready_.fetch_add(1);
    }
    if (step != Step::none) return;
  }
  const bool marks = options_.mark_reads && protocol_->has_read_marks();
  ParsedFrame& f = r.parsed;
  f.kind = FrameKind::other;
  f.room = f.text = f.id = f.error = {};
  f.seq = f.from_seq = f.read_seq = 0;
  f.duplicate = false;
  f.unread.clear();
  protocol_->parse(payload, f);
  switch (f.kind) {
  case FrameKind::message:
  case FrameKind::event: {
    Delivery d;
    d.session = s.index;
    d.room = room_index(f.room);
    d.lag = lag;
    d.at = at;
    d.seq = f.seq;
    d.from_seq = f.from_seq;
    if (f.kind == FrameKind::message) {
      const Marker marker = read_marker(f.text);
      if (marker.found && marker.run == options_.run)
        d.message = static_cast<std::uint32_t>(marker.message);
      else
        d.foreign = true;
    }
    r.deliveries.push_back(d);
    if (f.seq > s.last_seq) s.last_seq = f.seq;
    if (d.message != no_message) {
      r.delivered.fetch_add(1, std::memory_order_relaxed);
      if (marks) r.replies.push_back({s.index, f.seq, {}, Opcode::text});
    }
    break;
  }
  case FrameKind::answer:
  case FrameKind::refusal: {
    const bool ok = f.kind == FrameKind::answer;
    if (!ok) {
      ++r.refusals;
      note(r, "refused: " + std::string(payload.substr(0, 200)));
    }
    if (!f.id.empty() && f.id[0] == 'r') {
      r.read_acks.push_back({s.index, no_message, ok, at, leading_number(f.id.substr(1))});
      r.reads_acked.fetch_add(1, std::memory_order_relaxed);
    } else if (!f.id.empty() && f.id[0] >= '0' && f.id[0] <= '9') {
      r.acks.push_back({s.index, static_cast<std::uint32_t>(leading_number(f.id)), ok, at, f.seq});
      r.acked.fetch_add(1, std::memory_order_relaxed);
      if (closed_loop_.load(std::memory_order_relaxed)) {
        const std::lock_guard guard(credit_lock_);
        ++credits_[s.index];
        credit_wake_.notify_one();
      }
    }
    break;
  }
  case FrameKind::unread:
    for (const auto& entry : f.unread)
      r.unread.push_back({s.index, room_index(entry.room), entry.unread, entry.last_seq, at});
    break;
  case FrameKind::ping:
    r.replies.push_back({s.index, 0, protocol_->pong(), Opcode::text});
    break;
  case FrameKind::bye:
    note(r, "session " + std::to_string(s.index) + " got " + std::string(payload));
    break;
  case FrameKind::other:
    break;
  }
}

void Engine::reply_loop() {
  std::vector<Reply> mine;
  for (;;) {
    {
      std::unique_lock guard(reply_lock_);
      reply_wake_.wait(guard, [this] { return !replies_.empty() || stop_; });
      if (replies_.empty()) break;
      mine.swap(replies_);
    }
    for (auto& reply : mine) {
      const bool mark = reply.payload.empty() && reply.op == Opcode::text;
      const std::string payload =
          mark ? protocol_->read(plans_[reply.session], reply.seq) : std::move(reply.payload);
      write(*sessions_[reply.session], client_frame(reply.op, payload));
      if (mark) reads_sent_.fetch_add(1);
    }
    mine.clear();
  }
  reply_cpu_ = thread_cpu();
}

void Engine::send(const std::vector<PlannedSend>& plan, nanos start) {
  std::vector<std::string> frames;
  frames.reserve(plan.size());
  const std::size_t first = sent_.size();
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const SessionPlan& from = plans_[plan[i].session];
    frames.push_back(client_frame(
        Opcode::text, protocol_->send(from, first + i,
                                      marked_text(options_.run, first + i, options_.text_bytes))));
    sent_.push_back({plan[i].session, from.room, start + plan[i].after, 0});
  }
  std::thread sender([&] {
    prctl(PR_SET_TIMERSLACK, 1);
    for (std::size_t i = 0; i < plan.size(); ++i) {
      Sent& record = sent_[first + i];
      sleep_until(record.due);
      record.at = now();
      if (!write(*sessions_[record.session], frames[i])) record.at = 0;
    }
    send_cpu_ += thread_cpu();
  });
  sender.join();
}

void Engine::send_closed_loop(const std::vector<std::uint32_t>& senders, unsigned outstanding,
                              nanos until) {
  {
    const std::lock_guard guard(credit_lock_);
    std::fill(credits_.begin(), credits_.end(), 0U);
    for (const auto s : senders)
      credits_[s] = outstanding;
  }
  closed_loop_ = true;
  sent_.reserve(sent_.size() + (1U << 20U));
  std::thread sender([&] {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> work;
    while (now() < until) {
      work.clear();
      {
        std::unique_lock guard(credit_lock_);
        const auto any = [&] {
          return std::any_of(senders.begin(), senders.end(),
                             [&](auto s) { return credits_[s] > 0; });
        };
        credit_wake_.wait_for(guard, std::chrono::milliseconds(5), any);
        for (const auto s : senders)
          if (credits_[s] > 0) work.emplace_back(s, std::exchange(credits_[s], 0U));
      }
      for (const auto& [session, count] : work) {
        for (std::uint32_t k = 0; k < count; ++k) {
          const std::uint64_t message = sent_.size();
          const SessionPlan& from = plans_[session];
          const std::string frame = client_frame(
              Opcode::text,
              protocol_->send(from, message,
                              marked_text(options_.run, message, options_.text_bytes)));
          const nanos at = now();
          const bool out = write(*sessions_[session], frame);
          sent_.push_back({session, from.room, at, out ? at : 0});
        }
      }
    }
    send_cpu_ += thread_cpu();
  });
  sender.join();
  closed_loop_ = false;
}

std::uint64_t Engine::delivered() const {
  std::uint64_t sum = 0;
  for (const auto& r : receivers_)
    sum += r->delivered.load(std::memory_order_relaxed);
  return sum;
}

bool Engine::settle(std::uint64_t expected, std::uint64_t acks, std::uint64_t reads, nanos quiet,
                    nanos grace) {
  std::uint64_t before = 0;
  nanos changed = now();
  bool whole = false;
  for (;;) {
    std::uint64_t d = 0;
    std::uint64_t a = 0;
    std::uint64_t m = 0;
    for (const auto& r : receivers_) {
      d += r->delivered.load(std::memory_order_relaxed);
      a += r->acked.load(std::memory_order_relaxed);
      m += r->reads_acked.load(std::memory_order_relaxed);
    }
    if (d >= expected && a >= acks && m >= reads) {
      whole = true;
      break;
    }
    const nanos t = now();
    if (d + a + m != before) {  // heart-beats and counters go on for ever: they are no progress
      before = d + a + m;
      changed = t;
    }
    if (t - changed > quiet) break;
    sleep_until(t + ms);
  }
  sleep_until(now() + grace);
  return whole;
}

Recording Engine::finish() {
  Recording out;
  if (stop_.exchange(true)) return out;
  for (auto& s : sessions_)
    s->ending = true;
  for (auto& r : receivers_) {
    const std::uint64_t one = 1;
    if (::write(r->wake.get(), &one, sizeof one) < 0) note(*r, "cannot wake a receiver");
    if (r->thread.joinable()) r->thread.join();
  }
  {
    const std::lock_guard guard(reply_lock_);
    replies_.clear();
  }
  reply_wake_.notify_all();
  if (replier_.joinable()) replier_.join();
  for (auto& s : sessions_) {
    if (s->stage == Stage::ready)
      write(*s, client_frame(Opcode::close, std::string_view("\x03\xe8", 2)));
    s->fd.reset();
  }
  out.sent = std::move(sent_);
  for (auto& r : receivers_) {
    out.deliveries.insert(out.deliveries.end(), r->deliveries.begin(), r->deliveries.end());
    out.acks.insert(out.acks.end(), r->acks.begin(), r->acks.end());
    out.read_acks.insert(out.read_acks.end(), r->read_acks.begin(), r->read_acks.end());
    out.unread.insert(out.unread.end(), r->unread.begin(), r->unread.end());
    out.lags.insert(out.lags.end(), r->lags.begin(), r->lags.end());
    out.errors.insert(out.errors.end(), r->errors.begin(), r->errors.end());
    out.refusals += r->refusals;
    out.broken += r->broken;
    out.bytes_received += r->bytes;
    out.frames_received += r->frames;
    out.receive_cpu += r->cpu;
  }
  out.reads_sent = reads_sent_.load();
  out.backlogged = backlogged_.load();
  out.send_cpu = send_cpu_ + reply_cpu_;
  return out;
}

}  // namespace parley::bench
