// What the server's JSON looks like: field names and shapes of the contract, and text that is
// always valid.
#include "schemas/wire/json_encode.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "schemas/text.hpp"
#include "schemas/wire/json_decode.hpp"

namespace parley::wire {
namespace {

using json = nlohmann::json;
using namespace std::string_literals;

/// Parsed by the strict reader, which also refuses repeated keys.
json parsed(const std::string& text) {
  auto document = parse_strict(text);
  if (!document) {
    ADD_FAILURE() << text << ": " << document.error().message;
    return {};
  }
  return std::move(*document);
}
json fields(const std::string& text) { return parsed("{" + text + "}"); }

profile anna() { return {user_key{1}, "u_anna", "anna", "Anna Ä", "", false}; }

message a_message() {
  message m;
  m.seq = 5;
  m.at = 1700000000000;
  m.sender = user_key{1};
  m.sender_id = "u_anna";
  m.text = "hej";
  m.nonce = "n1";
  return m;
}

event a_created() {
  event e;
  e.seq = 5;
  e.kind = event_kind::message_created;
  e.at = 1700000000000;
  e.sender = user_key{1};
  e.sender_id = "u_anna";
  e.msg = a_message();
  return e;
}

room_summary a_room() {
  room_summary r;
  r.id = "r_1";
  r.name = "Tea";
  r.last_seq = 9;
  r.members = 3;
  r.online = 2;
  r.unread = 4;
  r.mentions = 1;
  r.read_seq = 5;
  r.my_role = role::owner;
  return r;
}

// ---- strings

TEST(json_encode, a_string_escapes_what_json_needs_and_nothing_else) {
  EXPECT_EQ(wire::quoted(""), "\"\"");
  EXPECT_EQ(wire::quoted("a\"b\\c/d"), R"("a\"b\\c/d")");
  EXPECT_EQ(wire::quoted("\b\f\n\r\t"), R"("\b\f\n\r\t")");
  EXPECT_EQ(wire::quoted("\x01\x1F"s), R"("\u0001\u001f")");
  EXPECT_EQ(wire::quoted("a\0b"s), R"("a\u0000b")");
  EXPECT_EQ(wire::quoted("\x7F<>&'"), "\"\x7F<>&'\"");
  EXPECT_EQ(wire::quoted("é日😀\u2028"), "\"é日😀\u2028\"");
}

TEST(json_encode, every_string_comes_back_as_it_was) {
  std::string all;
  for (int c = 1; c < 128; ++c)
    all.push_back(static_cast<char>(c));
  for (const std::string& text :
       {all, "𠮷野家 👨‍👩‍👧‍👦 🇯🇵"s, "\uFFFF\u0080\U0010FFFF"s, "a\0b"s})
    EXPECT_EQ(parsed(wire::quoted(text)).get<std::string>(), text);
}

TEST(json_encode, what_is_no_utf8_becomes_the_replacement_character) {
  EXPECT_EQ(wire::quoted("a\xFFz"), "\"a\uFFFDz\"");
  EXPECT_EQ(wire::quoted("\xC3("), "\"\uFFFD(\"");
  EXPECT_EQ(wire::quoted("\xE3\x81"), "\"\uFFFD\"") << "a preview that was cut inside a character";
  EXPECT_EQ(wire::quoted("\xC0\x80"), "\"\uFFFD\uFFFD\"");
  EXPECT_EQ(wire::quoted("\xFF\"\xFF"), "\"\uFFFD\\\"\uFFFD\"");
}

TEST(json_encode, any_bytes_make_a_valid_frame) {
  for (int a = 0; a < 256; ++a)
    for (int b = 0; b < 256; ++b) {
      const std::string bytes = {static_cast<char>(a), static_cast<char>(b), 'x'};
      const auto text = wire::quoted(bytes);
      ASSERT_TRUE(is_clean_utf8(text)) << a << " " << b;
      ASSERT_TRUE(parse_strict(text)) << a << " " << b;
    }
}

// ---- answers

TEST(json_encode, an_ok_carries_the_id_as_it_was_given) {
  EXPECT_EQ(ok_frame("7", ""), R"({"re":7,"ok":true})");
  EXPECT_EQ(ok_frame(R"("a")", seq_fields(3)), R"({"re":"a","ok":true,"seq":3})");
}

TEST(json_encode, an_answer_without_an_id_goes_to_null) {
  EXPECT_EQ(ok_frame("", ""), R"({"re":null,"ok":true})");
  EXPECT_EQ(parsed(error_frame("", fail(errc::bad_request, "x")))["re"], json());
}

TEST(json_encode, an_error_has_code_message_and_what_else_is_known) {
  EXPECT_EQ(error_frame("null", fail(errc::not_found, "no such room")),
            R"({"re":null,"error":{"code":"not_found","message":"no such room"}})");
  auto why = fail(errc::overloaded, "busy");
  why.retry_after_ms = 250;
  EXPECT_EQ(parsed(error_frame("1", why))["error"]["retry_after_ms"], 250);
  EXPECT_EQ(parsed(error_frame(
                "1", field_failure(errc::bad_request, "text", "is missing")))["error"]["field"],
            "text");
  EXPECT_EQ(parsed(error_frame("1", failure{}))["error"]["message"], "internal")
      << "a message is never empty";
}

TEST(json_encode, a_problem_has_status_and_code) {
  auto why = fail(errc::rate_limited, "too many");
  why.retry_after_ms = 1500;
  const auto p = parsed(problem_body(why));
  EXPECT_EQ(
      p,
      json::parse(
          R"({"type":"about:blank","title":"Rate limited","status":429,"detail":"too many","code":"rate_limited","retry_after_ms":1500})"));
  auto timeout = fail(errc::bad_request, "the body did not come");
  timeout.status = 408;
  EXPECT_EQ(parsed(problem_body(timeout))["status"], 408);
}

TEST(json_encode, answers_to_changes_say_their_seq) {
  EXPECT_EQ(fields(sent_fields(4, 99, false)), json::parse(R"({"seq":4,"at":99})"));
  EXPECT_EQ(fields(sent_fields(4, 99, true)), json::parse(R"({"seq":4,"at":99,"duplicate":true})"));
  EXPECT_EQ(fields(sent_fields(4, 99, true, true)),
            json::parse(R"({"seq":4,"at":99,"duplicate":true,"deleted":true})"));
  EXPECT_EQ(fields(created_fields("r_1", 1)), json::parse(R"({"room":"r_1","seq":1})"));
  EXPECT_EQ(fields(created_fields("r_1", 1, true)),
            json::parse(R"({"room":"r_1","seq":1,"duplicate":true})"));
  EXPECT_EQ(fields(seq_fields(8, true)), json::parse(R"({"seq":8,"duplicate":true})"));
  EXPECT_EQ(fields(read_fields(8, 2, 1)), json::parse(R"({"read_seq":8,"unread":2,"mentions":1})"));
  EXPECT_EQ(fields(expires_fields(1700000000000)), json::parse(R"({"expires_at":1700000000000})"));
}

TEST(json_encode, a_profile_shows_picture_and_deleted_only_where_they_are) {
  EXPECT_EQ(parsed(profile_object(anna())),
            json::parse(R"({"user":"u_anna","name":"anna","display_name":"Anna Ä"})"));
  auto gone = anna();
  gone.picture = "m_1";
  gone.deleted = true;
  const auto p = fields(users_fields(std::vector{gone}))["users"][0];
  EXPECT_EQ(p["picture"], "m_1");
  EXPECT_EQ(p["deleted"], true);
}

TEST(json_encode, entering_tells_members_gaps_and_reset) {
  const std::vector<member_view> members = {{anna(), role::owner, true, 3}};
  const std::vector<gap> gaps = {{1, 9, "far"}, {10, 12, "purged"}};
  EXPECT_EQ(fields(enter_fields(20, 5, members, gaps, true)),
            json::parse(R"({"last_seq":20,"read_seq":5,
    "members":[{"user":"u_anna","name":"anna","display_name":"Anna Ä","role":"owner","online":true}],
    "gap":[{"from":1,"to":9,"why":"far"},{"from":10,"to":12,"why":"purged"}],"reset":true})"));
  const auto plain = fields(enter_fields(20, 5, {}, {}, false));
  EXPECT_EQ(plain, json::parse(R"({"last_seq":20,"read_seq":5,"members":[]})"));
}

TEST(json_encode, lists_carry_a_cursor_only_where_there_is_more) {
  const std::vector<member_view> members = {{anna(), role::member, false, 0}};
  EXPECT_FALSE(fields(members_fields(members, "")).contains("next"));
  EXPECT_EQ(fields(members_fields(members, "c"))["next"], "c");
  const std::vector<room_summary> rooms = {a_room()};
  EXPECT_FALSE(fields(rooms_fields(rooms, "")).contains("rooms_next"));
  EXPECT_EQ(fields(rooms_fields(rooms, "c"))["rooms_next"], "c");
  EXPECT_EQ(fields(presence_fields(members)),
            json::parse(R"({"users":[{"user":"u_anna","online":false}]})"));
}

TEST(json_encode, a_room_is_its_line_its_counters_and_what_is_ones_own) {
  auto r = a_room();
  EXPECT_EQ(
      fields(room_fields(r)),
      json::parse(R"({"room":"r_1","name":"Tea","kind":"public","last_seq":9,"online":2,"members":3,
    "unread":4,"mentions":1,"read_seq":5,"role":"owner","level":"all","pinned":false,"order":0})"));
  r.topic = "Green";
  r.muted_until = 77;
  r.last = last_message{9, user_key{1}, "u_anna", "hej", 12};
  const auto full = fields(room_fields(r));
  EXPECT_EQ(full["topic"], "Green");
  EXPECT_EQ(full["muted_until"], 77);
  EXPECT_EQ(full["last"], json::parse(R"({"seq":9,"sender":"u_anna","text":"hej","at":12})"));
}

TEST(json_encode, a_room_of_which_one_is_no_member_is_its_card) {
  auto r = a_room();
  r.my_membership = membership::left;
  EXPECT_EQ(
      fields(room_fields(r)),
      json::parse(
          R"({"room":"r_1","name":"Tea","kind":"public","last_seq":9,"online":2,"members":3})"));
}

TEST(json_encode, a_message_in_history_has_lists_and_no_nonce) {
  EXPECT_EQ(
      parsed(message_object(a_message(), user_key{1})),
      json::parse(
          R"({"seq":5,"at":1700000000000,"sender":"u_anna","text":"hej","mentions":[],"hashtags":[],"reactions":[]})"));
  auto m = a_message();
  m.reply_to = 2;
  m.edited_at = 1700000000001;
  const auto edited = parsed(message_object(m, user_key{2}));
  EXPECT_EQ(edited["reply_to"], 2);
  EXPECT_EQ(edited["edited_at"], 1700000000001);
}

TEST(json_encode, a_deleted_message_has_no_text_even_where_one_is_left) {
  auto m = a_message();
  m.deleted = true;
  EXPECT_EQ(parsed(message_object(m, user_key{1})),
            json::parse(R"({"seq":5,"at":1700000000000,"sender":"u_anna","deleted":true})"));
}

TEST(json_encode, history_and_events_tell_more_and_gaps) {
  history_page page{{a_message()}, 9, true, {{1, 3, "not_yours"}}};
  const auto h = fields(history_fields(page, user_key{1}));
  EXPECT_EQ(h["messages"].size(), 1U);
  EXPECT_EQ(h["as_of"], 9);
  EXPECT_EQ(h["more"], true);
  EXPECT_EQ(h["gap"][0]["why"], "not_yours");
  const auto e = fields(events_fields("r_1", {{a_created()}, false, {}}, user_key{2}));
  EXPECT_EQ(e["events"][0]["ev"], "message.created");
  EXPECT_EQ(e["events"][0]["room"], "r_1");
  EXPECT_EQ(e["more"], false);
  EXPECT_FALSE(e.contains("gap"));
}

TEST(json_encode, hello_tells_everything_the_contract_names) {
  hello_view h;
  h.user = anna();
  h.session = "s_1";
  h.epoch = "e";
  h.durability = "full";
  h.now = 5;
  h.rooms = {a_room()};
  h.rooms_next = "c";
  entered ok{"r_1", 9, {{1, 2, "far"}}, false, {}};
  entered no{"r_2", 0, {}, false, fail(errc::not_found, "no such room")};
  entered reset{"r_3", 4, {}, true, {}};
  h.entered_rooms = {ok, no, reset};
  h.limits = {65536, 4000, 64, 20, 60};
  const auto j = fields(hello_fields(h));
  EXPECT_EQ(j["user"]["user"], "u_anna");
  EXPECT_EQ(j["session"], "s_1");
  EXPECT_EQ(j["epoch"], "e");
  EXPECT_EQ(j["durability"], "full");
  EXPECT_EQ(j["now"], 5);
  EXPECT_EQ(j["rooms"].size(), 1U);
  EXPECT_EQ(j["rooms_next"], "c");
  EXPECT_EQ(j["notifications"], json::parse(R"({"unread":[],"last_id":null})"));
  EXPECT_EQ(j["entered"],
            json::parse(R"([{"room":"r_1","last_seq":9,"gap":[{"from":1,"to":2,"why":"far"}]},
    {"room":"r_2","error":{"code":"not_found","message":"no such room"}},{"room":"r_3","last_seq":4,"reset":true}])"));
  EXPECT_EQ(
      j["limits"],
      json::parse(
          R"({"frame_bytes":65536,"text_code_points":4000,"in_flight":64,"messages_per_s":20,"messages_burst":60})"));
}

// ---- events

TEST(json_encode, a_created_message_shows_its_nonce_to_its_sender_alone) {
  const auto own = parsed(event_frame("r_1", a_created(), user_key{1}));
  EXPECT_EQ(
      own,
      json::parse(
          R"({"ev":"message.created","room":"r_1","nonce":"n1","seq":5,"at":1700000000000,"sender":"u_anna","text":"hej",
    "mentions":[],"hashtags":[],"reactions":[]})"));
  EXPECT_FALSE(parsed(event_frame("r_1", a_created(), user_key{2})).contains("nonce"));
  EXPECT_FALSE(parsed(event_frame("r_1", a_created(), user_key{})).contains("nonce"));
  auto nobody = a_created();
  nobody.sender = user_key{};
  EXPECT_FALSE(parsed(event_frame("r_1", nobody, user_key{})).contains("nonce"))
      << "key 0 names nobody";
}

TEST(json_encode, a_replayed_message_that_is_deleted_has_no_text) {
  auto e = a_created();
  e.msg.deleted = true;
  const auto j = parsed(event_frame("r_1", e, user_key{2}));
  EXPECT_EQ(j["deleted"], true);
  EXPECT_FALSE(j.contains("text"));
}

TEST(json_encode, changes_of_a_message_name_their_target) {
  event e;
  e.seq = 8;
  e.at = 3;
  e.sender_id = "u_anna";
  e.target = 5;
  e.msg = a_message();
  e.kind = event_kind::message_updated;
  EXPECT_EQ(
      parsed(event_frame("r", e, user_key{2})),
      json::parse(
          R"({"ev":"message.updated","room":"r","seq":8,"at":3,"target":5,"sender":"u_anna","text":"hej"})"));
  e.msg.deleted = true;
  EXPECT_FALSE(parsed(event_frame("r", e, user_key{2})).contains("text"));
  e.kind = event_kind::message_deleted;
  EXPECT_EQ(
      parsed(event_frame("r", e, user_key{2})),
      json::parse(
          R"({"ev":"message.deleted","room":"r","seq":8,"at":3,"target":5,"sender":"u_anna"})"));
  e.kind = event_kind::message_pinned;
  EXPECT_EQ(parsed(event_frame("r", e, user_key{2}))["ev"], "message.pinned");
}

TEST(json_encode, member_events_name_the_person_and_who_did_it) {
  event e;
  e.seq = 2;
  e.at = 3;
  e.kind = event_kind::member_joined;
  e.user = anna();
  e.role_name = "member";
  EXPECT_EQ(
      parsed(event_frame("r", e, user_key{2})),
      json::parse(
          R"({"ev":"member.joined","room":"r","seq":2,"at":3,"user":"u_anna","name":"anna","display_name":"Anna Ä","role":"member"})"));
  e.kind = event_kind::member_changed;
  e.role_name = "invited";
  e.by_id = "u_bo";
  const auto invited = parsed(event_frame("r", e, user_key{2}));
  EXPECT_FALSE(invited.contains("role"));
  EXPECT_EQ(invited["by"], "u_bo");
  e.kind = event_kind::member_left;
  e.reason = "spam";
  EXPECT_EQ(parsed(event_frame("r", e, user_key{2}))["reason"], "spam");
}

TEST(json_encode, room_changed_tells_only_what_changed) {
  event e;
  e.seq = 2;
  e.at = 3;
  e.kind = event_kind::room_changed;
  e.sender_id = "u_anna";
  e.settings.topic = "";
  e.settings.history = history_policy::joined;
  EXPECT_EQ(
      parsed(event_frame("r", e, user_key{2})),
      json::parse(
          R"({"ev":"room.changed","room":"r","seq":2,"at":3,"by":"u_anna","topic":"","history":"joined"})"));
}

TEST(json_encode, an_event_that_cannot_be_told_still_accounts_for_its_seq) {
  event e;
  e.seq = 6;
  e.at = 3;
  for (auto kind :
       {event_kind::reaction_added, event_kind::resource_changed, static_cast<event_kind>(99)}) {
    e.kind = kind;
    EXPECT_EQ(parsed(event_frame("r", e, user_key{2})),
              json::parse(R"({"ev":"hidden","room":"r","seq":6,"at":3})"));
  }
}

TEST(json_encode, events_without_a_seq_have_the_contracts_fields) {
  EXPECT_EQ(parsed(members_changed("r", 3, 9, 5, 2)),
            json::parse(
                R"({"ev":"members.changed","room":"r","from_seq":3,"seq":9,"joined":5,"left":2})"));
  EXPECT_EQ(
      parsed(unread_frame(std::vector<unread_view>{{"r", 4, 1, 9, 5}})),
      json::parse(
          R"({"ev":"unread","rooms":[{"room":"r","unread":4,"mentions":1,"last_seq":9,"read_seq":5}]})"));
  EXPECT_EQ(
      parsed(room_updated(a_room())),
      json::parse(
          R"({"ev":"room.updated","room":"r_1","name":"Tea","kind":"public","last_seq":9,"online":2,"members":3})"));
  EXPECT_EQ(
      parsed(room_mine(a_room())),
      json::parse(
          R"({"ev":"room.mine","room":"r_1","role":"owner","level":"all","pinned":false,"order":0})"));
  EXPECT_EQ(parsed(room_gone("r")), json::parse(R"({"ev":"room.mine","room":"r","gone":true})"));
  EXPECT_EQ(parsed(read_marks("r", std::vector<std::pair<std::string, seq_no>>{{"u", 4}})),
            json::parse(R"({"ev":"read","room":"r","marks":[{"user":"u","read_seq":4}]})"));
  EXPECT_EQ(parsed(typing_frame("r", "u", false)),
            json::parse(R"({"ev":"typing","room":"r","user":"u","on":false})"));
  EXPECT_EQ(
      parsed(presence_frame("r", std::vector<presence_view>{{"u", true, {}}, {"v", false, 7}})),
      json::parse(
          R"({"ev":"presence","room":"r","users":[{"user":"u","online":true},{"user":"v","online":false,"last_seen":7}]})"));
  EXPECT_EQ(parsed(user_updated(std::vector{anna()}))["users"][0]["name"], "anna");
  EXPECT_EQ(parsed(token_expiring(9)), json::parse(R"({"ev":"token.expiring","expires_at":9})"));
  EXPECT_EQ(parsed(sync_frame(std::vector<std::pair<std::string, seq_no>>{{"r", 9}})),
            json::parse(R"({"ev":"sync","rooms":[{"room":"r","last_seq":9}]})"));
  EXPECT_EQ(parsed(bye_frame(1001, "stopping", 1234)),
            json::parse(R"({"ev":"bye","code":1001,"reason":"stopping","retry_after_ms":1234})"));
  EXPECT_FALSE(parsed(bye_frame(4001, "expired", {})).contains("retry_after_ms"));
}

TEST(json_encode, a_preview_is_cut_at_100_code_points_between_characters) {
  auto r = a_room();
  std::string text;
  for (int i = 0; i < 150; ++i)
    text += "😀";
  r.last = last_message{9, user_key{1}, "u_anna", text, 12};
  const auto cut = parsed(room_updated(r))["last"]["text"].get<std::string>();
  EXPECT_EQ(code_points(cut), 100U);
  EXPECT_TRUE(is_clean_utf8(cut));
}

TEST(json_encode, markup_and_quotes_in_names_stay_text) {
  auto r = a_room();
  r.name = R"("><script>alert(1)</script>\)";
  EXPECT_EQ(parsed(room_updated(r))["name"], r.name);
  EXPECT_EQ(parsed(typing_frame("r\"", "u\\", true))["room"], "r\"");
}

TEST(json_encode, numbers_keep_all_their_digits) {
  EXPECT_EQ(fields(read_fields(9007199254740991, 0, 0))["read_seq"], 9007199254740991);
  EXPECT_EQ(seq_fields(INT64_MIN), R"("seq":-9223372036854775808)");
}

}  // namespace
}  // namespace parley::wire
