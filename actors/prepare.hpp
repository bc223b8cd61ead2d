// What sessions and the HTTP gateway do alike before a request reaches its room: text rules, rate,
// the request's hash, the people it names; and the requests that concern no room.
#pragma once
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "actors/context.hpp"
#include "actors/op.hpp"

namespace parley {

/// Sets `hash` and, where the request breaks a rule that a known nonce comes before, `refuse`.
void prepare(op& o, const config& c, rate_bucket* bucket, metrics& counters);
/// The ids of the people whom a request names and who must exist.
std::vector<std::string> people_named(const wire::request& r);
/// Rules of room.create that need no database: null, or why not.
std::optional<failure> check_create(const wire::room_create& r, std::string_view creator);

/// Resolves people, then goes on with `then`; whoever is unknown fails the op with not_found.
template <class Self, class Then>
void resolve_people(Self* self, const context_ptr& ctx, op_ptr o, Then then) {
  auto ids = people_named(o->what);
  if (ids.empty()) return then();
  ctx->readers->read<std::vector<profile>>(
      self, [ids](storage::reader_store& s) { return s.users_by_id(ids); },
      [o, ids, then](result<std::vector<profile>> found) {
        if (!found) {
          if (!o->refuse) o->refuse = found.error();
          return then();
        }
        for (const auto& id : ids) {
          auto at = std::find_if(found->begin(), found->end(),
                                 [&](const profile& p) { return p.id == id; });
          if (at == found->end() || at->deleted) {
            if (!o->refuse) o->refuse = fail(errc::not_found, "user: no such user: " + id);
          } else {
            o->resolved.push_back(*at);
          }
        }
        then();
      });
}

/// rooms, users: reads that concern no one room.
template <class Self> void answer_rooms(Self* self, const context_ptr& ctx, op_ptr o) {
  const auto& r = std::get<wire::rooms>(o->what);
  ctx->readers->read<storage::reader_store::room_page>(
      self,
      [user = o->who.key, cursor = r.cursor.value_or(""),
       limit = std::clamp<std::int64_t>(r.limit.value_or(50), 1, 100)](storage::reader_store& s) {
        return s.room_list(user, cursor, limit);
      },
      [ctx, o](result<storage::reader_store::room_page> page) {
        if (!page) return o->to.fail(page.error());
        for (auto& room : page->rooms)
          room.online = ctx->online.of(room.key);
        o->to.ok(wire::rooms_fields(page->rooms, page->next));
      });
}

template <class Self> void answer_users(Self* self, const context_ptr& ctx, op_ptr o) {
  const auto& r = std::get<wire::users>(o->what);
  ctx->readers->read<std::vector<profile>>(
      self, [ids = r.users](storage::reader_store& s) { return s.users_by_id(ids); },
      [o](result<std::vector<profile>> found) {
        if (!found) return o->to.fail(found.error());
        o->to.ok(wire::users_fields(*found));
      });
}

template <class Self> void create_room(Self* self, const context_ptr& ctx, op_ptr o) {
  if (auto why = check_create(std::get<wire::room_create>(o->what), o->who.id))
    return o->to.fail(*why);
  prepare(*o, ctx->settings(), nullptr, ctx->counters);
  resolve_people(self, ctx, o, [self, ctx, o] {
    if (o->refuse) return o->to.fail(*o->refuse);
    self->send(ctx->directory, create_op{o});
  });
}

}  // namespace parley
