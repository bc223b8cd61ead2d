// Starts the actor system in order, hands requests in, takes snapshots, stops in order. The tree on
// one page:
//   writer, readers, hashers (detached) · people shards · accounts · directory → rooms · gateways ·
//   sessions
#include "actors/runtime.hpp"

#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/exit_reason.hpp>
#include <caf/logger.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <sodium.h>

#include <algorithm>
#include <thread>

#include "actors/accounts.hpp"
#include "actors/context.hpp"
#include "actors/directory.hpp"
#include "actors/gateway.hpp"
#include "actors/people.hpp"
#include "actors/session.hpp"
#include "schemas/log.hpp"

namespace parley {
namespace {

using std::chrono::milliseconds;
constexpr std::size_t shards = 2, gateways = 2;
constexpr std::int64_t slow_commit_ms = 1000;

struct system_config : caf::actor_system_config {
  explicit system_config(const config& c) {
    // Measured on two cores: sharing reaches 10,000 actors in 7-12 ms against 47-160 ms for
    // stealing, and idles at 0 %.
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads",
        static_cast<std::size_t>(std::max<std::int64_t>(1, c.server.workers)));
    set("scheduler.max-throughput", std::size_t{100});
    set("logger.verbosity", caf::atom("quiet"));
  }
};

class runtime_impl final : public runtime {
 public:
  runtime_impl(runtime_options o, storage::opened store)
      : options_(std::move(o)), config_(*options_.settings),
        system_(std::make_unique<caf::actor_system>(config_)), lock_(std::move(store.lock)),
        schema_version_(store.schema_version), ctx_(std::make_shared<context>(*options_.counters)) {
    ctx_->relays = options_.relays;
    ctx_->tokens = options_.tokens;
    ctx_->now = options_.now;
    ctx_->epoch = store.epoch;
    apply_settings(options_.settings);
    auto& m = *options_.counters;
    const auto& c = *options_.settings;
    ctx_->writer =
        spawn_writer(*system_, ctx_->meters, std::move(store.writer), ctx_->gate, m, true);
    std::vector<reader_actor> readers;
    auto open = [settings = options_.settings, &m] { return storage::open_reader(*settings, m); };
    for (std::int64_t i = 0; i < c.storage.readers; ++i)
      readers.push_back(
          spawn_reader(*system_, ctx_->meters, open, static_cast<std::size_t>(i), true));
    ctx_->readers = std::make_unique<reader_pool>(std::move(readers), c.limits.reader_queue,
                                                  milliseconds(c.limits.read_deadline_ms), m);
    for (std::int64_t i = 0; i < std::max<std::int64_t>(1, c.accounts.hash_parallel); ++i)
      ctx_->hashers.push_back(spawn_hasher(*system_, ctx_, static_cast<std::size_t>(i), true));
    for (std::size_t i = 0; i < shards; ++i)
      ctx_->people.push_back(spawn_people(*system_, ctx_, i));
    ctx_->accounts = spawn_accounts(*system_, ctx_);
    ctx_->directory = spawn_directory(*system_, ctx_);
    for (std::size_t i = 0; i < gateways; ++i)
      gateways_.push_back(spawn_gateway(*system_, ctx_, i));
  }

  ~runtime_impl() override {
    if (!stopped_) stop(milliseconds(2000));
    if (system_) {
      // An actor that would not end holds the system's destructor for ever; the process ends around
      // it.
      static_cast<void>(system_.release());
    }
  }

  session_ref open_session(connection_id conn, std::shared_ptr<session_card> card, claims who,
                           std::string wire_id, wire::hello request) override {
    card->session = make_id("s_");
    auto s = spawn_session(*system_, ctx_, conn, std::move(card));
    // Spawning leaves a reference to CAF's logger with this thread, an I/O thread that outlives the
    // actor system; the system's destructor would wait for it for ever.
    caf::logger::set_current_actor_system(nullptr);
    caf::anon_send(s->actor, begin_session{std::move(wire_id),
                                           std::make_shared<wire::hello>(std::move(request)),
                                           std::move(who)});
    return s;
  }

  void submit(const session_ref& s, std::string wire_id, wire::request r,
              std::int64_t parse_ns) override {
    auto now = steady_ns();
    ctx_->counters.stages[static_cast<std::size_t>(stage::parse)].observe_ns(now - parse_ns);
    caf::anon_send(s->actor,
                   session_op{std::move(wire_id), std::make_shared<wire::request>(std::move(r)),
                              parse_ns, now});
  }

  void closed(const session_ref& s) override { caf::anon_send(s->actor, socket_gone{}); }

  void ask(claims who, wire::request r, milliseconds deadline, reply_fn then) override {
    if (asks_.load(std::memory_order_relaxed) >= ctx_->settings().limits.http_waiting) {
      ctx_->counters.rejected_overloaded.add();
      return then(
          reply{answer{{}, failure{errc::overloaded, "too many requests wait", 1000}}, false});
    }
    auto o = std::make_shared<op>();
    o->what = std::move(r);
    o->started_ns = o->parsed_ns = steady_ns();
    o->to.aim([ticket = take_ticket(), then = std::move(then)](reply a) { then(std::move(a)); });
    auto& g = gateways_[next_gateway_.fetch_add(1, std::memory_order_relaxed) % gateways_.size()];
    caf::anon_send(g, gateway_op{std::move(who), std::move(o), deadline.count()});
  }

  void account(account_request r, account_fn then) override {
    if (asks_.load(std::memory_order_relaxed) >= ctx_->settings().limits.http_waiting) {
      ctx_->counters.rejected_overloaded.add();
      return then(failure{errc::overloaded, "too many requests wait", 1000});
    }
    auto counted = [ticket = take_ticket(), then = std::move(then)](result<account_answer> a) {
      then(std::move(a));
    };
    caf::anon_send(ctx_->accounts, account_op{std::make_shared<account_request>(std::move(r)),
                                              std::make_shared<account_fn>(std::move(counted))});
  }

  std::vector<actor_view> actors() const override { return ctx_->meters.snapshot(); }

  std::vector<room_view> rooms() const override {
    static const char* const states[] = {"loading", "awake", "passivating", "missing"};
    std::vector<room_view> out;
    for (const auto& card : ctx_->rooms.all()) {
      room_view v;
      v.room = card->room;
      v.state = states[std::clamp(card->state.load(), 0, 3)];
      v.members = card->members.load();
      v.online = card->online.load();
      v.active = card->active.load();
      v.passive = card->passive.load();
      v.last_seq = card->last_seq.load();
      v.queued = card->queued.load();
      v.mailbox = std::max<std::int64_t>(0, card->load->length());
      out.push_back(std::move(v));
    }
    std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.room < b.room; });
    return out;
  }

  std::vector<session_view> sessions() const override {
    std::vector<session_view> out;
    for (const auto& s : ctx_->sessions.all()) {
      session_view v;
      v.session = s->card->session;
      if (s->card->greeted.load(std::memory_order_acquire)) v.user = s->card->user;
      v.address = s->card->address;
      v.rooms = s->card->rooms_entered.load();
      v.in_flight = s->card->in_flight.load();
      v.queued_bytes = s->card->queued_bytes.load();
      v.queued_frames = s->card->queued_frames.load();
      v.mailbox = s->load ? std::max<std::int64_t>(0, s->load->length()) : 0;
      v.connected_at = s->card->connected_at;
      out.push_back(std::move(v));
    }
    std::sort(out.begin(), out.end(),
              [](const auto& a, const auto& b) { return a.session < b.session; });
    return out;
  }

  storage_view storage() const override {
    storage_view v;
    const auto& g = *ctx_->gate;
    const auto& c = ctx_->settings();
    v.durability = c.storage.durability;
    v.epoch = ctx_->epoch;
    v.schema_version = schema_version_;
    v.queue = g.depth.load();
    v.queue_max = g.bound.load();
    v.batches = g.batches.load();
    v.last_batch = g.last_batch.load();
    v.commit_us_last = g.commit_us_last.load();
    if (auto since = g.commit_since_ns.load(); since != 0)
      v.busy_ms = (steady_ns() - since) / 1'000'000;
    v.state = !g.healthy.load() ? "away" : v.busy_ms.value_or(0) > slow_commit_ms ? "slow" : "ok";
    auto meters = ctx_->meters.snapshot();
    for (std::size_t i = 0; i < ctx_->readers->slots().size(); ++i) {
      storage_view::reader r;
      r.queue = ctx_->readers->slots()[i]->depth.load();
      r.handled = ctx_->readers->slots()[i]->handled.load();
      auto name = "reader-" + std::to_string(i);
      auto at = std::find_if(meters.begin(), meters.end(), [&](const actor_view& a) {
        return a.kind == "reader" && a.id == name;
      });
      if (at != meters.end()) r.busy_ms = at->busy_since_ms;
      v.readers.push_back(r);
    }
    v.reader_queue_max = ctx_->readers->bound();
    return v;
  }

  bool end_session(const std::string& session) override {
    auto s = ctx_->sessions.find(session);
    if (!s) return false;
    // Ended once: whoever looks again finds none, whatever its socket still does.
    ctx_->sessions.remove(session);
    caf::anon_send(s->actor, parley::end_session{1008, "closed by the administrator"});
    return true;
  }

  void passivate(const std::string& room, reply_fn then) override {
    caf::anon_send(ctx_->directory,
                   admin_passivate{room, std::make_shared<reply_fn>(std::move(then))});
  }

  void reload(std::shared_ptr<const config> settings) override {
    apply_settings(std::move(settings));
  }

  std::optional<std::string> not_ready() const override {
    if (ctx_->draining.load()) return "the server is stopping";
    if (!ctx_->gate->healthy.load()) return "the store cannot be written";
    auto since = ctx_->gate->commit_since_ns.load();
    if (since != 0 && steady_ns() - since > slow_commit_ms * 1'000'000)
      return "the store does not answer";
    return std::nullopt;
  }

  const std::string& epoch() const override { return ctx_->epoch; }

  bool drain(milliseconds deadline) override {
    ctx_->draining.store(true);
    auto until = std::chrono::steady_clock::now() + deadline;
    // Accepted is what sits in a mailbox or a room's line, or waits for a commit: all of it shows
    // in meters.
    while (std::chrono::steady_clock::now() < until) {
      if (ctx_->gate->depth.load() == 0 && quiet()) return true;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return false;
  }

  bool stop(milliseconds deadline) override {
    if (stopped_) return true;
    stopped_ = true;
    ctx_->draining.store(true);
    auto until = std::chrono::steady_clock::now() + deadline;
    bool all = true;
    {
      caf::scoped_actor self{*system_};
      // Outermost first; the writer last, so that whatever they decided is stored.
      auto end = [&](const auto& handle) {
        self->send_exit(handle, caf::exit_reason::user_shutdown);
      };
      for (auto& s : ctx_->sessions.all())
        end(s->actor);
      for (auto& g : gateways_)
        end(g);
      end(ctx_->accounts);
      end(ctx_->directory);
      // Rooms are ended by the directory.
      for (auto& p : ctx_->people)
        end(p);
      self->request(ctx_->writer,
                    caf::duration{
                        std::max(milliseconds(100), std::chrono::duration_cast<milliseconds>(
                                                        until - std::chrono::steady_clock::now()))},
                    flush_all{})
          .receive([](const flushed&) {}, [&](const caf::error&) { all = false; });
      for (auto& slot : ctx_->readers->slots())
        end(slot->actor);
      for (auto& h : ctx_->hashers)
        end(h);
      end(ctx_->writer);
    }
    release_handles();
    while (system_->registry().running() > 0 && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(milliseconds(2));
    if (system_->registry().running() > 0) {
      for (const auto& a : ctx_->meters.snapshot())
        log::warn("runtime", "an actor would not end",
                  {{"actor", a.kind + " " + a.id}, {"busy_with", a.busy_with}});
      return false;
    }
    system_.reset();
    lock_.reset();
    return all;
  }

 private:
  /// Counts one request until its callback goes.
  std::shared_ptr<void> take_ticket() {
    asks_.fetch_add(1, std::memory_order_relaxed);
    return std::shared_ptr<void>(nullptr,
                                 [this](void*) { asks_.fetch_sub(1, std::memory_order_relaxed); });
  }

  void apply_settings(std::shared_ptr<const config> c) {
    ctx_->gate->bound.store(c->limits.writer_queue);
    ctx_->meters.slow_ns.store(c->timers.slow_handler_ms * 1'000'000);
    ctx_->set_settings(std::move(c));
  }

  /// No request is on its way: every mailbox is empty, no handler runs, no room has a line.
  bool quiet() const {
    for (const auto& a : ctx_->meters.snapshot())
      if (a.mailbox > 0 || a.busy_since_ms) return false;
    for (const auto& card : ctx_->rooms.all())
      if (card->queued.load() > 0) return false;
    return true;
  }

  void release_handles() {
    gateways_.clear();
    ctx_->people.clear();
    ctx_->hashers.clear();
    ctx_->directory = nullptr;
    ctx_->accounts = nullptr;
    ctx_->writer = nullptr;
    ctx_->readers.reset();
  }

  runtime_options options_;
  system_config config_;
  std::unique_ptr<caf::actor_system> system_;
  std::shared_ptr<void> lock_;
  std::int64_t schema_version_ = 0;
  context_ptr ctx_;
  std::vector<gateway_actor> gateways_;
  std::atomic<std::size_t> next_gateway_{0};
  std::atomic<std::int64_t> asks_{0};
  bool stopped_ = false;
};

}  // namespace

result<std::unique_ptr<runtime>> start_runtime(runtime_options options) {
  if (sodium_init() < 0) return fail(errc::internal, "libsodium could not be initialised");
  auto store = storage::open_writer(*options.settings, *options.counters);
  if (!store) return store.error();
  // That a reader can be opened is known before anybody is let in.
  if (auto probe = storage::open_reader(*options.settings, *options.counters); !probe)
    return probe.error();
  return std::unique_ptr<runtime>(
      std::make_unique<runtime_impl>(std::move(options), std::move(*store)));
}

}  // namespace parley
