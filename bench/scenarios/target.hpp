// A server under measurement: started, prepared with users and rooms, restarted cold, asked for its
// own figures, stopped. One implementation per server kind. Called by the scenarios; must not
// measure.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "client/engine.hpp"
#include "client/http.hpp"
#include "client/link.hpp"
#include "client/metrics.hpp"
#include "client/process.hpp"
#include "client/protocol.hpp"

namespace parley::bench {

/// The rooms and people of a run. Every session is a different user.
struct Population {
  std::size_t rooms = 1;
  std::size_t members = 50;   // per room
  std::size_t sessions = 20;  // of those, per room, with a session
  std::size_t passive = 0;    // of the sessions, the last ones do not enter
};

struct Prepared {
  std::vector<std::string> rooms;     // ids
  std::vector<SessionPlan> sessions;  // room by room; the first of each room is its owner
};

struct ServerCost {
  nanos cpu = -1;           // the server's process
  nanos database_cpu = -1;  // its database's, where that is another process
  std::int64_t rss_kib = -1;
  std::int64_t database_rss_kib = -1;
};

class Target {
 public:
  virtual ~Target() = default;
  virtual std::string name() const = 0;
  virtual std::shared_ptr<const Protocol> protocol() const = 0;
  /// Starts with an empty store.
  virtual void start() = 0;
  /// Makes users, tokens, rooms and members.
  virtual Prepared prepare(const Population& population) = 0;
  /// A fresh process over what was prepared: the cold run's condition. False where it cannot be.
  virtual bool restart() = 0;
  virtual Endpoint endpoint() const = 0;
  virtual Metrics metrics() { return {}; }
  virtual ServerCost cost() const = 0;
  virtual void stop() = 0;
  /// Settings that differ from the server's defaults, versions, paths: for the JSON.
  virtual nlohmann::json describe() const = 0;
  /// Empty, or why a figure from this target is no result (a data folder in memory).
  virtual std::string no_result() const { return {}; }
};

struct ParleyOptions {
  std::string program;      // parleyd
  std::string data_parent;  // folder for the data folders; "" = /var/tmp
  std::string db = "sqlite";
  std::vector<std::string> settings;  // KEY=VALUE, over the harness' own
  std::string connect;                // a server that runs already: HOST:PORT …
  std::string admin;                  // … its admin listener …
  std::string admin_token;            // … and that one's token
  Link* link = nullptr;
};

std::unique_ptr<Target> make_parley(ParleyOptions options);
std::unique_ptr<Target> make_socketio(const std::string& folder, Link* link);
std::unique_ptr<Target> make_floor(bool gather, Link* link);

/// The same as make_parley, with what only some scenarios need.
class ParleyTarget : public Target {
 public:
  /// A token for a user, made by the administrator (who makes the user, too).
  virtual std::string token_for(const std::string& user) = 0;
  virtual HttpClient admin() const = 0;
  virtual nanos last_start_took() const = 0;  // exec to ready
  virtual Child& process() = 0;
};
std::unique_ptr<ParleyTarget> make_parley_target(ParleyOptions options);

/// A blocking parley.v1 session for preparing: one request, one answer.
class Caller {
 public:
  Caller(const Endpoint& server, const std::string& token);
  /// Answer object; throws Failure when it is an error or does not come within 10 s.
  nlohmann::json call(nlohmann::json request);

 private:
  std::string next_payload(nanos deadline);
  Fd fd_;
  FrameReader reader_{false, 4U << 20U};
  std::uint64_t id_ = 0;
};

/// The path of parleyd: as given, else beside this program, else in the build tree around it.
std::string find_server(const std::string& given);

/// Reads "listening on http://HOST:PORT" from a child's log. Throws Failure with its tail.
Endpoint wait_for_port(Child& child, nanos timeout, const std::string& word = "listening on ");

}  // namespace parley::bench
