// Namespaces, veth with netem, and the TUN delay line. See link.hpp.
#include "client/link.hpp"

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "client/http.hpp"
#include "client/process.hpp"

namespace parley::bench {

namespace {

Fd current_netns() { return Fd(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)); }

// A new, empty network namespace; the calling thread stays where it was.
Fd new_netns() {
  const Fd home = current_netns();
  if (::unshare(CLONE_NEWNET) != 0)
    throw Failure(std::string("--link needs root: cannot make a network namespace: ") +
                  std::strerror(errno));
  Fd made = current_netns();
  if (::setns(home.get(), CLONE_NEWNET) != 0)
    throw Failure(std::string("cannot return from a network namespace: ") + std::strerror(errno));
  return made;
}

void ip_command(int netns, const std::vector<std::string>& args) {
  const CommandResult result = run_command(args, 10 * sec, netns);
  if (result.status != 0) {
    std::string line;
    for (const auto& a : args)
      line += (line.empty() ? "" : " ") + a;
    throw Failure("--link: `" + line + "` failed: " + result.output);
  }
}

constexpr const char* client_ip = "10.77.0.1";
constexpr const char* server_ip = "10.77.0.2";

// One direction of the delay line: packets and when each may leave.
struct Held {
  nanos due = 0;
  std::vector<char> packet;
};

}  // namespace

NamespaceGuard::NamespaceGuard(int netns) {
  if (netns < 0) return;
  home_ = current_netns();
  if (::setns(netns, CLONE_NEWNET) != 0)
    throw Failure(std::string("cannot enter a network namespace: ") + std::strerror(errno));
}

NamespaceGuard::~NamespaceGuard() {
  if (home_ && ::setns(home_.get(), CLONE_NEWNET) != 0) std::abort();  // the thread would be lost
}

struct Link::Impl {
  Fd client_ns;
  Fd server_ns;
  std::string kind;
  std::string address = server_ip;
  nanos half = 0;
  Fd client_tun;
  Fd server_tun;
  Fd wake;
  std::atomic<bool> stop{false};
  std::atomic<nanos> cpu{0};
  std::atomic<std::uint64_t> dropped{0};
  std::thread line;

  void make_veth() {
    // The devices live in the two anonymous namespaces only, so nothing is left when this process
    // dies; `ip` reaches them through this process' descriptors.
    const std::string self = "/proc/" + std::to_string(getpid()) + "/fd/";
    const std::string there = self + std::to_string(server_ns.get());
    ip_command(client_ns.get(), {"ip", "link", "add", "pbl0", "type", "veth", "peer", "name",
                                 "pbl1", "netns", there});
  }

  void set_up(int netns, const char* device, const char* address_of) {
    ip_command(netns, {"ip", "addr", "add", std::string(address_of) + "/30", "dev", device});
    ip_command(netns, {"ip", "link", "set", device, "up"});
    ip_command(netns, {"ip", "link", "set", "lo", "up"});
  }

  void open_tun(Fd& into, int netns, const char* device) {
    const NamespaceGuard inside(netns);
    into = Fd(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
    ifreq request{};
    request.ifr_flags = IFF_TUN | IFF_NO_PI;
    std::strncpy(request.ifr_name, device, IFNAMSIZ - 1);
    if (!into || ::ioctl(into.get(), TUNSETIFF, &request) != 0)
      throw Failure(std::string("--link: this kernel has no netem, and no TUN device either: ") +
                    std::strerror(errno));
  }

  void run_line() {
    prctl(PR_SET_TIMERSLACK, 1);
    constexpr std::size_t bound = 200'000;  // packets held per direction
    std::deque<Held> up;
    std::deque<Held> down;
    std::array<char, 2048> buffer{};
    const auto take = [&](int from, std::deque<Held>& into) {
      for (int i = 0; i < 256; ++i) {
        const ssize_t n = ::read(from, buffer.data(), buffer.size());
        if (n <= 0) return;
        if (into.size() >= bound) {
          dropped.fetch_add(1);
          continue;
        }
        into.push_back({now() + half, std::vector<char>(buffer.data(), buffer.data() + n)});
      }
    };
    const auto give = [&](int to, std::deque<Held>& from) {
      while (!from.empty() && from.front().due <= now()) {
        const auto& packet = from.front().packet;
        if (::write(to, packet.data(), packet.size()) < 0 && errno != EINVAL) dropped.fetch_add(1);
        from.pop_front();
      }
    };
    while (!stop.load()) {
      nanos next = now() + 100 * ms;
      if (!up.empty()) next = std::min(next, up.front().due);
      if (!down.empty()) next = std::min(next, down.front().due);
      const nanos left = std::max<nanos>(0, next - now());
      const timespec wait{left / sec, left % sec};
      std::array<pollfd, 3> fds{pollfd{client_tun.get(), POLLIN, 0},
                                pollfd{server_tun.get(), POLLIN, 0}, pollfd{wake.get(), POLLIN, 0}};
      ::ppoll(fds.data(), fds.size(), &wait, nullptr);
      if ((fds[0].revents & POLLIN) != 0) take(client_tun.get(), up);
      if ((fds[1].revents & POLLIN) != 0) take(server_tun.get(), down);
      give(server_tun.get(), up);
      give(client_tun.get(), down);
      cpu.store(thread_cpu());
    }
  }
};

Link::Link(nanos round_trip) : impl_(std::make_unique<Impl>()) {
  Impl& d = *impl_;
  d.half = round_trip / 2;
  d.client_ns = new_netns();
  d.server_ns = new_netns();
  const std::string delay = std::to_string(d.half / us) + "us";
  bool netem = false;
  std::string why;
  try {
    d.make_veth();
    netem = true;
    for (const auto& [ns, device] :
         {std::pair{d.client_ns.get(), "pbl0"}, {d.server_ns.get(), "pbl1"}}) {
      const CommandResult r = run_command(
          {"tc", "qdisc", "add", "dev", device, "root", "netem", "delay", delay, "limit", "200000"},
          10 * sec, ns);
      if (r.status != 0) netem = false;
    }
    if (!netem) ip_command(d.client_ns.get(), {"ip", "link", "del", "pbl0"});
  } catch (const Failure& e) {
    netem = false;
    why = e.what();
  }
  d.kind = netem ? "netem" : "tun";
  if (!netem) {
    d.open_tun(d.client_tun, d.client_ns.get(), "pbl0");
    d.open_tun(d.server_tun, d.server_ns.get(), "pbl1");
  }
  d.set_up(d.client_ns.get(), "pbl0", client_ip);
  d.set_up(d.server_ns.get(), "pbl1", server_ip);
  if (!netem) {
    d.wake = Fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    d.line = std::thread([&d] { d.run_line(); });
  }
}

Link::~Link() {
  impl_->stop.store(true);
  if (impl_->line.joinable()) {
    const std::uint64_t one = 1;
    if (::write(impl_->wake.get(), &one, sizeof one) < 0) {
      // the line also looks every 100 ms
    }
    impl_->line.join();
  }
}

int Link::server_netns() const { return impl_->server_ns.get(); }
const std::string& Link::server_address() const { return impl_->address; }
int Link::client_netns() const { return impl_->client_ns.get(); }
const std::string& Link::kind() const { return impl_->kind; }
nanos Link::cpu() const { return impl_->cpu.load(); }
std::uint64_t Link::dropped() const { return impl_->dropped.load(); }

}  // namespace parley::bench
