// What a room knows and how it decides: members and roles, numbers, marks, recent nonces. Pure: no
// actor, no clock, no socket; time is passed in. The room actor moves the messages around it.
//
// Two lines of state stand side by side. *Decided* is what new requests are judged by: it includes
// what has been proposed and is not committed yet. *Committed* is what has been told to clients.
// `rewind` throws the difference away.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "actors/ports.hpp"
#include "storage/store.hpp"

namespace parley {

class room_state {
 public:
  struct member {
    profile who;
    role r = role::member;                  // decided
    membership state = membership::joined;  // decided
    seq_no joined_seq = 0;
    unix_ms joined_at = 0;
    seq_no read_seq = 0;  // committed mark
    std::int64_t read_n = 0, read_own = 0;
    std::int64_t own_n = 0, own_next = 0;  // own messages: committed, decided
    bool online = false;
    std::optional<unix_ms> last_seen;
    std::optional<unix_ms> muted_until;
    notify_level level = notify_level::all;
    bool pinned = false;
    std::int64_t order = 0;
    std::vector<connection_id> conns;  // its connections that the room knows
  };

  // ---- loading
  void load(storage::room_load&& from);

  // ---- looking
  const storage::room_row& row() const { return row_; }
  seq_no head() const { return row_.head_seq; }  // committed
  seq_no decided_head() const { return next_seq_; }
  std::int64_t head_n() const { return row_.head_n; }  // committed
  const member* find(user_key user) const;
  member* find(user_key user);
  const member* joined(user_key user) const;  // null unless a member now (decided)
  std::unordered_map<user_key, member>& members() { return members_; }
  std::int64_t joined_count() const { return joined_; }
  std::int64_t online_count() const { return online_; }
  /// The member's numbers as of the committed head.
  numbers numbers_of(const member& m) const;
  /// What a non-member is told: a public room's content is forbidden, any other room does not
  /// exist.
  failure outsider() const;
  /// From where on a member may read (`history: joined`).
  seq_no first_visible(const member& m) const;
  room_summary summary() const;
  room_summary summary_for(const member& m) const;

  // ---- nonces of messages
  struct known {
    seq_no seq = 0;
    unix_ms at = 0;
    std::string hash;
  };  // seq 0: proposed, not committed
  const known* nonce(user_key user, const std::string& nonce) const;
  void remember(user_key user, const std::string& nonce, known what);
  void forget(user_key user, const std::string& nonce);

  // ---- deciding: each gives the changes to be proposed and moves the decided line
  storage::append_message send(user_key user, std::string nonce, std::string hash, std::string text,
                               std::optional<seq_no> reply_to, unix_ms now);
  storage::append_member join(const profile& who, unix_ms now);
  /// The leave; where the last owner leaves and others stay, the successor's change behind it.
  std::vector<storage::append_member> leave(user_key user, unix_ms now);
  storage::append_member invite(const profile& who, user_key by, unix_ms now);
  storage::append_room_change change(user_key by, const room_settings& what, unix_ms now);

  // ---- committed
  void committed(const storage::append_message& m);
  void committed_member(const storage::append_member& m);
  void committed_settings(const storage::append_room_change& c);
  void mark(user_key user, seq_no read_seq, std::int64_t read_n, std::int64_t read_own);
  void set_online(member& m, bool on);

  /// Nothing that was proposed counts any more (messages only: the rest needs a reload).
  void rewind();

  static constexpr std::size_t nonces_kept = 2000;

 private:
  unix_ms stamp(unix_ms now) { return last_at_ = now > last_at_ ? now : last_at_; }
  static std::string nonce_key(user_key user, const std::string& nonce) {
    return std::to_string(raw(user)) + "/" + nonce;
  }
  void set_state(member& m, membership to);

  storage::room_row row_;  // committed head, settings decided
  std::unordered_map<user_key, member> members_;
  seq_no next_seq_ = 0;  // decided: the last one given out
  std::int64_t next_n_ = 0;
  unix_ms last_at_ = 0;
  std::int64_t joined_ = 0, online_ = 0;
  std::unordered_map<std::string, known> nonces_;
  std::deque<std::string> nonce_order_;
};

}  // namespace parley
