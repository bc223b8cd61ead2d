// Builds JSON text by appending to a string: no document tree, one allocation per frame as a rule.
// Every field name of the contract that the server sends stands in this file (asyncapi.yaml,
// openapi.yaml).
#include "schemas/wire/json_encode.hpp"

#include "schemas/text.hpp"
#include "schemas/wire/json_text.hpp"

namespace parley::wire {

namespace {

using namespace detail;

constexpr std::size_t preview_code_points = 100;  // the contract: room.updated's `last`

void put_profile_fields(std::string& out, const profile& p) {
  field(out, R"("user":)", p.id);
  field(out, R"(,"name":)", p.name);
  field(out, R"(,"display_name":)", p.display_name);
  if (!p.picture.empty()) field(out, R"(,"picture":)", p.picture);
}

void put_profile(std::string& out, const profile& p) {
  out.push_back('{');
  put_profile_fields(out, p);
  if (p.deleted) put(out, R"(,"deleted":true)");
  out.push_back('}');
}

void put_members(std::string& out, std::span<const member_view> members) {
  put(out, R"("members":)");
  list(out, members, [&](const member_view& m) {
    out.push_back('{');
    put_profile_fields(out, m.who);
    field(out, R"(,"role":)", to_string(m.r));
    flag(out, R"(,"online":)", m.online);
    out.push_back('}');
  });
}

void put_gaps(std::string& out, std::span<const gap> gaps) {
  if (gaps.empty()) return;
  put(out, R"(,"gap":)");
  list(out, gaps, [&](const gap& g) {
    field(out, R"({"from":)", g.from);
    field(out, R"(,"to":)", g.to);
    field(out, R"(,"why":)", g.why);
    out.push_back('}');
  });
}

void put_error(std::string& out, const failure& why) {
  field(out, R"({"code":)", to_string(why.code));
  field(out, R"(,"message":)",
        why.message.empty() ? to_string(why.code) : std::string_view(why.message));
  if (!why.field.empty()) field(out, R"(,"field":)", why.field);
  if (why.retry_after_ms) field(out, R"(,"retry_after_ms":)", *why.retry_after_ms);
  out.push_back('}');
}

/// What a message carries beside its seq and time; a deleted one has no content.
void put_message_content(std::string& out, const message& m, std::string_view sender) {
  field(out, R"(,"sender":)", sender);
  if (!m.deleted) field(out, R"(,"text":)", m.text);
  if (m.edited_at) field(out, R"(,"edited_at":)", *m.edited_at);
  if (m.deleted) put(out, R"(,"deleted":true)");
  if (m.reply_to) field(out, R"(,"reply_to":)", *m.reply_to);
  // Nobody can mention, tag or react yet; the lists are part of every message all the same.
  if (!m.deleted) put(out, R"(,"mentions":[],"hashtags":[],"reactions":[])");
}

void put_message(std::string& out, const message& m) {
  field(out, R"({"seq":)", m.seq);
  field(out, R"(,"at":)", m.at);
  put_message_content(out, m, m.sender_id);
  out.push_back('}');
}

// The three parts of a room's line: what all see alike, the member's counters, the member's own
// settings.
void put_room_common(std::string& out, const room_summary& r) {
  field(out, R"("room":)", r.id);
  field(out, R"(,"name":)", r.name);
  field(out, R"(,"kind":)", to_string(r.kind));
  if (!r.topic.empty()) field(out, R"(,"topic":)", r.topic);
  field(out, R"(,"last_seq":)", r.last_seq);
  field(out, R"(,"online":)", r.online);
  field(out, R"(,"members":)", r.members);
  if (r.last) {
    field(out, R"(,"last":{"seq":)", r.last->seq);
    field(out, R"(,"sender":)", r.last->sender_id);
    field(out, R"(,"text":)", first_code_points(r.last->text, preview_code_points));
    field(out, R"(,"at":)", r.last->at);
    out.push_back('}');
  }
}

void put_room_counters(std::string& out, const room_summary& r) {
  field(out, R"(,"unread":)", r.unread);
  field(out, R"(,"mentions":)", r.mentions);
  field(out, R"(,"read_seq":)", r.read_seq);
}

void put_room_mine(std::string& out, const room_summary& r) {
  field(out, R"(,"role":)", to_string(r.my_role));
  if (r.muted_until) field(out, R"(,"muted_until":)", *r.muted_until);
  field(out, R"(,"level":)", to_string(r.level));
  flag(out, R"(,"pinned":)", r.pinned);
  field(out, R"(,"order":)", r.order);
}

void put_room(std::string& out, const room_summary& r) {
  put_room_common(out, r);
  put_room_counters(out, r);
  put_room_mine(out, r);
}

void put_rooms(std::string& out, std::span<const room_summary> rooms, std::string_view next) {
  put(out, R"("rooms":)");
  list(out, rooms, [&](const room_summary& r) {
    out.push_back('{');
    put_room(out, r);
    out.push_back('}');
  });
  if (!next.empty()) field(out, R"(,"rooms_next":)", next);
}

void put_profiles(std::string& out, std::span<const profile> users) {
  put(out, R"("users":)");
  list(out, users, [&](const profile& p) { put_profile(out, p); });
}

/// `{"ev":NAME,"room":ROOM`, still open.
void open_event(std::string& out, std::string_view name, std::string_view room) {
  field(out, R"({"ev":)", name);
  field(out, R"(,"room":)", room);
}

/// The event's name, or nothing for a kind whose content this version cannot tell.
std::string_view event_name(event_kind k) {
  switch (k) {
  case event_kind::message_created:
    return "message.created";
  case event_kind::message_updated:
    return "message.updated";
  case event_kind::message_deleted:
    return "message.deleted";
  case event_kind::message_pinned:
    return "message.pinned";
  case event_kind::message_unpinned:
    return "message.unpinned";
  case event_kind::member_joined:
    return "member.joined";
  case event_kind::member_left:
    return "member.left";
  case event_kind::member_changed:
    return "member.changed";
  case event_kind::room_changed:
    return "room.changed";
  case event_kind::reaction_added:
  case event_kind::reaction_removed:
  case event_kind::resource_changed:
    break;
  }
  return {};
}

void put_member_event(std::string& out, const event& e) {
  out.push_back(',');
  put_profile_fields(out, e.user);
  // "invited" and "banned" are no roles: one who has none of the three is no member.
  if (parse_role(e.role_name)) field(out, R"(,"role":)", e.role_name);
  if (!e.by_id.empty()) field(out, R"(,"by":)", e.by_id);
  if (!e.reason.empty()) field(out, R"(,"reason":)", e.reason);
}

void put_settings(std::string& out, const room_settings& s) {
  if (s.name) field(out, R"(,"name":)", *s.name);
  if (s.topic) field(out, R"(,"topic":)", *s.topic);
  if (s.slow_mode_s) field(out, R"(,"slow_mode_s":)", *s.slow_mode_s);
  if (s.retention_days) field(out, R"(,"retention_days":)", *s.retention_days);
  if (s.history) field(out, R"(,"history":)", to_string(*s.history));
}

void put_event(std::string& out, std::string_view room, const event& e, user_key reader) {
  const auto name = event_name(e.kind);
  // Its seq must reach the reader in any case: a number that never comes would look like a lost
  // event.
  open_event(out, name.empty() ? std::string_view("hidden") : name, room);
  const bool created = e.kind == event_kind::message_created;
  if (created && !e.msg.nonce.empty() && raw(reader) != 0 && reader == e.sender)
    field(out, R"(,"nonce":)", e.msg.nonce);
  field(out, R"(,"seq":)", e.seq);
  field(out, R"(,"at":)", e.at);
  switch (e.kind) {
  case event_kind::message_created:
    put_message_content(out, e.msg, e.sender_id);
    break;
  case event_kind::message_updated:
    field(out, R"(,"target":)", e.target);
    field(out, R"(,"sender":)", e.sender_id);
    if (e.msg.deleted)
      put(out, R"(,"deleted":true)");
    else
      field(out, R"(,"text":)", e.msg.text);
    break;
  case event_kind::message_deleted:
  case event_kind::message_pinned:
  case event_kind::message_unpinned:
    field(out, R"(,"target":)", e.target);
    field(out, R"(,"sender":)", e.sender_id);
    break;
  case event_kind::member_joined:
  case event_kind::member_left:
  case event_kind::member_changed:
    put_member_event(out, e);
    break;
  case event_kind::room_changed:
    field(out, R"(,"by":)", e.sender_id);
    put_settings(out, e.settings);
    break;
  case event_kind::reaction_added:
  case event_kind::reaction_removed:
  case event_kind::resource_changed:
    break;
  }
  out.push_back('}');
}

std::string_view title_of(errc code) {
  switch (code) {
  case errc::bad_request:
    return "Bad request";
  case errc::unauthenticated:
    return "Not authenticated";
  case errc::forbidden:
    return "Forbidden";
  case errc::not_found:
    return "Not found";
  case errc::conflict:
    return "Conflict";
  case errc::duplicate_key:
    return "Repeated key";
  case errc::out_of_range:
    return "Out of range";
  case errc::too_large:
    return "Too large";
  case errc::rate_limited:
    return "Rate limited";
  case errc::overloaded:
    return "Overloaded";
  case errc::unavailable:
    return "Unavailable";
  case errc::suspended:
    return "Suspended";
  case errc::internal:
    break;
  }
  return "Internal error";
}

}  // namespace

// ---- answers

std::string ok_frame(std::string_view id, std::string_view fields) {
  std::string out;
  out.reserve(id.size() + fields.size() + 20);
  put(out, R"({"re":)");
  put(out, id.empty() ? std::string_view("null") : id);
  put(out, R"(,"ok":true)");
  if (!fields.empty()) {
    out.push_back(',');
    put(out, fields);
  }
  out.push_back('}');
  return out;
}

std::string error_frame(std::string_view id, const failure& why) {
  std::string out;
  out.reserve(id.size() + why.message.size() + 96);
  put(out, R"({"re":)");
  put(out, id.empty() ? std::string_view("null") : id);
  put(out, R"(,"error":)");
  put_error(out, why);
  out.push_back('}');
  return out;
}

std::string problem_body(const failure& why) {
  std::string out;
  field(out, R"({"type":"about:blank","title":)", title_of(why.code));
  field(out, R"(,"status":)", why.status != 0 ? why.status : http_status(why.code));
  if (!why.message.empty()) field(out, R"(,"detail":)", why.message);
  field(out, R"(,"code":)", to_string(why.code));
  if (why.retry_after_ms) field(out, R"(,"retry_after_ms":)", *why.retry_after_ms);
  out.push_back('}');
  return out;
}

std::string seq_fields(seq_no seq, bool duplicate) {
  std::string out;
  field(out, R"("seq":)", seq);
  if (duplicate) put(out, R"(,"duplicate":true)");
  return out;
}

std::string sent_fields(seq_no seq, unix_ms at, bool duplicate, bool deleted) {
  std::string out;
  field(out, R"("seq":)", seq);
  field(out, R"(,"at":)", at);
  if (duplicate) put(out, R"(,"duplicate":true)");
  if (deleted) put(out, R"(,"deleted":true)");
  return out;
}

std::string created_fields(std::string_view room, seq_no seq, bool duplicate) {
  std::string out;
  field(out, R"("room":)", room);
  field(out, R"(,"seq":)", seq);
  if (duplicate) put(out, R"(,"duplicate":true)");
  return out;
}

std::string read_fields(seq_no read_seq, std::int64_t unread, std::int64_t mentions) {
  std::string out;
  field(out, R"("read_seq":)", read_seq);
  field(out, R"(,"unread":)", unread);
  field(out, R"(,"mentions":)", mentions);
  return out;
}

std::string users_fields(std::span<const profile> users) {
  std::string out;
  put_profiles(out, users);
  return out;
}

std::string profile_object(const profile& p) {
  std::string out;
  put_profile(out, p);
  return out;
}

std::string enter_fields(seq_no last_seq, seq_no read_seq, std::span<const member_view> members,
                         std::span<const gap> gaps, bool reset) {
  std::string out;
  out.reserve(64 + members.size() * 128);
  field(out, R"("last_seq":)", last_seq);
  field(out, R"(,"read_seq":)", read_seq);
  out.push_back(',');
  put_members(out, members);
  put_gaps(out, gaps);
  if (reset) put(out, R"(,"reset":true)");
  return out;
}

std::string members_fields(std::span<const member_view> members, std::string_view next) {
  std::string out;
  put_members(out, members);
  if (!next.empty()) field(out, R"(,"next":)", next);
  return out;
}

std::string presence_fields(std::span<const member_view> users) {
  std::string out;
  put(out, R"("users":)");
  list(out, users, [&](const member_view& m) {
    field(out, R"({"user":)", m.who.id);
    flag(out, R"(,"online":)", m.online);
    out.push_back('}');
  });
  return out;
}

std::string rooms_fields(std::span<const room_summary> rooms, std::string_view next) {
  std::string out;
  out.reserve(32 + rooms.size() * 384);
  put_rooms(out, rooms, next);
  return out;
}

std::string room_fields(const room_summary& room) {
  std::string out;
  put_room_common(out, room);
  // One who is no member has no counters and no settings; made-up ones would read as a membership.
  if (room.my_membership == membership::joined) {
    put_room_counters(out, room);
    put_room_mine(out, room);
  }
  return out;
}

std::string message_object(const message& m, user_key /*reader*/) {
  std::string out;
  out.reserve(m.text.size() + 192);
  put_message(out, m);
  return out;
}

std::string history_fields(const history_page& page, user_key /*reader*/) {
  std::string out;
  std::size_t bytes = 64;
  for (const auto& m : page.messages)
    bytes += m.text.size() + 192;
  out.reserve(bytes);
  put(out, R"("messages":)");
  list(out, page.messages, [&](const message& m) { put_message(out, m); });
  field(out, R"(,"as_of":)", page.as_of);
  flag(out, R"(,"more":)", page.more);
  put_gaps(out, page.gaps);
  return out;
}

std::string events_fields(std::string_view room, const events_page& page, user_key reader) {
  std::string out;
  std::size_t bytes = 64;
  for (const auto& e : page.events)
    bytes += e.msg.text.size() + 224;
  out.reserve(bytes);
  put(out, R"("events":)");
  list(out, page.events, [&](const event& e) { put_event(out, room, e, reader); });
  flag(out, R"(,"more":)", page.more);
  put_gaps(out, page.gaps);
  return out;
}

std::string expires_fields(unix_ms expires_at) {
  std::string out;
  field(out, R"("expires_at":)", expires_at);
  return out;
}

std::string hello_fields(const hello_view& h) {
  std::string out;
  out.reserve(1024 + h.rooms.size() * 384);
  put(out, R"("user":)");
  put_profile(out, h.user);
  field(out, R"(,"session":)", h.session);
  field(out, R"(,"epoch":)", h.epoch);
  field(out, R"(,"durability":)", h.durability);
  field(out, R"(,"now":)", h.now);
  out.push_back(',');
  put_rooms(out, h.rooms, h.rooms_next);
  put(out, R"(,"notifications":{"unread":[],"last_id":null},"entered":)");
  list(out, h.entered_rooms, [&](const entered& e) {
    field(out, R"({"room":)", e.room);
    if (e.error) {
      put(out, R"(,"error":)");
      put_error(out, *e.error);
    } else {
      field(out, R"(,"last_seq":)", e.last_seq);
      put_gaps(out, e.gaps);
      if (e.reset) put(out, R"(,"reset":true)");
    }
    out.push_back('}');
  });
  field(out, R"(,"limits":{"frame_bytes":)", h.limits.frame_bytes);
  field(out, R"(,"text_code_points":)", h.limits.text_code_points);
  field(out, R"(,"in_flight":)", h.limits.in_flight);
  field(out, R"(,"messages_per_s":)", h.limits.messages_per_s);
  field(out, R"(,"messages_burst":)", h.limits.messages_burst);
  out.push_back('}');
  return out;
}

// ---- events

std::string event_frame(std::string_view room, const event& e, user_key reader) {
  std::string out;
  out.reserve(e.msg.text.size() + 320);
  put_event(out, room, e, reader);
  return out;
}

std::string members_changed(std::string_view room, seq_no from, seq_no to, std::int64_t joined,
                            std::int64_t left) {
  std::string out;
  open_event(out, "members.changed", room);
  field(out, R"(,"from_seq":)", from);
  field(out, R"(,"seq":)", to);
  field(out, R"(,"joined":)", joined);
  field(out, R"(,"left":)", left);
  out.push_back('}');
  return out;
}

std::string unread_frame(std::span<const unread_view> rooms) {
  std::string out;
  out.reserve(32 + rooms.size() * 112);
  put(out, R"({"ev":"unread","rooms":)");
  list(out, rooms, [&](const unread_view& r) {
    field(out, R"({"room":)", r.room);
    field(out, R"(,"unread":)", r.unread);
    field(out, R"(,"mentions":)", r.mentions);
    field(out, R"(,"last_seq":)", r.last_seq);
    field(out, R"(,"read_seq":)", r.read_seq);
    out.push_back('}');
  });
  out.push_back('}');
  return out;
}

std::string room_updated(const room_summary& room) {
  std::string out;
  out.reserve(512);
  put(out, R"({"ev":"room.updated",)");
  put_room_common(out, room);
  out.push_back('}');
  return out;
}

std::string room_mine(const room_summary& room) {
  std::string out;
  open_event(out, "room.mine", room.id);
  put_room_mine(out, room);
  out.push_back('}');
  return out;
}

std::string room_gone(std::string_view room) {
  std::string out;
  open_event(out, "room.mine", room);
  put(out, R"(,"gone":true})");
  return out;
}

std::string read_marks(std::string_view room,
                       std::span<const std::pair<std::string, seq_no>> marks) {
  std::string out;
  out.reserve(64 + marks.size() * 48);
  open_event(out, "read", room);
  put(out, R"(,"marks":)");
  list(out, marks, [&](const auto& mark) {
    field(out, R"({"user":)", mark.first);
    field(out, R"(,"read_seq":)", mark.second);
    out.push_back('}');
  });
  out.push_back('}');
  return out;
}

std::string typing_frame(std::string_view room, std::string_view user, bool on) {
  std::string out;
  open_event(out, "typing", room);
  field(out, R"(,"user":)", user);
  flag(out, R"(,"on":)", on);
  out.push_back('}');
  return out;
}

std::string presence_frame(std::string_view room, std::span<const presence_view> users) {
  std::string out;
  out.reserve(64 + users.size() * 64);
  open_event(out, "presence", room);
  put(out, R"(,"users":)");
  list(out, users, [&](const presence_view& u) {
    field(out, R"({"user":)", u.user);
    flag(out, R"(,"online":)", u.online);
    if (u.last_seen) field(out, R"(,"last_seen":)", *u.last_seen);
    out.push_back('}');
  });
  out.push_back('}');
  return out;
}

std::string user_updated(std::span<const profile> users) {
  std::string out;
  put(out, R"({"ev":"user.updated",)");
  put_profiles(out, users);
  out.push_back('}');
  return out;
}

std::string token_expiring(unix_ms expires_at) {
  std::string out;
  field(out, R"({"ev":"token.expiring","expires_at":)", expires_at);
  out.push_back('}');
  return out;
}

std::string sync_frame(std::span<const std::pair<std::string, seq_no>> rooms) {
  std::string out;
  put(out, R"({"ev":"sync","rooms":)");
  list(out, rooms, [&](const auto& room) {
    field(out, R"({"room":)", room.first);
    field(out, R"(,"last_seq":)", room.second);
    out.push_back('}');
  });
  out.push_back('}');
  return out;
}

std::string bye_frame(int code, std::string_view reason,
                      std::optional<std::int64_t> retry_after_ms) {
  std::string out;
  field(out, R"({"ev":"bye","code":)", code);
  field(out, R"(,"reason":)", reason);
  if (retry_after_ms) field(out, R"(,"retry_after_ms":)", *retry_after_ms);
  out.push_back('}');
  return out;
}

}  // namespace parley::wire
