// The room actor: the only owner of a room. It decides requests on room_state, proposes changes to
// the writer, and speaks to relays only on what is committed. Spawned by the directory alone.
#pragma once
#include <caf/actor_system.hpp>

#include "actors/context.hpp"

namespace parley {

/// Wakes the room `id`, or makes it first where `create` is given (a room.create op whose people
/// are resolved).
room_link_ptr spawn_room(caf::actor_system& system, const context_ptr& ctx, std::string id,
                         op_ptr create);

}  // namespace parley
