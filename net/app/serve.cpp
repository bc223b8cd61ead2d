// `parleyd serve`: the composition root. The only place that knows all parts: it starts them
// downwards (settings, secrets, I/O threads, actors and store, listeners) and stops them upwards,
// each step with a deadline, and all of it under a watchdog that no actor and no loop can hold up.
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "actors/runtime.hpp"
#include "net/app/command.hpp"
#include "net/auth/jwt.hpp"
#include "net/auth/keys.hpp"
#include "net/http/services.hpp"
#include "net/http_session.hpp"
#include "net/io_thread.hpp"
#include "net/listener.hpp"
#include "schemas/log.hpp"
#include "storage/store.hpp"

namespace parley::app {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr auto stop_at_most = 9500ms;   // protocol.md: exit within 10 s of the signal
constexpr auto drain_at_most = 1500ms;  // of these, for what was accepted to be committed
constexpr std::int64_t close_us =
    800;  // between two closes: 10,000 take 8 s, a handful goes at once
constexpr std::int64_t linger_ms = 2500;  // for clients' own closes behind ours
constexpr std::int64_t stuck_ns = 5'000'000'000;

std::int64_t left_ms(clock::time_point until) {
  return std::max<std::int64_t>(
      0, std::chrono::duration_cast<std::chrono::milliseconds>(until - clock::now()).count());
}

sigset_t our_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int s : {SIGTERM, SIGINT, SIGHUP})
    sigaddset(&set, s);
  return set;
}

// Next of our signals, 0 where none came in time.
int next_signal(std::chrono::milliseconds wait) {
  const auto set = our_signals();
  const timespec t{static_cast<time_t>(wait.count() / 1000),
                   static_cast<long>(wait.count() % 1000 * 1'000'000)};
  const int s = ::sigtimedwait(&set, nullptr, &t);
  return s > 0 ? s : 0;
}

// As many descriptors as the machine lets us have: every socket is one.
void raise_descriptor_limit() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == files.rlim_max) return;
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

class server {
 public:
  server(const common_options& o, std::shared_ptr<const config> settings,
         net::auth::data_secrets secrets, std::shared_ptr<const net::auth::foreign_issuer> issuer)
      : options_(o), tokens_(secrets.token_secret, std::move(issuer)),
        context_(tokens_, counters_, std::move(settings)), services_(context_) {
    services_.token_secret = std::move(secrets.token_secret);
    services_.admin_token = std::move(secrets.admin_token);
    services_.reload = [this] { return reload(); };
    services_.check = [c = *context_.settings.get()] { return storage::check_store(c); };
    context_.http = &services_;
  }

  // Starts everything; the failure names the part that could not be.
  std::optional<failure> start() {
    const auto settings = context_.settings.get();
    runtime_options options;
    options.settings = settings;
    options.counters = &counters_;
    options.tokens = &tokens_;
    for (std::int64_t i = 0; i < settings->server.io_threads; ++i) {
      threads_.push_back(std::make_unique<net::io_thread>(static_cast<std::uint32_t>(i), context_));
      options.relays.push_back(&threads_.back()->inbox());
    }
    // The admin listener has a thread of its own, so that it answers while the others are busy.
    admin_thread_ =
        std::make_unique<net::io_thread>(static_cast<std::uint32_t>(threads_.size()), context_);

    auto started = start_runtime(std::move(options));
    if (!started) return started.error();
    runtime_ = std::move(*started);
    context_.rt = runtime_.get();
    net::http::add_main_routes(services_);
    net::http::add_admin_routes(services_);

    std::vector<net::io_thread*> all;
    for (const auto& t : threads_)
      all.push_back(t.get());
    auto main = net::listener::open(settings->server.listen, context_.entrance, *all.front(), all,
                                    [](net::io_thread& io, net::tcp_socket s, std::string peer) {
                                      net::start_http(io, std::move(s), std::move(peer), false);
                                    });
    if (!main) return main.error();
    listener_ = std::move(*main);
    auto admin = net::listener::open(settings->server.admin_listen, admin_entrance_, *admin_thread_,
                                     {admin_thread_.get()},
                                     [](net::io_thread& io, net::tcp_socket s, std::string peer) {
                                       net::start_http(io, std::move(s), std::move(peer), true);
                                     });
    if (!admin) return admin.error();
    admin_listener_ = std::move(*admin);
    // Known to the loops before they run.
    context_.listen_authority = listener_->authority();
    services_.admin_authority = admin_listener_->authority();
    for (const auto& t : threads_)
      t->start();
    admin_thread_->start();
    return std::nullopt;
  }

  // Tells people and scripts where to go. The file appears whole, once all of it is true.
  std::optional<failure> announce() {
    const auto settings = context_.settings.get();
    const auto path = ports_file(*settings), fresh = path + ".new";
    std::ofstream(fresh) << "listen=" << listener_->authority()
                         << "\nadmin=" << admin_listener_->authority() << "\n";
    std::error_code why;
    std::filesystem::rename(fresh, path, why);
    if (why) return fail(errc::internal, "cannot write " + path + ": " + why.message());
    std::string text = "listening on http://" + listener_->authority() + "\nadmin on http://" +
                       admin_listener_->authority() + "\n";
    const auto& url = settings->server.public_url;
    const auto page = url.empty() ? "http://" + listener_->authority() + "/" : url;
    const auto& policy = settings->accounts.registration;
    text += "Open " + page + " in a browser";
    if (policy == "open")
      text += " and register.\n";
    else if (policy == "invitation")
      text += "; `parleyd user invite --data " + settings->storage.data +
              "` prints a code to register with.\n";
    else
      text += "; `parleyd user add NAME --password --data " + settings->storage.data +
              "` makes a user.\n";
    text +=
        "For scripts: `parleyd token USER --data " + settings->storage.data + "` prints a token.\n";
    print(text);
    log::info("serve", "ready",
              {{"listen", listener_->authority()}, {"admin", admin_listener_->authority()}});
    return std::nullopt;
  }

  // Until a signal ends it. HUP reloads; a loop that stands still is told once each time.
  void run() {
    std::vector<bool> told(threads_.size() + 1, false);
    while (true) {
      const int s = next_signal(1000ms);
      if (s == SIGTERM || s == SIGINT) return;
      if (s == SIGHUP)
        if (const auto r = reload(); !r)
          log::error("serve", "the configuration was not reloaded", {{"why", r.error().message}});
      for (std::size_t i = 0; i < told.size(); ++i) {
        const auto& t = i < threads_.size() ? *threads_[i] : *admin_thread_;
        const bool stuck = t.last_turn_ns() != 0 && steady_ns() - t.last_turn_ns() > stuck_ns;
        if (stuck && !told[i])
          log::warn("serve", "an I/O thread does not come round", {{"thread", std::to_string(i)}});
        told[i] = stuck;
      }
    }
  }

  // Stops upwards. True where all went by the book.
  bool stop(clock::time_point until) {
    log::info("serve", "stopping",
              {{"connections", std::to_string(counters_.connections_ws.get())}});
    context_.stopping = true;
    listener_->close();
    // Requests whose outcome stays open are answered by nobody, as the contract has it; stopping
    // goes on.
    const bool drained = runtime_->drain(std::min<std::chrono::milliseconds>(
        drain_at_most, std::chrono::milliseconds(left_ms(until))));
    if (!drained)
      log::warn("serve", "not all that was accepted is committed; its senders were told nothing");

    // Spread, so that clients which come back after a fixed time do not all come at once.
    const auto settings = context_.settings.get();
    const auto spread =
        std::min({settings->server.drain_ms, counters_.connections_ws.get() * close_us / 1000,
                  std::max<std::int64_t>(0, left_ms(until) - 1500)});
    struct count {
      std::mutex lock;
      std::condition_variable changed;
      std::size_t open;
    };
    const auto waiting = std::make_shared<count>();
    waiting->open = threads_.size();
    for (const auto& t : threads_)
      t->close_all(1001, "the server is stopping", spread, [waiting] {
        std::lock_guard hold(waiting->lock);
        --waiting->open;
        waiting->changed.notify_all();
      });
    {
      std::unique_lock hold(waiting->lock);
      // All has been said when the spread is over; a client that neither answers the close nor goes
      // away is not waited for much longer.
      waiting->changed.wait_for(
          hold,
          std::chrono::milliseconds(
              std::min(spread + linger_ms, std::max<std::int64_t>(0, left_ms(until) - 1000))),
          [&] { return waiting->open == 0; });
    }
    const bool good = runtime_->stop(
        std::chrono::milliseconds(std::max<std::int64_t>(200, left_ms(until) - 300)));
    admin_listener_->close();
    for (const auto& t : threads_)
      t->stop();
    admin_thread_->stop();
    std::error_code ignored;
    std::filesystem::remove(ports_file(*settings), ignored);
    log::info("serve", "stopped");
    return good;
  }

  // Where starting failed half-way: whatever stands is taken down.
  void abandon() {
    if (runtime_) runtime_->stop(3s);
    for (const auto& t : threads_)
      t->stop();
    if (admin_thread_) admin_thread_->stop();
  }

  bool checking() const { return services_.checking.load(); }

 private:
  result<net::http::reload_report> reload() {
    std::lock_guard hold(reloading_);
    auto loaded = load_config(source_of(options_));
    if (!loaded) return loaded.error();
    auto issuer = net::auth::load_issuer(loaded->tokens);
    if (!issuer) return issuer.error();
    const auto running = context_.settings.get();
    const auto next = std::make_shared<const config>(reloaded(*running, *loaded));
    net::http::reload_report report;
    report.restart = waiting_for_restart(*running, *loaded);
    const auto before = describe(*running), after = describe(*next);
    for (std::size_t i = 0; i < before.size() && i < after.size(); ++i)
      if (before[i].value != after[i].value) report.changed.push_back(after[i].name);
    log::setup(next->log.level, next->log.format);
    tokens_.use(std::move(*issuer));
    context_.settings.set(next);
    runtime_->reload(next);
    std::string changed;
    for (const auto& k : report.changed)
      changed += (changed.empty() ? "" : " ") + k;
    log::info("serve", "configuration reloaded", {{"changed", changed}});
    return report;
  }

  const common_options options_;
  metrics counters_;
  net::auth::jwt_checker tokens_;
  net::server_context context_;
  net::http::services services_;
  net::doors admin_entrance_;
  std::mutex reloading_;
  // In the order of the start; destroyed the other way round.
  std::vector<std::unique_ptr<net::io_thread>> threads_;
  std::unique_ptr<net::io_thread> admin_thread_;
  std::unique_ptr<runtime> runtime_;
  std::shared_ptr<net::listener> listener_, admin_listener_;
};

// Ends the process whatever else hangs: at a second signal at once, else when the time is over. It
// is a plain thread and writes by itself, since the log's thread may be what hangs.
void start_watchdog(clock::time_point until) {
  std::thread([until] {
    while (clock::now() < until) {
      const int s = next_signal(20ms);
      if (s == SIGTERM || s == SIGINT) ::_exit(failed);
    }
    const auto line = log::format_line(log::level::error, "serve",
                                       "stopping took too long: ended hard", {}, false) +
                      "\n";
    [[maybe_unused]] const auto n = ::write(STDERR_FILENO, line.data(), line.size());
    ::_exit(failed);
  }).detach();
}

}  // namespace

int run_serve(const common_options& o) {
  const auto began = clock::now();
  // Before any thread (the log has one), so that all inherit it and signals come to this one alone.
  const auto signals = our_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const auto settings = settings_of(o);
  if (!settings) return wrong;
  log::setup(settings->log.level, settings->log.format);
  auto issuer = net::auth::load_issuer(settings->tokens);
  if (!issuer) return complain(issuer.error(), wrong);
  auto secrets = net::auth::load_or_make_secrets(settings->storage.data);
  if (!secrets) return complain(secrets.error());
  for (const auto& file : secrets->exposed)
    log::warn("serve", "a secret can be read by others than its owner; chmod 600 it",
              {{"file", file}});
  raise_descriptor_limit();

  const auto owned = std::make_unique<server>(o, std::make_shared<const config>(*settings),
                                              std::move(*secrets), std::move(*issuer));
  auto* s = owned.get();
  if (auto why = s->start()) {
    s->abandon();
    return complain(*why, why->code == errc::bad_request ? wrong : failed);
  }
  if (auto why = s->announce()) {
    s->abandon();
    return complain(*why);
  }
  log::debug(
      "serve", "started",
      {{"ms",
        std::to_string(
            std::chrono::duration_cast<std::chrono::milliseconds>(clock::now() - began).count())}});
  s->run();
  const auto until = clock::now() + stop_at_most;
  start_watchdog(until);
  const bool good = s->stop(until);
  // A check that still reads the store cannot be called back: the process ends under it.
  if (s->checking()) ::_exit(good ? done : failed);
  return good ? done : failed;
}

}  // namespace parley::app
