// A strict reading of client JSON in one pass of nlohmann's SAX parser: what is known lands in a flat table of
// fields, the rest is only checked. Then one function per op turns the table into its struct.
// Nothing here looks at stored state; text and names are checked by their owners.
#include "schemas/wire/json_decode.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>

#include "schemas/text.hpp"
#include "schemas/wire/json_encode.hpp"

namespace parley::wire {

namespace {

using json = nlohmann::json;

constexpr seq_no greatest_seq = 9007199254740991;  // 2^53 - 1: what a JavaScript number holds exactly
constexpr std::size_t longest_id_bytes = 256;      // of a request's `id`, which is echoed
constexpr std::size_t most_rooms_entered = 200;    // protocol.md: hello's `enter`
constexpr std::size_t most_users = 100;            // protocol.md: the op `users`
constexpr std::size_t most_members = 1000;         // of room.create, one transaction
constexpr std::size_t most_media = 100;
constexpr std::size_t most_listed = 1001;  // what a list keeps: enough to see that it is too long
constexpr std::size_t longest_client = 128;
constexpr std::size_t longest_cursor = 512;
constexpr std::int64_t most_per_page = 200;
constexpr std::size_t deepest_scanned = 1024;  // beyond it nothing is read on, not even for the id

/// Fields that some op knows.
enum name : std::uint8_t {
  n_op, n_id, n_room, n_nonce, n_text, n_seq, n_reply_to, n_media, n_token, n_client, n_epoch, n_enter, n_cursor,
  n_limit, n_users, n_name, n_kind, n_members, n_place, n_history, n_user, n_topic, n_slow_mode_s,
  n_retention_days, n_after_seq, n_before_seq, n_on, n_count
};
constexpr std::array<std::string_view, n_count> names = {
    "op",      "id",    "room",    "nonce", "text", "seq",  "reply_to", "media", "token",
    "client",  "epoch", "enter",   "cursor", "limit", "users", "name",   "kind",  "members",
    "place",   "history", "user",  "topic", "slow_mode_s", "retention_days", "after_seq", "before_seq", "on"};

name find_name(std::string_view key) {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == key) return static_cast<name>(i);
  return n_count;
}

enum class shape : std::uint8_t { absent, null, boolean, integer, other_number, string, array, object };

struct value {
  shape is = shape::absent;
  bool flag = false;
  std::int64_t number = 0;
  std::string text;  // of a string; of a number that is no 64-bit integer, as it was written
};

/// What the parser saw of a frame's top level.
struct table {
  std::array<value, n_count> at;
  std::array<std::vector<value>, 3> lists;               // users, members, media
  std::vector<std::pair<std::string, value>> enter;      // room and after_seq, in the frame's order
  std::size_t entered = 0;
};

std::vector<value>* list_of(table& t, name n) {
  switch (n) {
  case n_users: return &t.lists[0];
  case n_members: return &t.lists[1];
  case n_media: return &t.lists[2];
  default: return nullptr;
  }
}

/// The SAX handler. Refuses repeated keys and deep nesting; with a table, also fills it and goes on after such an
/// error, so that the answer can carry the request's id. Repeated keys are found by sorting an object's keys at its
/// end: n log n for any keys, where a hash table would be open to chosen collisions.
class reader {
public:
  explicit reader(table* out) : out_(out) {}

  const std::optional<failure>& error() const { return error_; }
  bool id_repeated() const { return id_repeated_; }

  // What json::sax_parse calls; false ends the parsing.
  bool null() { return scalar({shape::null, false, 0, {}}); }
  bool boolean(bool v) { return scalar({shape::boolean, v, 0, {}}); }
  bool number_integer(json::number_integer_t v) { return scalar({shape::integer, false, v, {}}); }
  bool number_unsigned(json::number_unsigned_t v) {
    if (v > static_cast<std::uint64_t>(INT64_MAX)) return scalar({shape::other_number, false, 0, std::to_string(v)});
    return scalar({shape::integer, false, static_cast<std::int64_t>(v), {}});
  }
  bool number_float(json::number_float_t /*v*/, const std::string& written) {
    return scalar({shape::other_number, false, 0, written});
  }
  bool string(std::string& v) { return scalar({shape::string, false, 0, std::move(v)}); }
  bool binary(json::binary_t& /*v*/) { return false; }  // JSON has none
  bool start_object(std::size_t /*elements*/) { return open(false); }
  bool start_array(std::size_t /*elements*/) { return open(true); }
  bool end_object() {
    check_keys();
    return close();
  }
  bool end_array() { return close(); }

  bool key(std::string& k) {
    level& top = levels_.back();
    top.key_at = arena_.size();
    top.key_size = k.size();
    keys_.push_back({top.key_at, top.key_size});
    arena_.append(k);
    if (out_ != nullptr && levels_.size() == 1) current_ = find_name(k);
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*last_token*/, const json::exception& /*why*/) {
    // The parser's own words quote the input, which may hold a token.
    std::string message = "not valid JSON at byte " + std::to_string(position);
    if (const auto where = path(); !where.empty()) message += ", in " + where;
    if (!error_) error_ = fail(errc::bad_request, std::move(message));
    broken_ = true;
    return false;
  }
  bool broken() const { return broken_; }

  /// Where the parser stands: "enter.r_1", "users[3]". Long keys are cut.
  std::string path() const {
    std::string where;
    for (const level& l : levels_) {
      if (l.array) {
        where += "[" + std::to_string(l.index) + "]";
      } else if (l.key_size != no_key) {
        if (!where.empty()) where += ".";
        where += first_code_points(std::string_view(arena_).substr(l.key_at, l.key_size), 64);
      }
      if (where.size() > 200) break;
    }
    return where;
  }

private:
  static constexpr std::size_t no_key = static_cast<std::size_t>(-1);
  struct level {
    bool array = false;
    std::size_t index = 0;             // of an array's next element
    std::size_t keys_from = 0;         // in keys_
    std::size_t arena_from = 0;        // in arena_
    std::size_t key_at = 0, key_size = no_key;  // the present key
  };
  struct span_of_key {
    std::size_t at, size;
  };

  bool open(bool array) {
    if (levels_.empty() && out_ != nullptr && array) return no_object();
    if (levels_.size() == 1) set(array ? shape::array : shape::object);
    if (levels_.size() == 2) add({array ? shape::array : shape::object, false, 0, {}});
    if (levels_.size() == max_depth && !error_) {
      error_ = field_failure(errc::bad_request, path(), "is nested deeper than " + std::to_string(max_depth));
      if (out_ == nullptr) return false;
    }
    if (levels_.size() >= deepest_scanned) return false;
    levels_.push_back({array, 0, keys_.size(), arena_.size(), 0, no_key});
    return true;
  }

  bool close() {
    const level done = levels_.back();
    levels_.pop_back();
    keys_.resize(done.keys_from);
    arena_.resize(done.arena_from);
    next();
    return out_ != nullptr || !error_;
  }

  bool scalar(value v) {
    if (levels_.empty()) return out_ == nullptr || no_object();
    if (levels_.size() == 1 && current_ != n_count) out_->at[current_] = std::move(v);
    if (levels_.size() == 2) add(std::move(v));
    next();
    return true;
  }

  void next() {
    if (!levels_.empty() && levels_.back().array) ++levels_.back().index;
  }

  void set(shape s) {
    if (current_ != n_count) out_->at[current_] = {s, false, 0, {}};
  }

  /// An element of a list that is known, or a member of `enter`.
  void add(value v) {
    if (current_ == n_count || out_ == nullptr) return;
    if (levels_.back().array) {
      if (auto* list = list_of(*out_, current_); list != nullptr && list->size() < most_listed)
        list->push_back(std::move(v));
    } else if (current_ == n_enter) {
      ++out_->entered;
      const level& l = levels_.back();
      if (out_->enter.size() < most_listed)
        out_->enter.emplace_back(arena_.substr(l.key_at, l.key_size), std::move(v));
    }
  }

  bool no_object() {
    error_ = fail(errc::bad_request, "not a JSON object");
    broken_ = true;
    return false;
  }

  std::string_view text_of(const span_of_key& k) const { return std::string_view(arena_).substr(k.at, k.size); }

  void check_keys() {
    const auto from = keys_.begin() + static_cast<std::ptrdiff_t>(levels_.back().keys_from);
    std::sort(from, keys_.end(),
              [this](const span_of_key& a, const span_of_key& b) { return text_of(a) < text_of(b); });
    const auto twice = std::adjacent_find(from, keys_.end(), [this](const span_of_key& a, const span_of_key& b) {
      return text_of(a) == text_of(b);
    });
    if (twice == keys_.end()) return;
    if (levels_.size() == 1)
      for (auto k = from; k + 1 != keys_.end(); ++k)
        if (text_of(*k) == "id" && text_of(*(k + 1)) == "id") id_repeated_ = true;
    if (error_) return;
    level& top = levels_.back();
    top.key_at = twice->at;
    top.key_size = twice->size;
    error_ = field_failure(errc::duplicate_key, path(), "stands twice in one object");
  }

  table* out_;
  std::vector<level> levels_;
  std::vector<span_of_key> keys_;
  std::string arena_;
  name current_ = n_count;
  std::optional<failure> error_;
  bool id_repeated_ = false, broken_ = false;
};

/// Whether a number is written without fraction and exponent.
bool is_integral(std::string_view number) {
  return number.find_first_not_of("0123456789", number.starts_with('-') ? 1 : 0) == std::string_view::npos;
}

/// What nlohmann's lexer would let through: a byte order mark, and a raw NUL, which it takes for the end of the input.
std::optional<failure> refused_bytes(std::string_view text) {
  if (text.size() >= 3 && text.substr(0, 3) == "\xEF\xBB\xBF")
    return fail(errc::bad_request, "not valid JSON: a byte order mark is not allowed");
  if (const auto at = text.find('\0'); at != std::string_view::npos)
    return fail(errc::bad_request, "not valid JSON: a zero byte at byte " + std::to_string(at + 1));
  return std::nullopt;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// The code unit of a `\uXXXX` at `at`, or -1.
int escaped_unit(std::string_view text, std::size_t at) {
  if (at + 6 > text.size() || text[at] != '\\' || text[at + 1] != 'u') return -1;
  int unit = 0;
  for (std::size_t i = at + 2; i < at + 6; ++i) {
    const int digit = hex_digit(text[i]);
    if (digit < 0) return -1;
    unit = unit * 16 + digit;
  }
  return unit;
}

/// The text with every lone surrogate's escape made `\ufffd`; nothing where there is none. The parser ends at such
/// an escape, though it is JSON by the grammar: so its field can be named and the request's id still be found.
std::optional<std::string> without_lone_surrogates(std::string_view text) {
  std::optional<std::string> changed;
  for (std::size_t i = 0; i + 1 < text.size();) {
    if (text[i] != '\\') {
      ++i;
      continue;
    }
    const int unit = escaped_unit(text, i);
    if (unit < 0xD800 || unit > 0xDFFF) {
      i += unit < 0 ? 2 : 6;
      continue;
    }
    const int second = unit < 0xDC00 ? escaped_unit(text, i + 6) : -1;
    if (second >= 0xDC00 && second <= 0xDFFF) {
      i += 12;
      continue;
    }
    if (!changed) changed.emplace(text);
    changed->replace(i, 6, "\\ufffd");
    i += 6;
  }
  return changed;
}

/// One reading: the table's error, if any, and whether the text is a JSON object at all.
struct reading {
  std::optional<failure> error;
  bool broken = false, id_repeated = false;
};

reading read_once(std::string_view text, table* out) {
  reader r(out);
  const bool whole = json::sax_parse(text.data(), text.data() + text.size(), &r);
  return {r.error(), r.broken() || (!whole && !r.error()), r.id_repeated()};
}

reading read(std::string_view text, table* out) {
  if (auto refused = refused_bytes(text)) return {std::move(refused), true, false};
  reader first(out);
  json::sax_parse(text.data(), text.data() + text.size(), &first);
  if (!first.broken()) return {first.error(), false, first.id_repeated()};
  const auto mended = without_lone_surrogates(text);
  if (!mended) return {first.error(), true, false};
  if (out != nullptr) *out = table{};
  reading second = read_once(*mended, out);
  if (second.broken) return {first.error(), true, false};  // there is another flaw, which comes first or later
  second.error = field_failure(errc::bad_request, first.path(), "has a lone surrogate");
  return second;
}

/// Takes fields out of the table; after the first that does not fit, `error` says why.
class fields {
public:
  explicit fields(table& t) : t_(t) {}
  failure error;

  bool has(name n) const { return t_.at[n].is != shape::absent; }

  /// Any string without U+0000.
  bool string(name n, std::string& out) {
    value& v = t_.at[n];
    if (v.is == shape::absent) return missing(n);
    if (!string_value(v, names[n])) return false;
    out = std::move(v.text);
    return true;
  }
  bool string_if(name n, std::optional<std::string>& out, std::size_t longest) {
    if (!has(n)) return true;
    std::string s;
    if (!string(n, s)) return false;
    if (code_points(s) > longest)
      return bad(errc::too_large, names[n], "has over " + std::to_string(longest) + " code points");
    out = std::move(s);
    return true;
  }
  bool id(name n, std::string& out) { return string(n, out) && id_value(out, names[n]); }
  bool nonce(std::string& out) {
    if (!string(n_nonce, out)) return false;
    return is_nonce(out) || bad(errc::bad_request, names[n_nonce], "must be 1 to 64 of A-Z a-z 0-9 _ -");
  }
  bool nonce_if(std::string& out) { return !has(n_nonce) || nonce(out); }

  bool integer(name n, std::int64_t& out, std::int64_t least, std::int64_t most) {
    if (!has(n)) return missing(n);
    return integer_value(t_.at[n], names[n], out, least, most);
  }
  bool integer_if(name n, std::optional<std::int64_t>& out, std::int64_t least, std::int64_t most) {
    if (!has(n)) return true;
    std::int64_t number = 0;
    if (!integer(n, number, least, most)) return false;
    out = number;
    return true;
  }
  /// `limit`: more than a page holds gives a page.
  bool limit(std::int64_t& out) {
    if (!has(n_limit)) return true;
    value& v = t_.at[n_limit];
    const bool beyond_64_bits = v.is == shape::other_number && is_integral(v.text) && !v.text.starts_with('-');
    if (beyond_64_bits || (v.is == shape::integer && v.number > most_per_page))
      v = {shape::integer, false, most_per_page, {}};
    return integer(n_limit, out, 1, most_per_page);
  }

  bool ids(name n, std::vector<std::string>& out, std::size_t most) {
    if (t_.at[n].is != shape::array) return bad(errc::bad_request, names[n], "must be a list of ids");
    auto& list = *list_of(t_, n);
    if (list.size() > most)
      return bad(errc::too_large, names[n], "has over " + std::to_string(most) + " entries");
    out.reserve(list.size());
    for (std::size_t i = 0; i < list.size(); ++i) {
      value& v = list[i];
      if (v.is != shape::string || !is_id(v.text))
        return bad(errc::bad_request, std::string(names[n]) + "[" + std::to_string(i) + "]", not_an_id);
      out.push_back(std::move(v.text));
    }
    return true;
  }

  bool history(std::optional<history_policy>& out) {
    std::string word;
    if (!has(n_history)) return true;
    if (!string(n_history, word)) return false;
    out = parse_history_policy(word);
    return out || bad(errc::bad_request, names[n_history], "must be all or joined");
  }

  bool boolean_if(name n, bool& out) {
    if (!has(n)) return true;
    if (t_.at[n].is != shape::boolean) return bad(errc::bad_request, names[n], "must be true or false");
    out = t_.at[n].flag;
    return true;
  }

  bool enter(hello& op) {
    value& v = t_.at[n_enter];
    switch (v.is) {
    case shape::absent: return true;
    case shape::string:
      if (v.text == "none") return true;
      op.enter = hello::enter_mode::all;
      return v.text == "all" || bad_enter();
    case shape::object: break;
    default: return bad_enter();
    }
    op.enter = hello::enter_mode::listed;
    if (t_.entered > most_rooms_entered)
      return bad(errc::too_large, names[n_enter], "has over " + std::to_string(most_rooms_entered) + " rooms");
    op.enter_rooms.reserve(t_.enter.size());
    for (auto& [room, after] : t_.enter) {
      if (!is_id(room)) return bad(errc::bad_request, names[n_enter], "has a key that is no id of a room");
      seq_no seq = 0;
      if (!integer_value(after, std::string(names[n_enter]) + "." + room, seq, 0, greatest_seq)) return false;
      op.enter_rooms.emplace_back(std::move(room), seq);
    }
    return true;
  }

  bool bad(errc code, std::string_view where, std::string_view what) {
    error = field_failure(code, where, what);
    return false;
  }

private:
  static constexpr std::string_view not_an_id = "must be an id: 1 to 64 of A-Z a-z 0-9 _ . : -";

  bool missing(name n) { return bad(errc::bad_request, names[n], "is missing"); }
  bool bad_enter() {
    return bad(errc::bad_request, names[n_enter], "must be none, all or an object of room and after_seq");
  }
  bool string_value(const value& v, std::string_view where) {
    if (v.is != shape::string) return bad(errc::bad_request, where, "must be a string");
    return v.text.find('\0') == std::string::npos || bad(errc::bad_request, where, "must not contain U+0000");
  }
  bool id_value(const std::string& text, std::string_view where) {
    return is_id(text) || bad(errc::bad_request, where, not_an_id);
  }
  bool integer_value(const value& v, std::string_view where, std::int64_t& out, std::int64_t least,
                     std::int64_t most) {
    if (v.is != shape::integer && v.is != shape::other_number)
      return bad(errc::bad_request, where, "must be an integer");
    if (v.is == shape::other_number || v.number < least || v.number > most)
      return bad(errc::bad_request, where,
                 "must be an integer from " + std::to_string(least) + " to " + std::to_string(most));
    out = v.number;
    return true;
  }

  table& t_;
};

using outcome = std::variant<request, failure>;

outcome make(bool good, fields& in, request&& op) {
  if (good) return std::move(op);
  return std::move(in.error);
}

outcome decode_hello(fields& in) {
  hello op;
  const bool good = in.string_if(n_token, op.token, SIZE_MAX) && in.string_if(n_client, op.client, longest_client) &&
                    in.string_if(n_epoch, op.epoch, longest_id_bytes) && in.enter(op);
  return make(good, in, std::move(op));
}

outcome decode_rooms(fields& in) {
  rooms op;
  bool good = in.string_if(n_cursor, op.cursor, longest_cursor);
  if (std::int64_t limit = 0; good && in.has(n_limit)) {
    good = in.limit(limit);
    op.limit = limit;
  }
  return make(good, in, std::move(op));
}

outcome decode_users(fields& in) {
  users op;
  const bool good = in.ids(n_users, op.users, most_users);
  return make(good, in, std::move(op));
}

outcome decode_room_create(fields& in) {
  room_create op;
  std::string kind;
  if (!in.string(n_kind, kind)) return std::move(in.error);
  const auto known = parse_room_kind(kind);
  if (!known) return field_failure(errc::bad_request, names[n_kind], "must be public, private or direct");
  op.kind = *known;
  std::optional<history_policy> history;
  const bool named = op.kind == room_kind::direct && !in.has(n_name) ? true : in.string(n_name, op.name);
  const bool good = named && (!in.has(n_members) || in.ids(n_members, op.members, most_members)) &&
                    in.string_if(n_place, op.place, longest_cursor) && in.history(history) &&
                    in.nonce_if(op.nonce);
  op.history = history.value_or(history_policy::all);
  return make(good, in, std::move(op));
}

template <class Op> outcome decode_membership(fields& in) {
  Op op;
  const bool good = in.id(n_room, op.room) && in.nonce_if(op.nonce);
  return make(good, in, std::move(op));
}

outcome decode_room_invite(fields& in) {
  room_invite op;
  const bool good = in.id(n_room, op.room) && in.id(n_user, op.user) && in.nonce_if(op.nonce);
  return make(good, in, std::move(op));
}

outcome decode_room_change(fields& in) {
  constexpr std::int64_t longest_slow_mode_s = 86400;    // a day between two messages
  constexpr std::int64_t longest_retention_days = 36500;  // a hundred years; also keeps the arithmetic in 64 bits
  room_change op;
  auto& s = op.settings;
  const bool good = in.id(n_room, op.room) && in.string_if(n_name, s.name, SIZE_MAX) &&
                    in.string_if(n_topic, s.topic, SIZE_MAX) &&
                    in.integer_if(n_slow_mode_s, s.slow_mode_s, 0, longest_slow_mode_s) &&
                    in.integer_if(n_retention_days, s.retention_days, 0, longest_retention_days) &&
                    in.history(s.history) && in.nonce_if(op.nonce);
  if (good && !s.name && !s.topic && !s.slow_mode_s && !s.retention_days && !s.history)
    return fail(errc::bad_request, "one of name, topic, slow_mode_s, retention_days and history is needed");
  return make(good, in, std::move(op));
}

outcome decode_room_enter(fields& in) {
  room_enter op;
  const bool good = in.id(n_room, op.room) && in.integer_if(n_after_seq, op.after_seq, 0, greatest_seq) &&
                    in.string_if(n_epoch, op.epoch, longest_id_bytes);
  return make(good, in, std::move(op));
}

outcome decode_message_send(fields& in) {
  message_send op;
  const bool good = in.id(n_room, op.room) && in.nonce(op.nonce) && in.string(n_text, op.text) &&
                    in.integer_if(n_reply_to, op.reply_to, 1, greatest_seq) &&
                    (!in.has(n_media) || in.ids(n_media, op.media, most_media));
  return make(good, in, std::move(op));
}

outcome decode_message_read(fields& in) {
  message_read op;
  const bool good = in.id(n_room, op.room) && in.integer(n_seq, op.seq, 0, greatest_seq);
  return make(good, in, std::move(op));
}

outcome decode_message_unread(fields& in) {
  message_unread op;
  const bool good = in.id(n_room, op.room) && in.integer(n_seq, op.seq, 1, greatest_seq);
  return make(good, in, std::move(op));
}

outcome decode_typing(fields& in) {
  typing op;
  const bool good = in.id(n_room, op.room) && in.boolean_if(n_on, op.on);
  return make(good, in, std::move(op));
}

outcome decode_history(fields& in) {
  history op;
  const bool good = in.id(n_room, op.room) && in.integer_if(n_before_seq, op.before_seq, 0, greatest_seq) &&
                    in.integer_if(n_after_seq, op.after_seq, 0, greatest_seq) && in.limit(op.limit);
  if (good && op.before_seq && op.after_seq)
    return field_failure(errc::bad_request, names[n_after_seq], "and before_seq exclude each other");
  return make(good, in, std::move(op));
}

outcome decode_events(fields& in) {
  events op;
  const bool good =
      in.id(n_room, op.room) && in.integer(n_after_seq, op.after_seq, 0, greatest_seq) && in.limit(op.limit);
  return make(good, in, std::move(op));
}

outcome decode_token_renew(fields& in) {
  token_renew op;
  const bool good = in.string(n_token, op.token);
  return make(good, in, std::move(op));
}

template <class Op> outcome decode_room_only(fields& in) {
  Op op;
  const bool good = in.id(n_room, op.room);
  return make(good, in, std::move(op));
}

outcome decode_ping(fields& /*in*/) { return ping{}; }

struct op_row {
  std::string_view op;
  outcome (*decode)(fields&);
};
constexpr std::array<op_row, 18> ops = {{
    {"message.send", decode_message_send},
    {"message.read", decode_message_read},
    {"typing", decode_typing},
    {"ping", decode_ping},
    {"room.enter", decode_room_enter},
    {"room.exit", decode_room_only<room_exit>},
    {"history", decode_history},
    {"events", decode_events},
    {"hello", decode_hello},
    {"rooms", decode_rooms},
    {"users", decode_users},
    {"room.create", decode_room_create},
    {"room.join", decode_membership<room_join>},
    {"room.leave", decode_membership<room_leave>},
    {"room.invite", decode_room_invite},
    {"room.change", decode_room_change},
    {"message.unread", decode_message_unread},
    {"token.renew", decode_token_renew},
}};

const op_row* find_op(std::string_view op) {
  const auto row = std::find_if(ops.begin(), ops.end(), [op](const op_row& r) { return r.op == op; });
  return row == ops.end() ? nullptr : row;
}

constexpr std::string_view no_id = "null";

/// The id's JSON text; nothing where it is neither a string nor an integer, or longer than an answer should echo.
std::optional<std::string> id_text(const value& v) {
  switch (v.is) {
  case shape::integer: return std::to_string(v.number);
  case shape::other_number: {
    // An integer of more than 64 bits is still one.
    if (!is_integral(v.text) || v.text.size() > longest_id_bytes) return std::nullopt;
    return v.text;
  }
  case shape::string:
    if (v.text.size() > longest_id_bytes || v.text.find('\0') != std::string::npos) return std::nullopt;
    return wire::quoted(v.text);
  default: return std::nullopt;
  }
}

decoded decode_table(table& t, const reading& r) {
  const auto id = r.id_repeated ? std::nullopt : id_text(t.at[n_id]);
  decoded out{id.value_or(std::string(no_id)), failure{}};
  if (r.error) {
    // The id itself may hold the lone surrogate that was mended away: then it is none.
    if (r.error->field == names[n_id]) out.id = no_id;
    out.body = *r.error;
    return out;
  }
  const value& op = t.at[n_op];
  const bool silent = t.at[n_id].is == shape::absent && op.is == shape::string && op.text == "typing";
  if (!id && !silent) {
    out.body = field_failure(errc::bad_request, names[n_id],
                             t.at[n_id].is == shape::absent
                                 ? "is missing"
                                 : "must be a string of at most 256 bytes without U+0000, or an integer");
    return out;
  }
  if (silent) out.id.clear();
  if (op.is != shape::string) {
    out.body = field_failure(errc::bad_request, names[n_op],
                             op.is == shape::absent ? "is missing" : "must be a string");
    return out;
  }
  const auto* row = find_op(op.text);
  if (row == nullptr) {
    out.body = field_failure(errc::bad_request, names[n_op],
                             "is not known: " + std::string(first_code_points(op.text, 64)));
    return out;
  }
  fields in(t);
  out.body = row->decode(in);
  return out;
}

}  // namespace

decoded decode_frame(std::string_view text) {
  table t;
  const reading r = read(text, &t);
  if (r.broken) {
    return {std::string(no_id), r.error ? *r.error : fail(errc::bad_request, "not valid JSON")};
  }
  return decode_table(t, r);
}

result<request> decode_body(std::string_view op, std::string_view body,
                            const std::vector<std::pair<std::string_view, std::string>>& given) {
  const auto* row = find_op(op);
  if (row == nullptr) return fail(errc::internal, "no such op: " + std::string(op));
  table t;
  const reading r = read(body, &t);
  if (r.error) return *r.error;
  if (r.broken) return fail(errc::bad_request, "not valid JSON");
  for (const auto& [key, text] : given)
    if (const auto n = find_name(key); n != n_count) t.at[n] = {shape::string, false, 0, text};
  fields in(t);
  auto made = row->decode(in);
  if (auto* why = std::get_if<failure>(&made)) return std::move(*why);
  return std::move(std::get<request>(made));
}

result<json> parse_strict(std::string_view text) {
  const reading r = read(text, nullptr);
  if (r.error) return *r.error;
  auto document = json::parse(text.data(), text.data() + text.size(), nullptr, false);
  if (r.broken || document.is_discarded()) return fail(errc::bad_request, "not valid JSON");
  return document;
}

}  // namespace parley::wire
