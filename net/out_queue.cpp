#include "net/out_queue.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <boost/asio/error.hpp>
#include <cerrno>
#include <limits>

namespace parley::net {

using boost::system::error_code;

namespace {
// Pieces of one gathered write; the kernel takes up to 1,024, but more than these no longer pays.
constexpr std::size_t pieces_per_write = 64;
constexpr char close_frame = static_cast<char>(0x88);

// FIN and a control opcode: Beast's pongs and closes, our pings. Data frames begin with 0x81, an
// HTTP answer with 'H', which is sent before anything that could be dropped.
bool is_control(const std::string& frame) {
  return (static_cast<unsigned char>(frame.front()) & 0x88) == 0x88;
}
}  // namespace

std::size_t frame_end(const std::string& frames, std::size_t offset) {
  std::size_t at = 0;
  while (at < offset) {
    if (frames.size() - at < 2) return frames.size();
    std::size_t head = 2;
    std::uint64_t length = static_cast<unsigned char>(frames[at + 1]) & 0x7f;
    if (length >= 126) {
      const std::size_t wide = length == 126 ? 2 : 8;
      if (frames.size() - at < 2 + wide) return frames.size();
      length = 0;
      for (std::size_t i = 0; i < wide; ++i)
        length = length << 8 | static_cast<unsigned char>(frames[at + 2 + i]);
      head += wide;
    }
    if (length > frames.size() - at - head) return frames.size();
    at += head + static_cast<std::size_t>(length);
  }
  return at;
}

out_queue::out_queue(tcp_socket socket, const std::int64_t& clock, traffic& totals)
    : socket_(std::move(socket)), clock_(clock), totals_(totals) {}

void out_queue::append(frame_ptr frame, std::int64_t at) {
  bytes_ += frame->size();
  if (at < 0) {
    replay_bytes_ += frame->size();
    ++replay_frames_;
  }
  entries_.push_back({std::move(frame), at});
}

bool out_queue::over(std::size_t more) const {
  const std::size_t waiting = frames() - replay_frames_;
  return waiting > 0 &&
         (bytes_ - replay_bytes_ + more > bounds_.bytes || waiting >= bounds_.frames);
}

out_queue::sent out_queue::push(frame_ptr frame, kind as) {
  if (stopped_) return sent::stopped;
  if (as == kind::counted && over(frame->size())) {
    // A turn may have gathered more than the bound for a socket that takes it all.
    if (!armed_) write_out();
    if (failed_) return sent::stopped;
    if (over(frame->size())) {
      totals_.peak_bytes = std::max(totals_.peak_bytes, size());
      return sent::overflow;
    }
  }
  append(std::move(frame), as == kind::replay ? -1 : clock_);
  ++totals_.frames_out;
  return sent::ok;
}

bool out_queue::push_control(std::string bytes) {
  if (failed_) return false;
  if (sealed_) return true;  // after the close frame: swallowed
  const std::size_t waiting = frames() - replay_frames_;
  if (bytes_ - replay_bytes_ + bytes.size() > 2 * bounds_.bytes || waiting >= 2 * bounds_.frames) {
    abort();
    return false;
  }
  const bool closes = bytes.front() == close_frame;
  if (closes && bytes.size() >= 4)
    close_code_ = static_cast<std::uint16_t>(static_cast<unsigned char>(bytes[2]) << 8 |
                                             static_cast<unsigned char>(bytes[3]));
  append(std::make_shared<const std::string>(std::move(bytes)), clock_);
  ++totals_.frames_out;
  if (closes) seal();
  flush();
  return !failed_;
}

void out_queue::flush() {
  if (failed_) return;
  if (!armed_) {
    write_out();
    if (failed_) return;
    if (empty()) finish_empty();
  }
  show();
}

void out_queue::write_out() {
  while (!failed_ && !empty()) {
    ssize_t n = 0;
    if (frames() == 1) {
      const std::string& only = *entries_[head_].frame;
      n = ::send(socket_.native_handle(), only.data() + offset_, only.size() - offset_,
                 MSG_DONTWAIT | MSG_NOSIGNAL);
    } else {
      iovec pieces[pieces_per_write];
      msghdr message{};
      message.msg_iov = pieces;
      for (std::size_t i = head_; i < entries_.size() && message.msg_iovlen < pieces_per_write;
           ++i) {
        const std::size_t from = i == head_ ? offset_ : 0;
        const std::string& piece = *entries_[i].frame;
        pieces[message.msg_iovlen++] = {const_cast<char*>(piece.data()) + from,
                                        piece.size() - from};
      }
      // Not writev, which raises SIGPIPE.
      n = ::sendmsg(socket_.native_handle(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return arm();
      return fail();
    }
    took(static_cast<std::size_t>(n));
  }
}

void out_queue::took(std::size_t n) {
  totals_.bytes_out += static_cast<std::int64_t>(n);
  while (n > 0) {
    entry& first = entries_[head_];
    const std::size_t part = std::min(n, first.frame->size() - offset_);
    n -= part;
    offset_ += part;
    bytes_ -= part;
    if (first.at < 0) replay_bytes_ -= part;
    if (offset_ < first.frame->size()) return;
    if (first.at < 0) {
      --replay_frames_;
      replay_until_ = clock_;
    }
    first.frame.reset();
    offset_ = 0;
    ++head_;
  }
  if (head_ > 64 && 2 * head_ > entries_.size()) {
    entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(head_));
    head_ = 0;
  }
}

void out_queue::finish_empty() {
  std::vector<entry>().swap(entries_);
  head_ = offset_ = 0;
  if (teardown_)
    shut_sending();
  else if (owner_ && !sealed_)
    owner_->on_drained();
}

void out_queue::arm() {
  if (armed_) return;
  armed_ = true;
  if (owner_) owner_->on_waiting();
  socket_.async_wait(tcp_socket::wait_write, [self = shared_from_this()](error_code ec) {
    self->armed_ = false;
    if (self->failed_) return;
    if (ec)
      self->fail();
    else
      self->flush();
  });
}

void out_queue::stop(frame_ptr last) {
  if (failed_ || stopped_) return;
  stopped_ = true;
  std::vector<entry> kept;
  std::size_t next = head_;
  if (offset_ > 0) {
    // The frame under way goes out whole; of a page of several, no more than that frame.
    entry& first = entries_[next++];
    const std::size_t end = frame_end(*first.frame, offset_);
    if (end < first.frame->size())
      first.frame = std::make_shared<const std::string>(first.frame->substr(0, end));
    if (offset_ < end)
      kept.push_back(std::move(first));
    else
      offset_ = 0;
  }
  for (; next < entries_.size(); ++next)
    if (entries_[next].at >= 0 && is_control(*entries_[next].frame))
      kept.push_back(std::move(entries_[next]));
  bytes_ = replay_bytes_ = replay_frames_ = head_ = 0;
  entries_.clear();
  for (entry& e : kept)
    append(std::move(e.frame), e.at);
  bytes_ -= offset_;
  if (offset_ > 0 && entries_.front().at < 0) replay_bytes_ -= offset_;
  if (last) {
    append(std::move(last), clock_);
    ++totals_.frames_out;
  }
}

void out_queue::seal() {
  if (sealed_) return;
  sealed_ = stopped_ = true;
  sealed_at_ = clock_;
  if (owner_) owner_->on_sealed();
}

void out_queue::tear_down(std::unique_ptr<completion> done) {
  teardown_ = std::move(done);
  seal();  // starts the deadlines if nothing did
  if (failed_)
    finish(boost::asio::error::connection_reset);
  else if (empty())
    shut_sending();  // else finish_empty() calls it
}

void out_queue::fail() {
  if (failed_) return;
  failed_ = sealed_ = stopped_ = true;
  std::vector<entry>().swap(entries_);
  head_ = offset_ = bytes_ = replay_bytes_ = replay_frames_ = 0;
  if (shown_bytes_) show();
  error_code ignored;
  socket_.close(ignored);
  if (owner_) owner_->on_failed();
  finish(boost::asio::error::connection_reset);
}

void out_queue::abort() {
  if (failed_) return;
  error_code ignored;
  socket_.set_option(boost::asio::socket_base::linger(true, 0), ignored);
  fail();
}

void out_queue::abandon() {
  owner_ = nullptr;
  shown_bytes_ = shown_frames_ = nullptr;
  teardown_.reset();
  fail();
}

std::int64_t out_queue::tick(std::int64_t now) {
  if (!sealed_ || failed_) return std::numeric_limits<std::int64_t>::max();
  if (now - sealed_at_ >= bounds_.close_ns) {
    abort();
    return std::numeric_limits<std::int64_t>::max();
  }
  if (now - sealed_at_ >= bounds_.half_close_ns) {
    // The peer may be waiting for our end before it says its own; its late close frame is still
    // read.
    if (empty() && !shut_) {
      shut_ = true;
      error_code ec;
      socket_.shutdown(boost::asio::socket_base::shutdown_send, ec);
      if (ec) {
        fail();
        return std::numeric_limits<std::int64_t>::max();
      }
    }
    return empty() ? sealed_at_ + bounds_.close_ns
                   : std::min(now + 100'000'000, sealed_at_ + bounds_.close_ns);
  }
  return sealed_at_ + bounds_.half_close_ns;
}

std::int64_t out_queue::overdue_at() const {
  if (failed_ || empty() || entries_[head_].at < 0) return std::numeric_limits<std::int64_t>::max();
  return std::max(entries_[head_].at, replay_until_) + bounds_.age_ns;
}

void out_queue::shut_sending() {
  error_code ec;
  if (!shut_) socket_.shutdown(boost::asio::socket_base::shutdown_send, ec);
  shut_ = true;
  if (ec)
    fail();
  else
    discard();
}

void out_queue::discard() {
  // Closing with unread bytes would reset the peer, and might destroy the close frame on its way.
  socket_.async_wait(tcp_socket::wait_read, [self = shared_from_this()](error_code ec) {
    if (self->failed_) return;
    char bytes[4096];
    const ssize_t n =
        ec ? 0 : ::recv(self->socket_.native_handle(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (n > 0) {
      self->discarded_ += static_cast<std::size_t>(n);
      if (self->discarded_ > self->bounds_.discard) return self->abort();
    }
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) return self->discard();
    self->failed_ = true;
    error_code ignored;
    self->socket_.close(ignored);
    self->finish({});
  });
}

void out_queue::finish(error_code ec) {
  if (!teardown_) return;
  boost::asio::post(socket_.get_executor(), [self = shared_from_this(), done = std::move(teardown_),
                                             ec] { done->run(ec); });
}

void out_queue::show() {
  totals_.peak_bytes = std::max(totals_.peak_bytes, size());
  if (!shown_bytes_) return;
  const auto frames_now = static_cast<std::int64_t>(frames());
  if (shown_bytes_->load(std::memory_order_relaxed) != size())
    shown_bytes_->store(size(), std::memory_order_relaxed);
  if (shown_frames_->load(std::memory_order_relaxed) != frames_now)
    shown_frames_->store(frames_now, std::memory_order_relaxed);
}

}  // namespace parley::net
