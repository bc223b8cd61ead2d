// parley-bench: the command line of the load harness. Each command is in scenarios/.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "fake/fake_server.hpp"
#include "floor/floor_server.hpp"
#include "scenarios/commands.hpp"

using namespace parley::bench;

namespace {

struct Args {
  CommonOptions common;
  Workload workload;
  double interval_ms = 200;
  double duration_s = 0;
  std::size_t messages = 0;
  bool gather = false;
  bool serve = false;
  std::string listen = "127.0.0.1:0";
  double seconds = 0;
  std::size_t sessions = 0;
  std::size_t rooms = 50;
  unsigned outstanding = 8;
  FakeOptions fake;
  double delay_ms = 0;
  std::string drop, duplicate, swap, misroute, stall, refuse, miscount, drop_event;
};

void common_flags(CLI::App& app, Args& a) {
  app.add_option("--server", a.common.parley.program,
                 "the parleyd to start (default: beside this program)");
  app.add_option("--data", a.common.parley.data_parent,
                 "folder in which data folders are made (default /var/tmp)");
  app.add_option("--db", a.common.parley.db, "sqlite or mysql (a private MariaDB is started)")
      ->check(CLI::IsMember({"sqlite", "mysql"}));
  app.add_option("--set", a.common.parley.settings, "KEY=VALUE for the server, repeatable")
      ->take_all();
  app.add_option("--connect", a.common.parley.connect, "HOST:PORT of a server that runs already");
  app.add_option("--admin", a.common.parley.admin, "its admin listener, HOST:PORT");
  app.add_option("--admin-token", a.common.parley.admin_token, "its admin token");
  app.add_option("--runs", a.common.runs, "interleaved runs; claims under 20 % need at least 5")
      ->check(CLI::Range(1, 1000));
  app.add_option("--json", a.common.json_path, "write everything that was measured to this file");
  app.add_option("--plot", a.common.plot_path, "write the plot (SVG) to this file");
  app.add_flag("--keep", a.common.keep, "keep JSON and plot in bench/results/");
  app.add_flag("--check", a.common.check, "a bar that is not met makes the exit status 1");
}

void workload_flags(CLI::App& app, Args& a) {
  Population& p = a.workload.population;
  app.add_option("--rooms", p.rooms, "rooms, each with its own people")->check(CLI::Range(1, 1000));
  app.add_option("--members", p.members, "members per room")->check(CLI::Range(1, 100000));
  app.add_option("--sessions", p.sessions, "of those with a session, per room")
      ->check(CLI::Range(1, 20000));
  app.add_option("--passive", p.passive, "of the sessions, how many do not enter the room");
  app.add_option("--senders", a.workload.senders, "sending sessions per room")
      ->check(CLI::Range(1, 1000));
  app.add_option("--interval", a.interval_ms, "ms between two messages of one sender")
      ->check(CLI::Range(0.1, 60000.0));
  app.add_option("--messages", a.messages, "messages per room (default 50)");
  app.add_option("--duration", a.duration_s, "s; sets the number of messages");
  app.add_flag("--burst", a.workload.burst, "all messages at once");
  app.add_flag("--aligned", a.workload.aligned, "all rooms send at the same instants");
  app.add_flag("--reads", a.workload.mark_reads, "every session marks every message read");
  app.add_option("--text-bytes", a.workload.text_bytes, "length of a message's text")
      ->check(CLI::Range(24, 16000));
  app.add_option("--receivers", a.workload.receivers, "receiving threads")
      ->check(CLI::Range(1, 64));
  app.add_option("--link", a.common.link_ms,
                 "round trip in ms of a link laid between client and server (root)")
      ->check(CLI::Range(0.0, 10000.0));
  app.add_flag("--warm", a.common.warm, "after each cold run one more in the same server process");
}

void settle_workload(Args& a) {
  Workload& w = a.workload;
  w.interval = static_cast<nanos>(a.interval_ms * 1e6);
  if (a.messages > 0) w.messages = a.messages;
  if (a.duration_s > 0)
    w.messages = static_cast<std::size_t>(a.duration_s * 1000 / a.interval_ms) * w.senders;
  w.population.members = std::max(w.population.members, w.population.sessions);
  if (w.population.rooms * w.messages * w.population.sessions > 50'000'000)
    throw Failure("that is over 50 million deliveries: more than this program keeps in memory");
}

void fake_flags(CLI::App& app, Args& a) {
  app.add_option("--listen", a.fake.listen, "HOST:PORT, port 0 lets the kernel choose");
  app.add_option("--delay-ms", a.delay_ms, "from a request to each of its deliveries");
  app.add_option("--drop", a.drop, "MESSAGE:RECEIVER, both from 1, is never delivered");
  app.add_option("--duplicate", a.duplicate, "MESSAGE:RECEIVER is delivered twice");
  app.add_option("--swap", a.swap, "MESSAGE:RECEIVER is delivered after the next one");
  app.add_option("--misroute", a.misroute, "MESSAGE is delivered to another room, too");
  app.add_option("--stall", a.stall, "MESSAGE:MS, at this message everything stops for MS");
  app.add_option("--refuse", a.refuse, "MESSAGE is refused");
  app.add_option("--miscount", a.miscount,
                 "from MESSAGE on passive sessions are told one unread too many");
  app.add_option("--drop-event", a.drop_event,
                 "MESSAGE:RECEIVER, misses an event that comes before MESSAGE");
}

FakeOptions fake_options(Args& a) {
  a.fake.delay = static_cast<nanos>(a.delay_ms * 1e6);
  const auto fault = [](const std::string& text) {
    return text.empty() ? FaultAt{} : parse_fault(text);
  };
  a.fake.drop = fault(a.drop);
  a.fake.duplicate = fault(a.duplicate);
  a.fake.swap = fault(a.swap);
  a.fake.misroute = fault(a.misroute);
  a.fake.stall = fault(a.stall);
  a.fake.refuse = fault(a.refuse);
  a.fake.miscount = fault(a.miscount);
  a.fake.drop_event = fault(a.drop_event);
  return a.fake;
}

}  // namespace

int main(int argc, char** argv) {
  Args a;
  a.common.source_folder = PARLEY_BENCH_CHECKOUT;
  a.common.peers_folder = PARLEY_BENCH_CHECKOUT "/bench/peers";
  CLI::App app{
      "Measures Parley, and what it is compared with, by named scenarios. See bench/README.md."};
  app.require_subcommand(1);

  CLI::App& chat = *app.add_subcommand(
      "chat-room", "50 members, 20 with a session, 50 messages, one every 200 ms");
  common_flags(chat, a);
  workload_flags(chat, a);

  CLI::App& floor = *app.add_subcommand(
      "floor", "chat-room over Parley and over a bare epoll broadcast, interleaved");
  common_flags(floor, a);
  workload_flags(floor, a);
  floor.add_flag("--gather", a.gather,
                 "the floor joins what one turn of its loop has for a room into one write");
  floor.add_flag("--serve", a.serve, "only serve the floor, measure nothing");
  floor.add_option("--listen", a.listen, "with --serve: HOST:PORT");

  CLI::App& peers =
      *app.add_subcommand("peers", "a scenario over Parley and its peers, interleaved in one run");
  peers.require_subcommand(1);
  CLI::App& peers_chat =
      *peers.add_subcommand("chat-room", "beside Socket.IO (installed from npm) and the floor");
  common_flags(peers_chat, a);
  workload_flags(peers_chat, a);
  peers_chat.add_option("--peers", a.common.peers_folder, "folder of the peers");

  peers_chat.add_flag("--peers-only", a.common.peers_only, "leave Parley out");

  CLI::App& idle =
      *app.add_subcommand("idle", "CPU of an idle server, without and with idle sessions");
  common_flags(idle, a);
  double idle_seconds = 60;
  std::size_t idle_sessions = 1000;
  idle.add_option("--seconds", idle_seconds, "length of each measurement")
      ->check(CLI::Range(1.0, 3600.0));
  idle.add_option("--sessions", idle_sessions,
                  "idle sessions of the second measurement; 0 for none")
      ->check(CLI::Range(0, 20000));

  CLI::App& start =
      *app.add_subcommand("start", "from exec to ready over a store with many messages");
  common_flags(start, a);
  std::size_t stored = 100'000;
  start.add_option("--messages", stored, "messages in the store")->check(CLI::Range(1, 10'000'000));

  CLI::App& admin = *app.add_subcommand("admin", "the admin listener's answers while load runs");
  common_flags(admin, a);
  double admin_seconds = 10;
  std::size_t admin_rooms = 20;
  admin.add_option("--seconds", admin_seconds, "length of the load")->check(CLI::Range(1.0, 600.0));
  admin.add_option("--rooms", admin_rooms, "rooms under load")->check(CLI::Range(1, 1000));

  CLI::App& saturate =
      *app.add_subcommand("saturate", "rooms of 20, one sender in each with messages outstanding");
  common_flags(saturate, a);
  double saturate_seconds = 10;
  std::size_t saturate_receivers = 1;
  saturate.add_option("--rooms", a.rooms, "rooms")->check(CLI::Range(1, 1000));
  saturate.add_option("--outstanding", a.outstanding, "unanswered messages per sender")
      ->check(CLI::Range(1, 64));
  saturate.add_option("--seconds", saturate_seconds, "length")->check(CLI::Range(1.0, 600.0));
  saturate.add_option("--receivers", saturate_receivers, "receiving threads")
      ->check(CLI::Range(1, 64));

  CLI::App& thousands =
      *app.add_subcommand("ten-thousand", "many authenticated sessions in one room and in many");
  common_flags(thousands, a);
  std::size_t thousands_sessions = 10'000;
  thousands.add_option("--sessions", thousands_sessions, "sessions")
      ->check(CLI::Range(200, 20'000));

  app.add_subcommand("self-test", "the harness against a server with known delays and faults");
  CLI::App& fake =
      *app.add_subcommand("fake", "serve with known delays and faults (for the self-test)");
  fake_flags(fake, a);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  try {
    if (app.got_subcommand("fake")) return serve_fake(fake_options(a));
    if (app.got_subcommand("self-test")) return self_test_command();
    if (app.got_subcommand("floor") && a.serve) return serve_floor(a.listen, a.gather);
    settle_workload(a);
    if (app.got_subcommand("chat-room"))
      return chat_room_command(a.common, a.workload, Beside::nothing, false);
    if (app.got_subcommand("floor"))
      return chat_room_command(a.common, a.workload, Beside::floor, a.gather);
    if (app.got_subcommand("peers"))
      return chat_room_command(a.common, a.workload, Beside::peers, false);
    if (app.got_subcommand("idle")) return idle_command(a.common, idle_seconds, idle_sessions);
    if (app.got_subcommand("start")) return start_command(a.common, stored);
    if (app.got_subcommand("admin")) {
      a.workload.population.rooms = admin_rooms;
      a.workload.population.members = a.workload.population.sessions;
      return admin_command(a.common, admin_seconds, a.workload);
    }
    if (app.got_subcommand("saturate"))
      return saturate_command(a.common, a.rooms, a.outstanding, saturate_seconds,
                              saturate_receivers);
    return ten_thousand_command(a.common, thousands_sessions);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "parley-bench: %s\n", e.what());
    return 1;
  }
}
