#include "actors/prepare.hpp"

#include <sodium.h>

#include "schemas/text.hpp"

namespace parley {
namespace {

// BLAKE2b, 16 bytes in hex: what is compared under the same nonce. Fields are joined by their
// lengths, so that no two requests share an encoding.
std::string hash_of(std::initializer_list<std::string_view> parts) {
  crypto_generichash_state state;
  crypto_generichash_init(&state, nullptr, 0, 16);
  for (auto p : parts) {
    auto length = static_cast<std::uint64_t>(p.size());
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(&length),
                              sizeof length);
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(p.data()), p.size());
  }
  unsigned char out[16];
  crypto_generichash_final(&state, out, sizeof out);
  char hex[2 * sizeof out + 1];
  sodium_bin2hex(hex, sizeof hex, out, sizeof out);
  return hex;
}

std::string number(const std::optional<std::int64_t>& v) {
  return v ? std::to_string(*v) : std::string();
}

constexpr std::size_t room_name_most = 100, topic_most = 500;

}  // namespace

void prepare(op& o, const config& c, rate_bucket* bucket, metrics& counters) {
  if (const auto* m = std::get_if<wire::message_send>(&o.what)) {
    std::string media;
    for (const auto& id : m->media)
      media += id + "\n";
    o.hash = hash_of({"send", m->text, number(m->reply_to), media});
    if (auto why =
            check_text(m->text, static_cast<std::size_t>(c.limits.text_code_points), "text")) {
      o.refuse = std::move(why);
    } else if (bucket != nullptr) {
      if (auto wait = bucket->take(steady_ns(), c.limits.messages_per_s, c.limits.messages_burst)) {
        counters.rejected_rate_limited.add();
        o.refuse = failure{errc::rate_limited, "too many messages", wait};
      }
    }
  } else if (const auto* n = std::get_if<wire::room_create>(&o.what)) {
    std::string members;
    for (const auto& id : n->members)
      members += id + "\n";
    o.hash = hash_of({"create", n->name, to_string(n->kind), to_string(n->history), members});
  } else if (const auto* j = std::get_if<wire::room_join>(&o.what)) {
    o.hash = hash_of({"join", j->room});
  } else if (const auto* l = std::get_if<wire::room_leave>(&o.what)) {
    o.hash = hash_of({"leave", l->room});
  } else if (const auto* i = std::get_if<wire::room_invite>(&o.what)) {
    o.hash = hash_of({"invite", i->room, i->user});
  } else if (const auto* x = std::get_if<wire::room_change>(&o.what)) {
    const auto& s = x->settings;
    o.hash = hash_of({"change", s.name.value_or(""), s.topic.value_or(""), number(s.slow_mode_s),
                      number(s.retention_days), s.history ? to_string(*s.history) : ""});
    if (s.name) o.refuse = check_title(*s.name, room_name_most, "name");
    if (!o.refuse && s.topic && !s.topic->empty())
      o.refuse = check_title(*s.topic, topic_most, "topic");
    if (!o.refuse && s.slow_mode_s && (*s.slow_mode_s < 0 || *s.slow_mode_s > 86400))
      o.refuse = fail(errc::bad_request, "slow_mode_s: 0 to 86400");
    if (!o.refuse && s.retention_days && (*s.retention_days < 0 || *s.retention_days > 36500))
      o.refuse = fail(errc::bad_request, "retention_days: 0 to 36500");
  }
}

std::vector<std::string> people_named(const wire::request& r) {
  if (const auto* c = std::get_if<wire::room_create>(&r)) return c->members;
  if (const auto* i = std::get_if<wire::room_invite>(&r)) return {i->user};
  return {};
}

std::optional<failure> check_create(const wire::room_create& r, std::string_view creator) {
  if (r.kind == room_kind::direct) {
    std::size_t others = 0;
    for (const auto& m : r.members)
      others += m != creator ? 1 : 0;
    if (others != 1 || r.members.size() > 2)
      return fail(errc::bad_request, "members: a direct room has exactly one other member");
    if (r.name.empty()) return std::nullopt;
  }
  return check_title(r.name, room_name_most, "name");
}

}  // namespace parley
