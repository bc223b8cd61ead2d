// What every actor of the server is given: handles of the fixed actors, ports, settings, counters.
// Made by the runtime, which fills in the handles in the order in which they are spawned, before
// the first request comes.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/interfaces.hpp"
#include "actors/reader_pool.hpp"
#include "actors/storage_writer.hpp"

namespace parley {

/// How many of a room's members are online, for room lists of rooms that sleep. Written by people,
/// read by sessions.
class online_board {
 public:
  void add(room_key room, std::int64_t by) {
    std::lock_guard hold(lock_);
    auto at = counts_.try_emplace(room, 0).first;
    at->second += by;
    if (at->second <= 0) counts_.erase(at);
  }
  std::int64_t of(room_key room) const {
    std::lock_guard hold(lock_);
    auto at = counts_.find(room);
    return at == counts_.end() ? 0 : at->second;
  }

 private:
  mutable std::mutex lock_;
  std::unordered_map<room_key, std::int64_t> counts_;
};

/// A room's numbers for the admin listener, written by the room alone.
struct room_card {
  std::string room;
  std::atomic<int> state{0};  // 0 loading, 1 awake, 2 passivating, 3 missing
  std::atomic<std::int64_t> members{0}, online{0}, active{0}, passive{0}, last_seq{0}, queued{0};
  meter_ptr load;
};

class room_table {
 public:
  void add(const std::shared_ptr<room_card>& card) {
    std::lock_guard hold(lock_);
    cards_[card.get()] = card;
  }
  void remove(const std::shared_ptr<room_card>& card) {
    std::lock_guard hold(lock_);
    cards_.erase(card.get());
  }
  std::vector<std::shared_ptr<room_card>> all() const {
    std::lock_guard hold(lock_);
    std::vector<std::shared_ptr<room_card>> out;
    out.reserve(cards_.size());
    for (const auto& [key, card] : cards_)
      out.push_back(card);
    return out;
  }

 private:
  mutable std::mutex lock_;
  std::unordered_map<room_card*, std::shared_ptr<room_card>> cards_;
};

class session_table {
 public:
  void add(const session_ref& s) {
    std::lock_guard hold(lock_);
    all_[s->card->session] = s;
  }
  void remove(const std::string& session) {
    std::lock_guard hold(lock_);
    all_.erase(session);
  }
  session_ref find(const std::string& session) const {
    std::lock_guard hold(lock_);
    auto at = all_.find(session);
    return at == all_.end() ? nullptr : at->second;
  }
  std::vector<session_ref> all() const {
    std::lock_guard hold(lock_);
    std::vector<session_ref> out;
    out.reserve(all_.size());
    for (const auto& [key, s] : all_)
      out.push_back(s);
    return out;
  }

 private:
  mutable std::mutex lock_;
  std::unordered_map<std::string, session_ref> all_;
};

struct context {
  explicit context(metrics& m) : counters(m) {}

  // ports and settings
  std::vector<relay*> relays;
  const token_checker* tokens = nullptr;
  wall_clock now = system_now_ms;
  metrics& counters;
  std::string epoch;

  const config& settings() const { return *settings_.load(std::memory_order_acquire); }
  /// Old settings stay alive, since anybody may be reading them; reloads are rare.
  void set_settings(std::shared_ptr<const config> c) {
    std::lock_guard hold(kept_lock_);
    settings_.store(c.get(), std::memory_order_release);
    kept_.push_back(std::move(c));
  }

  // shared books
  meter_table meters;
  online_board online;
  room_table rooms;
  session_table sessions;
  std::shared_ptr<writer_gate> gate = std::make_shared<writer_gate>();
  std::atomic<bool> draining{false};

  // the fixed actors
  std::unique_ptr<reader_pool> readers;
  writer_actor writer;
  directory_actor directory;
  std::vector<people_actor> people;
  accounts_actor accounts;
  std::vector<hasher_actor> hashers;

  /// The shard that owns the user with this id.
  people_actor& people_of(std::string_view user_id) {
    return people[std::hash<std::string_view>{}(user_id) % people.size()];
  }

 private:
  std::atomic<const config*> settings_{nullptr};
  std::mutex kept_lock_;
  std::vector<std::shared_ptr<const config>> kept_;
};
using context_ptr = std::shared_ptr<context>;

}  // namespace parley
