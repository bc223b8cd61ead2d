// The session actor: one per connection from hello on. It knows whose it is, what it may, and which
// rooms it holds; it is not on the way of events, which relays deliver.
#pragma once
#include <caf/actor_system.hpp>

#include "actors/context.hpp"

namespace parley {

session_ref spawn_session(caf::actor_system& system, const context_ptr& ctx, connection_id conn,
                          std::shared_ptr<session_card> card);

}  // namespace parley
