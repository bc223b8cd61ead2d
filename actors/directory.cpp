#include "actors/directory.hpp"

#include <caf/send.hpp>

#include <unordered_map>

#include "actors/metered.hpp"
#include "actors/room.hpp"

namespace parley {
namespace {

class directory final : public metered<directory_actor::base> {
 public:
  directory(caf::actor_config& cfg, context_ptr ctx)
      : metered(cfg, ctx->meters, "directory", "directory"), ctx_(std::move(ctx)) {
    // A room that ended by an error leaves its entry behind; the next request wakes it anew.
    set_down_handler([this](caf::scheduled_actor*, caf::down_msg& down) {
      auto at = by_address_.find(down.source);
      if (at == by_address_.end()) return;
      rooms_.erase(at->second);
      by_address_.erase(at);
    });
  }

  behavior_type make_behavior() override {
    return {
        [this](const route& r) {
          std::string id(wire::room_of(r.what->what));
          auto& e = find(id);
          if (e.link->load->length() >= ctx_->settings().limits.room_queue) {
            ctx_->counters.rejected_overloaded.add();
            refuse(*r.what);
            if (r.from) send(r.from->actor, routed{id, nullptr});
            return;
          }
          ++e.sent;
          send(e.link->actor, room_op{r.what, r.from, true});
          if (r.from) send(r.from->actor, routed{id, e.link});
        },
        [this](const create_op& c) {
          const auto& wanted = std::get<wire::room_create>(c.what->what).room;
          auto id = wanted.empty() ? make_id("r_") : wanted;
          if (rooms_.contains(id))
            return c.what->to.fail(fail(errc::conflict, "room: this id is taken"));
          add(id, spawn_room(system(), ctx_, id, c.what));
        },
        [this](const let_me_go& l) {
          auto at = rooms_.find(l.room);
          if (at == rooms_.end()) return;
          auto link = at->second.link;
          bool yes = at->second.sent == l.received;
          if (yes) {
            by_address_.erase(link->actor.address());
            rooms_.erase(at);
            demonitor(link->actor.address());
          }
          send(link->actor, may_go{yes});
        },
        [this](const admin_passivate& p) {
          auto at = rooms_.find(p.room);
          if (at == rooms_.end()) {
            (*p.then)(reply{answer{{}, fail(errc::not_found, "no such room is awake")}, false});
            return;
          }
          send(at->second.link->actor, passivate_now{p.then});
        },
    };
  }

  void on_exit() override {
    // Nobody else holds a room that has nothing on its way.
    for (auto& [id, e] : rooms_)
      send_exit(e.link->actor, caf::exit_reason::user_shutdown);
    rooms_.clear();
    by_address_.clear();
  }

 private:
  struct entry {
    room_link_ptr link;
    std::int64_t sent = 0;
  };

  entry& find(const std::string& id) {
    auto at = rooms_.find(id);
    if (at != rooms_.end()) return at->second;
    return add(id, spawn_room(system(), ctx_, id, nullptr));
  }
  entry& add(const std::string& id, room_link_ptr link) {
    monitor(link->actor);
    by_address_[link->actor.address()] = id;
    return rooms_[id] = entry{std::move(link), 0};
  }
  static void refuse(op& o) {
    failure why{errc::overloaded, "too many requests wait for the room", 1000};
    if (!o.entered) return o.to.fail(why);
    wire::entered e;
    e.error = why;
    o.entered(std::move(e));
    o.entered = nullptr;
  }

  context_ptr ctx_;
  std::unordered_map<std::string, entry> rooms_;
  std::unordered_map<caf::actor_addr, std::string> by_address_;
};

}  // namespace

directory_actor spawn_directory(caf::actor_system& system, const context_ptr& ctx) {
  return system.spawn<directory>(ctx);
}

}  // namespace parley
