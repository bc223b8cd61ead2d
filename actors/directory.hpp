// Finds rooms by id, wakes those that sleep and makes new ones; the only place where a room is
// spawned. It counts what it passes on, so that a room which wants to be put away can be told
// whether something is still on its way.
#pragma once
#include <caf/actor_system.hpp>

#include "actors/context.hpp"

namespace parley {

directory_actor spawn_directory(caf::actor_system& system, const context_ptr& ctx);

}  // namespace parley
