// A shard of the users: who is there with which sessions, whose token still counts, who is online
// in which rooms. What belongs to a user and not to a room is owned here.
#pragma once
#include <caf/actor_system.hpp>

#include "actors/context.hpp"

namespace parley {

people_actor spawn_people(caf::actor_system& system, const context_ptr& ctx, std::size_t shard);

}  // namespace parley
