// Registers, logs in, changes what an account is. Passwords are hashed by detached hashers, a
// bounded number at once and a bounded number waiting, so that a wave of log-ins costs the chat
// nothing; wrong guesses are counted.
#pragma once
#include <caf/actor_system.hpp>

#include "actors/context.hpp"

namespace parley {

accounts_actor spawn_accounts(caf::actor_system& system, const context_ptr& ctx);
hasher_actor spawn_hasher(caf::actor_system& system, const context_ptr& ctx, std::size_t index,
                          bool detached);

}  // namespace parley
