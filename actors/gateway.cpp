#include "actors/gateway.hpp"

#include <caf/send.hpp>

#include "actors/metered.hpp"
#include "actors/prepare.hpp"

namespace parley {
namespace {

const caf::duration people_deadline{std::chrono::seconds(10)};

class gateway final : public metered<gateway_actor::base> {
 public:
  gateway(caf::actor_config& cfg, context_ptr ctx, std::size_t index)
      : metered(cfg, ctx->meters, "gateway", "gateway-" + std::to_string(index)),
        ctx_(std::move(ctx)) {}

  behavior_type make_behavior() override {
    return {[this](const gateway_op& g) {
      auto o = g.what;
      if (ctx_->draining.load(std::memory_order_relaxed))
        return o->to.fail(failure{errc::unavailable, "the server is stopping", 1000});
      request(ctx_->people_of(g.who.user), people_deadline, authenticate{g.who})
          .then(
              [this, o](const authenticated& a) {
                if (!*a.what) return o->to.fail(a.what->error());
                o->who = (*a.what)->who;
                go(o, (*a.what)->bucket.get());
              },
              [o](const caf::error&) {
                o->to.fail(failure{errc::unavailable, "the server is busy", 1000});
              });
    }};
  }

 private:
  void go(const op_ptr& o, rate_bucket* bucket) {
    o->parsed_ns = steady_ns();
    if (std::holds_alternative<wire::ping>(o->what)) return o->to.ok("");
    if (std::holds_alternative<wire::rooms>(o->what)) return answer_rooms(this, ctx_, o);
    if (std::holds_alternative<wire::users>(o->what)) return answer_users(this, ctx_, o);
    if (std::holds_alternative<wire::room_create>(o->what)) return create_room(this, ctx_, o);
    auto id = wire::room_of(o->what);
    if (id.empty()) return o->to.fail(fail(errc::bad_request, "only a session may do this"));
    if (!is_id(id)) return o->to.fail(fail(errc::not_found, "no such room"));
    prepare(*o, ctx_->settings(), bucket, ctx_->counters);
    resolve_people(this, ctx_, o, [this, o] { send(ctx_->directory, route{o, nullptr}); });
  }

  context_ptr ctx_;
};

}  // namespace

gateway_actor spawn_gateway(caf::actor_system& system, const context_ptr& ctx, std::size_t index) {
  return system.spawn<gateway>(ctx, index);
}

}  // namespace parley
