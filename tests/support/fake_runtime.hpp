// A runtime without actors, for tests of the network side: it records what it is given and answers
// by the relay, each request with ok unless a test says otherwise. Thread-safe, as the real one is.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "actors/runtime.hpp"
#include "schemas/wire/json_encode.hpp"

namespace parley::test {

/// "good-ann" is ann's token; everything else is refused.
class fake_tokens final : public token_checker {
 public:
  result<claims> check(std::string_view token) const override {
    if (token.substr(0, 5) != "good-")
      return fail(errc::unauthenticated, "The token is not valid.");
    claims c;
    c.user = token.substr(5);
    return c;
  }
};

class fake_runtime final : public runtime {
 public:
  struct session {
    connection_id conn;
    std::shared_ptr<session_card> card;
    claims who;
    std::string hello_id;
    wire::hello hello;
    bool closed = false;
  };
  struct submitted {
    std::shared_ptr<session> from;
    std::string id;
    wire::request request;
  };

  std::vector<relay*> relays;
  // Called without the lock, on the connection's thread; default: greet, or answer ok.
  std::function<void(session&)> on_open = [this](session& s) { greet_now(s); };
  std::function<void(submitted&)> on_submit = [this](submitted& s) { answer_ok(s); };

  void to(const connection_id& conn, relay_op op) { relays.at(conn.io)->post(std::move(op)); }
  void greet_now(const session& s) {
    to(s.conn, greet{s.conn, wire::make_frame(wire::ok_frame(s.hello_id, "\"session\":\"s_1\""))});
  }
  void answer_ok(const submitted& s) {
    const auto frame = s.id.empty() ? nullptr : wire::make_frame(wire::ok_frame(s.id, ""));
    to(s.from->conn, deliver{s.from->conn, frame, true});
  }

  session_ref open_session(connection_id conn, std::shared_ptr<session_card> card, claims who,
                           std::string wire_id, wire::hello request) override {
    auto s = std::make_shared<session>();
    s->conn = conn;
    s->card = std::move(card);
    s->who = std::move(who);
    s->hello_id = std::move(wire_id);
    s->hello = std::move(request);
    {
      std::lock_guard hold(lock_);
      sessions_.push_back(s);
      changed_.notify_all();
    }
    on_open(*s);
    // The handle is opaque to everybody but its maker.
    return {s, reinterpret_cast<session_handle*>(s.get())};
  }
  void submit(const session_ref& s, std::string wire_id, wire::request r, std::int64_t) override {
    submitted what{std::shared_ptr<session>(s, reinterpret_cast<session*>(s.get())),
                   std::move(wire_id), std::move(r)};
    {
      std::lock_guard hold(lock_);
      requests_.push_back(what);
      changed_.notify_all();
    }
    on_submit(what);
  }
  void closed(const session_ref& s) override {
    std::lock_guard hold(lock_);
    reinterpret_cast<session*>(s.get())->closed = true;
    ++closed_;
    changed_.notify_all();
  }

  /// Waits until `n` sessions have been opened (closed, `n` requests submitted); false after 10 s.
  bool wait_opened(std::size_t n) {
    return wait([&] { return sessions_.size() >= n; });
  }
  bool wait_closed(std::size_t n) {
    return wait([&] { return closed_ >= n; });
  }
  bool wait_submitted(std::size_t n) {
    return wait([&] { return requests_.size() >= n; });
  }
  std::shared_ptr<session> session_at(std::size_t i) {
    std::lock_guard hold(lock_);
    return sessions_.at(i);
  }
  std::size_t opened() {
    std::lock_guard hold(lock_);
    return sessions_.size();
  }
  std::size_t submitted_count() {
    std::lock_guard hold(lock_);
    return requests_.size();
  }
  submitted request_at(std::size_t i) {
    std::lock_guard hold(lock_);
    return requests_.at(i);
  }

  // What HTTP and the admin listener ask; tests that need more set these.
  std::function<void(claims, wire::request, reply_fn)> on_ask = [](claims, wire::request,
                                                                   reply_fn then) {
    then({answer{"\"asked\":true", std::nullopt}, false});
  };
  std::function<void(account_request, account_fn)> on_account =
      [](account_request, account_fn then) { then(fail(errc::not_found, "No account here.")); };
  std::vector<actor_view> actor_views;
  std::vector<room_view> room_views;
  std::vector<session_view> session_views;
  storage_view storage_now;
  std::optional<std::string> why_not_ready;

  void ask(claims who, wire::request r, std::chrono::milliseconds, reply_fn then) override {
    on_ask(std::move(who), std::move(r), std::move(then));
  }
  void account(account_request r, account_fn then) override {
    on_account(std::move(r), std::move(then));
  }
  std::vector<actor_view> actors() const override { return actor_views; }
  std::vector<room_view> rooms() const override { return room_views; }
  std::vector<session_view> sessions() const override { return session_views; }
  storage_view storage() const override { return storage_now; }
  bool end_session(const std::string&) override { return false; }
  void passivate(const std::string&, reply_fn then) override {
    then({answer{"", fail(errc::not_found, "No such room.")}, false});
  }
  void reload(std::shared_ptr<const config>) override {}
  std::optional<std::string> not_ready() const override { return why_not_ready; }
  const std::string& epoch() const override { return epoch_; }
  bool drain(std::chrono::milliseconds) override { return true; }
  bool stop(std::chrono::milliseconds) override { return true; }

 private:
  template <class F> bool wait(F&& f) {
    std::unique_lock hold(lock_);
    return changed_.wait_for(hold, std::chrono::seconds(10), std::forward<F>(f));
  }

  std::mutex lock_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<session>> sessions_;
  std::vector<submitted> requests_;
  std::size_t closed_ = 0;
  std::string epoch_ = "e_test";
};

}  // namespace parley::test
