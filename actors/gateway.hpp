// Requests over HTTP, in a user's name: whether the token still counts is asked of people, then
// they go the way of sessions' requests, always through the directory.
#pragma once
#include <caf/actor_system.hpp>

#include "actors/context.hpp"

namespace parley {

gateway_actor spawn_gateway(caf::actor_system& system, const context_ptr& ctx, std::size_t index);

}  // namespace parley
