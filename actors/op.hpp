// A request on its way through the actors, and the one place its answer goes to.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/runtime.hpp"
#include "schemas/wire/json_encode.hpp"
#include "schemas/wire/requests.hpp"

namespace parley {

/// Answers one request once: over a session's relay or an HTTP callback. Dropped unanswered it
/// answers `internal`, so that no path forgets a client; only `abandon` stays silent (an outcome
/// that is not known).
class replier {
 public:
  replier() = default;
  replier(relay* way, connection_id conn, std::string wire_id)
      : to_(ws{way, conn, std::move(wire_id)}) {}
  explicit replier(reply_fn fn) : to_(std::move(fn)) {}
  replier(const replier&) = delete;
  replier& operator=(const replier&) = delete;
  ~replier() { fail(failure{errc::internal, "the request was dropped", {}}); }

  /// Where the answer goes; of one that has no way yet.
  void aim(relay* way, connection_id conn, std::string wire_id) {
    to_ = ws{way, conn, std::move(wire_id)};
  }
  void aim(reply_fn fn) { to_ = std::move(fn); }

  void ok(std::string_view fields) {
    if (auto* w = std::get_if<ws>(&to_)) {
      if (!w->wire_id.empty())
        w->way->post(deliver{w->conn, wire::make_frame(wire::ok_frame(w->wire_id, fields)), true});
      else
        w->way->post(deliver{w->conn, nullptr, true});
    } else if (auto* f = std::get_if<reply_fn>(&to_)) {
      (*f)(reply{answer{std::string(fields), {}}, false});
    }
    to_ = std::monostate{};
  }
  void fail(const failure& why) {
    if (auto* w = std::get_if<ws>(&to_)) {
      if (!w->wire_id.empty())
        w->way->post(deliver{w->conn, wire::make_frame(wire::error_frame(w->wire_id, why)), true});
      else
        w->way->post(deliver{w->conn, nullptr, true});
    } else if (auto* f = std::get_if<reply_fn>(&to_)) {
      (*f)(reply{answer{{}, why}, false});
    }
    to_ = std::monostate{};
  }
  /// The frame of an ok that goes out by another way (room.enter); the in-flight window is released
  /// by `released`.
  frame_ptr take_frame(std::string_view fields) {
    auto* w = std::get_if<ws>(&to_);
    if (w == nullptr) return nullptr;
    auto f = wire::make_frame(wire::ok_frame(w->wire_id, fields));
    to_ = std::monostate{};
    return f;
  }
  /// The outcome is not known and will not be told; over HTTP the connection ends without an
  /// answer.
  void abandon() {
    if (auto* f = std::get_if<reply_fn>(&to_)) (*f)(reply{{}, true});
    to_ = std::monostate{};
  }
  bool open() const { return to_.index() != 0; }

 private:
  struct ws {
    relay* way;
    connection_id conn;
    std::string wire_id;  // empty: `typing` without an id, which has no answer
  };
  std::variant<std::monostate, ws, reply_fn> to_;
};

/// What a session collects for hello's answer of one room that it named.
using entered_fn = std::function<void(wire::entered)>;

struct op {
  op() = default;
  op(const op&) = delete;
  op& operator=(const op&) = delete;
  ~op() {
    if (!entered) return;
    wire::entered e;
    e.error = failure{errc::internal, "the request was dropped", {}};
    entered(std::move(e));
  }
  wire::request what;
  profile who;
  std::optional<connection_id> conn;  // of the session; none over HTTP
  replier to;
  entered_fn entered;  // set where hello enters the room: answered by this instead of `to`
  std::optional<failure> refuse;  // decided before the room: told unless the nonce is known
  std::string hash;               // of the request, compared under the same nonce
  std::vector<profile> resolved;  // the people whom the request names, in its order
  std::int64_t started_ns = 0, parsed_ns = 0;
};
using op_ptr = std::shared_ptr<op>;

}  // namespace parley
