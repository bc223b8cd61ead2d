// One function per op turns the table of fields that json_reader filled into the op's struct.
// Nothing here looks at stored state; text and names are checked by their owners.
#include "schemas/wire/json_decode.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>

#include "schemas/text.hpp"
#include "schemas/wire/json_encode.hpp"
#include "schemas/wire/json_reader.hpp"

namespace parley::wire {

namespace {

using json = nlohmann::json;
using namespace detail;

constexpr seq_no greatest_seq =
    9007199254740991;                            // 2^53 - 1: what a JavaScript number holds exactly
constexpr std::size_t longest_id_bytes = 256;    // of a request's `id`, which is echoed
constexpr std::size_t most_rooms_entered = 200;  // the contract: hello's `enter`
constexpr std::size_t most_users = 100;          // the contract: the op `users`
constexpr std::size_t most_members = 1000;       // of room.create, one transaction
constexpr std::size_t most_media = 100;
constexpr std::size_t longest_client = 128;
constexpr std::size_t longest_cursor = 512;
constexpr std::int64_t most_per_page = 200;

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
    return is_nonce(out) ||
           bad(errc::bad_request, names[n_nonce], "must be 1 to 64 of A-Z a-z 0-9 _ -");
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
    const bool beyond_64_bits =
        v.is == shape::other_number && is_integral(v.text) && !v.text.starts_with('-');
    if (beyond_64_bits || (v.is == shape::integer && v.number > most_per_page))
      v = {shape::integer, false, most_per_page, {}};
    return integer(n_limit, out, 1, most_per_page);
  }

  bool ids(name n, std::vector<std::string>& out, std::size_t most) {
    if (t_.at[n].is != shape::array)
      return bad(errc::bad_request, names[n], "must be a list of ids");
    auto& list = *list_of(t_, n);
    if (list.size() > most)
      return bad(errc::too_large, names[n], "has over " + std::to_string(most) + " entries");
    out.reserve(list.size());
    for (std::size_t i = 0; i < list.size(); ++i) {
      value& v = list[i];
      if (v.is != shape::string || !is_id(v.text))
        return bad(errc::bad_request, std::string(names[n]) + "[" + std::to_string(i) + "]",
                   not_an_id);
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
    if (t_.at[n].is != shape::boolean)
      return bad(errc::bad_request, names[n], "must be true or false");
    out = t_.at[n].flag;
    return true;
  }

  bool enter(hello& op) {
    value& v = t_.at[n_enter];
    switch (v.is) {
    case shape::absent:
      return true;
    case shape::string:
      if (v.text == "none") return true;
      op.enter = hello::enter_mode::all;
      return v.text == "all" || bad_enter();
    case shape::object:
      break;
    default:
      return bad_enter();
    }
    op.enter = hello::enter_mode::listed;
    if (t_.entered > most_rooms_entered)
      return bad(errc::too_large, names[n_enter],
                 "has over " + std::to_string(most_rooms_entered) + " rooms");
    op.enter_rooms.reserve(t_.enter.size());
    for (auto& [room, after] : t_.enter) {
      if (!is_id(room))
        return bad(errc::bad_request, names[n_enter], "has a key that is no id of a room");
      seq_no seq = 0;
      if (!integer_value(after, std::string(names[n_enter]) + "." + room, seq, 0, greatest_seq))
        return false;
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
    return bad(errc::bad_request, names[n_enter],
               "must be none, all or an object of room and after_seq");
  }
  bool string_value(const value& v, std::string_view where) {
    if (v.is != shape::string) return bad(errc::bad_request, where, "must be a string");
    return v.text.find('\0') == std::string::npos ||
           bad(errc::bad_request, where, "must not contain U+0000");
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
                 "must be an integer from " + std::to_string(least) + " to " +
                     std::to_string(most));
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
  const bool good = in.string_if(n_token, op.token, SIZE_MAX) &&
                    in.string_if(n_client, op.client, longest_client) &&
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
  if (!known)
    return field_failure(errc::bad_request, names[n_kind], "must be public, private or direct");
  op.kind = *known;
  std::optional<history_policy> history;
  const bool named =
      op.kind == room_kind::direct && !in.has(n_name) ? true : in.string(n_name, op.name);
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
  constexpr std::int64_t longest_slow_mode_s = 86400;  // a day between two messages
  constexpr std::int64_t longest_retention_days =
      36500;  // a hundred years; also keeps the arithmetic in 64 bits
  room_change op;
  auto& s = op.settings;
  const bool good = in.id(n_room, op.room) && in.string_if(n_name, s.name, SIZE_MAX) &&
                    in.string_if(n_topic, s.topic, SIZE_MAX) &&
                    in.integer_if(n_slow_mode_s, s.slow_mode_s, 0, longest_slow_mode_s) &&
                    in.integer_if(n_retention_days, s.retention_days, 0, longest_retention_days) &&
                    in.history(s.history) && in.nonce_if(op.nonce);
  if (good && !s.name && !s.topic && !s.slow_mode_s && !s.retention_days && !s.history)
    return fail(errc::bad_request,
                "one of name, topic, slow_mode_s, retention_days and history is needed");
  return make(good, in, std::move(op));
}

outcome decode_room_enter(fields& in) {
  room_enter op;
  const bool good = in.id(n_room, op.room) &&
                    in.integer_if(n_after_seq, op.after_seq, 0, greatest_seq) &&
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
  const bool good = in.id(n_room, op.room) &&
                    in.integer_if(n_before_seq, op.before_seq, 0, greatest_seq) &&
                    in.integer_if(n_after_seq, op.after_seq, 0, greatest_seq) && in.limit(op.limit);
  if (good && op.before_seq && op.after_seq)
    return field_failure(errc::bad_request, names[n_after_seq],
                         "and before_seq exclude each other");
  return make(good, in, std::move(op));
}

outcome decode_events(fields& in) {
  events op;
  const bool good = in.id(n_room, op.room) &&
                    in.integer(n_after_seq, op.after_seq, 0, greatest_seq) && in.limit(op.limit);
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
  const auto row =
      std::find_if(ops.begin(), ops.end(), [op](const op_row& r) { return r.op == op; });
  return row == ops.end() ? nullptr : row;
}

constexpr std::string_view no_id = "null";

/// The id's JSON text; nothing where it is neither a string nor an integer, or longer than an
/// answer should echo.
std::optional<std::string> id_text(const value& v) {
  switch (v.is) {
  case shape::integer:
    return std::to_string(v.number);
  case shape::other_number: {
    // An integer of more than 64 bits is still one.
    if (!is_integral(v.text) || v.text.size() > longest_id_bytes) return std::nullopt;
    return v.text;
  }
  case shape::string:
    if (v.text.size() > longest_id_bytes || v.text.find('\0') != std::string::npos)
      return std::nullopt;
    return wire::quoted(v.text);
  default:
    return std::nullopt;
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
  const bool silent =
      t.at[n_id].is == shape::absent && op.is == shape::string && op.text == "typing";
  if (!id && !silent) {
    out.body =
        field_failure(errc::bad_request, names[n_id],
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
