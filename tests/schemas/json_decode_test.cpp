// What client JSON becomes: every op's fields, and every way in which a frame can be wrong.
#include "schemas/wire/json_decode.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>

namespace parley::wire {
namespace {

using namespace std::string_literals;

/// The decoded op; fails the test where it is an error or another op.
template <class Op> Op good(const std::string& text) {
  auto d = decode_frame(text);
  if (const auto* why = std::get_if<failure>(&d.body)) {
    ADD_FAILURE() << text << ": " << why->message;
    return Op{};
  }
  auto* op = std::get_if<Op>(&std::get<request>(d.body));
  if (op == nullptr) {
    ADD_FAILURE() << text << " is " << op_name(std::get<request>(d.body));
    return Op{};
  }
  return std::move(*op);
}

struct refusal {
  std::string id;
  failure why;
};
refusal bad(const std::string& text) {
  auto d = decode_frame(text);
  auto* why = std::get_if<failure>(&d.body);
  if (why == nullptr) {
    ADD_FAILURE() << text << " was accepted";
    return {};
  }
  return {d.id, *why};
}

/// The frame is refused with this code; the error names this field, and the answer carries the
/// id 7.
void expect_bad(const std::string& text, const std::string& field, errc code = errc::bad_request) {
  const auto r = bad(text);
  EXPECT_EQ(r.why.code, code) << text;
  EXPECT_EQ(r.why.field, field) << text;
  EXPECT_NE(r.why.message.find(field), std::string::npos) << r.why.message;
  EXPECT_EQ(r.id, "7") << text;
}

/// The frame is no JSON object: no id is known.
void expect_broken(const std::string& text) {
  const auto r = bad(text);
  EXPECT_EQ(r.why.code, errc::bad_request) << text;
  EXPECT_EQ(r.id, "null") << text;
  EXPECT_FALSE(r.why.message.empty());
}

double milliseconds(const std::function<void()>& work) {
  const auto from = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - from).count();
}

// ---- every op

TEST(json_decode, message_send_takes_room_nonce_text_and_reply) {
  const auto op = good<message_send>(
      R"({"op":"message.send","id":7,"room":"r_1","nonce":"n-1","text":"hej 日本 😀 \"q\"\n","reply_to":3,"media":["m_1"]})");
  EXPECT_EQ(op.room, "r_1");
  EXPECT_EQ(op.nonce, "n-1");
  EXPECT_EQ(op.text, "hej 日本 😀 \"q\"\n");
  EXPECT_EQ(op.reply_to, 3);
  EXPECT_EQ(op.media, std::vector<std::string>{"m_1"});
}

TEST(json_decode, fields_may_come_in_any_order_and_escaped) {
  const auto op = good<message_send>(
      R"({"te\u0078t":"\ud83d\ude00\u65e5","nonce":"n","room":"r","id":"x","op":"message.send"})");
  EXPECT_EQ(op.text, "😀日");
  EXPECT_FALSE(op.reply_to);
}

TEST(json_decode, text_is_kept_byte_for_byte) {
  for (const std::string text :
       {"😀", "𠮷野家", "👨‍👩‍👧‍👦", "🇯🇵", "e\u0301", " \u3164 ", "\u202Eabc", ""}) {
    const auto op = good<message_send>(
        R"({"op":"message.send","id":1,"room":"r","nonce":"n","text":")" + text + "\"}");
    EXPECT_EQ(op.text, text)
        << "blankness and length are the room's to check: a known nonce is answered before";
  }
}

TEST(json_decode, hello_takes_token_client_and_epoch) {
  const auto op =
      good<hello>(R"({"op":"hello","id":1,"token":"a.b.c","client":"web","epoch":"e1"})");
  EXPECT_EQ(op.token, "a.b.c");
  EXPECT_EQ(op.client, "web");
  EXPECT_EQ(op.epoch, "e1");
  EXPECT_EQ(op.enter, hello::enter_mode::none);
}

TEST(json_decode, hello_enters_none_all_or_the_rooms_listed_in_their_order) {
  EXPECT_EQ(good<hello>(R"({"op":"hello","id":1,"enter":"none"})").enter, hello::enter_mode::none);
  EXPECT_EQ(good<hello>(R"({"op":"hello","id":1,"enter":"all"})").enter, hello::enter_mode::all);
  const auto op =
      good<hello>(R"({"op":"hello","id":1,"enter":{"r_z":5,"r_a":0,"r_m":9007199254740991}})");
  EXPECT_EQ(op.enter, hello::enter_mode::listed);
  const std::vector<std::pair<std::string, seq_no>> wanted = {
      {"r_z", 5}, {"r_a", 0}, {"r_m", 9007199254740991}};
  EXPECT_EQ(op.enter_rooms, wanted);
  EXPECT_TRUE(good<hello>(R"({"op":"hello","id":1,"enter":{}})").enter_rooms.empty());
}

TEST(json_decode, hello_with_an_enter_of_another_shape_is_refused) {
  for (const std::string enter : {R"("some")", "[]", "1", "null", "true"})
    expect_bad(R"({"op":"hello","id":7,"enter":)" + enter + "}", "enter");
  expect_bad(R"({"op":"hello","id":7,"enter":{"r_1":-1}})", "enter.r_1");
  expect_bad(R"({"op":"hello","id":7,"enter":{"r_1":"5"}})", "enter.r_1");
  expect_bad(R"({"op":"hello","id":7,"enter":{"r_1":{"a":1}}})", "enter.r_1");
  expect_bad(R"({"op":"hello","id":7,"enter":{"a b":1}})", "enter");
  expect_bad(R"({"op":"hello","id":7,"enter":{"a":1,"a":2}})", "enter.a", errc::duplicate_key);
}

std::string hello_entering(int rooms) {
  std::string enter;
  for (int i = 0; i < rooms; ++i)
    enter += (i == 0 ? "\"r" : ",\"r") + std::to_string(i) + "\":1";
  return R"({"op":"hello","id":7,"enter":{)" + enter + "}}";
}

TEST(json_decode, hello_enters_200_rooms_and_not_201) {
  EXPECT_EQ(good<hello>(hello_entering(200)).enter_rooms.size(), 200U);
  expect_bad(hello_entering(201), "enter", errc::too_large);
  expect_bad(hello_entering(3000), "enter", errc::too_large);
}

std::string asking_users(int count) {
  std::string list;
  for (int i = 0; i < count; ++i)
    list += (i == 0 ? "\"u" : ",\"u") + std::to_string(i) + "\"";
  return R"({"op":"users","id":7,"users":[)" + list + "]}";
}

TEST(json_decode, users_takes_100_ids_and_not_101) {
  EXPECT_EQ(good<users>(asking_users(100)).users.size(), 100U);
  expect_bad(asking_users(101), "users", errc::too_large);
  EXPECT_TRUE(good<users>(asking_users(0)).users.empty());
}

TEST(json_decode, an_entry_that_is_no_id_is_named_by_its_place) {
  expect_bad(R"({"op":"users","id":7,"users":["u1","a b"]})", "users[1]");
  expect_bad(R"({"op":"users","id":7,"users":[5]})", "users[0]");
  expect_bad(R"({"op":"users","id":7,"users":["u1",["u2"]]})", "users[1]");
  expect_bad(R"({"op":"users","id":7,"users":"u1"})", "users");
  expect_bad(R"({"op":"users","id":7})", "users");
}

TEST(json_decode, rooms_takes_a_cursor_and_a_limit) {
  const auto op = good<rooms>(R"({"op":"rooms","id":1,"cursor":"abc","limit":10})");
  EXPECT_EQ(op.cursor, "abc");
  EXPECT_EQ(op.limit, 10);
  EXPECT_FALSE(good<rooms>(R"({"op":"rooms","id":1})").limit);
  EXPECT_EQ(good<rooms>(R"({"op":"rooms","id":1,"limit":100000})").limit, 200);
  expect_bad(R"({"op":"rooms","id":7,"cursor":")" + std::string(513, 'c') + "\"}", "cursor",
             errc::too_large);
}

TEST(json_decode, room_create_takes_name_kind_members_and_history) {
  const auto op = good<room_create>(
      R"({"op":"room.create","id":1,"name":"Tea ☕","kind":"private","members":["u1","u2"],"place":"p","history":"joined","nonce":"k"})");
  EXPECT_EQ(op.name, "Tea ☕");
  EXPECT_EQ(op.kind, room_kind::private_room);
  EXPECT_EQ(op.members.size(), 2U);
  EXPECT_EQ(op.place, "p");
  EXPECT_EQ(op.history, history_policy::joined);
  EXPECT_EQ(op.nonce, "k");
}

TEST(json_decode, only_a_direct_room_needs_no_name) {
  EXPECT_EQ(
      good<room_create>(R"({"op":"room.create","id":1,"kind":"direct","members":["u1"]})").name,
      "");
  expect_bad(R"({"op":"room.create","id":7,"kind":"public"})", "name");
  expect_bad(R"({"op":"room.create","id":7,"name":"x"})", "kind");
  expect_bad(R"({"op":"room.create","id":7,"name":"x","kind":"secret"})", "kind");
  expect_bad(R"({"op":"room.create","id":7,"name":"x","kind":"public","history":"some"})",
             "history");
}

TEST(json_decode, a_client_does_not_choose_a_rooms_id) {
  EXPECT_EQ(
      good<room_create>(R"({"op":"room.create","id":1,"name":"x","kind":"public","room":"r_mine"})")
          .room,
      "");
}

TEST(json_decode, join_leave_and_invite_take_an_optional_nonce) {
  EXPECT_EQ(good<room_join>(R"({"op":"room.join","id":1,"room":"r"})").nonce, "");
  EXPECT_EQ(good<room_leave>(R"({"op":"room.leave","id":1,"room":"r","nonce":"n"})").nonce, "n");
  EXPECT_EQ(good<room_invite>(R"({"op":"room.invite","id":1,"room":"r","user":"u"})").user, "u");
  expect_bad(R"({"op":"room.join","id":7,"room":"r","nonce":"a b"})", "nonce");
  expect_bad(R"({"op":"room.invite","id":7,"room":"r"})", "user");
}

TEST(json_decode, room_change_needs_one_setting_at_least) {
  const auto op = good<room_change>(
      R"({"op":"room.change","id":1,"room":"r","name":"N","topic":"","slow_mode_s":5,"retention_days":0,"history":"all"})");
  EXPECT_EQ(op.settings.name, "N");
  EXPECT_EQ(op.settings.topic, "");
  EXPECT_EQ(op.settings.slow_mode_s, 5);
  EXPECT_EQ(op.settings.retention_days, 0);
  EXPECT_EQ(op.settings.history, history_policy::all);
  const auto none = bad(R"({"op":"room.change","id":7,"room":"r"})");
  EXPECT_EQ(none.why.code, errc::bad_request);
  expect_bad(R"({"op":"room.change","id":7,"room":"r","slow_mode_s":-1})", "slow_mode_s");
  expect_bad(R"({"op":"room.change","id":7,"room":"r","retention_days":9000000000})",
             "retention_days");
}

TEST(json_decode, enter_and_exit_take_the_room) {
  const auto op =
      good<room_enter>(R"({"op":"room.enter","id":1,"room":"r","after_seq":0,"epoch":"e"})");
  EXPECT_EQ(op.after_seq, 0);
  EXPECT_EQ(op.epoch, "e");
  EXPECT_FALSE(good<room_enter>(R"({"op":"room.enter","id":1,"room":"r"})").after_seq);
  EXPECT_EQ(good<room_exit>(R"({"op":"room.exit","id":1,"room":"r"})").room, "r");
  expect_bad(R"({"op":"room.enter","id":7,"room":"r","after_seq":-1})", "after_seq");
}

TEST(json_decode, a_read_mark_may_be_zero_and_an_unread_one_may_not) {
  EXPECT_EQ(good<message_read>(R"({"op":"message.read","id":1,"room":"r","seq":0})").seq, 0);
  EXPECT_EQ(good<message_unread>(R"({"op":"message.unread","id":1,"room":"r","seq":1})").seq, 1);
  expect_bad(R"({"op":"message.read","id":7,"room":"r","seq":-1})", "seq");
  expect_bad(R"({"op":"message.read","id":7,"room":"r"})", "seq");
  expect_bad(R"({"op":"message.unread","id":7,"room":"r","seq":0})", "seq");
  expect_bad(R"({"op":"message.send","id":7,"room":"r","nonce":"n","text":"t","reply_to":0})",
             "reply_to");
}

TEST(json_decode, a_seq_is_an_integer_that_javascript_can_hold) {
  EXPECT_EQ(
      good<message_read>(R"({"op":"message.read","id":1,"room":"r","seq":9007199254740991})").seq,
      9007199254740991);
  for (const std::string seq :
       {"9007199254740992", "18446744073709551615", "99999999999999999999999", "1.5", "1e3",
        "-9223372036854775809", "\"1\"", "null", "true", "[1]", "{}"})
    expect_bad(R"({"op":"message.read","id":7,"room":"r","seq":)" + seq + "}", "seq");
}

TEST(json_decode, history_takes_one_side_and_gives_at_most_a_page) {
  EXPECT_EQ(good<history>(R"({"op":"history","id":1,"room":"r"})").limit, 50);
  const auto op = good<history>(R"({"op":"history","id":1,"room":"r","before_seq":9,"limit":200})");
  EXPECT_EQ(op.before_seq, 9);
  EXPECT_EQ(op.limit, 200);
  for (const std::string limit : {"201", "1000000", "9223372036854775807", "99999999999999999999"})
    EXPECT_EQ(good<history>(R"({"op":"history","id":1,"room":"r","limit":)" + limit + "}").limit,
              200)
        << limit;
  for (const std::string limit : {"0", "-1", "1.5", "\"5\"", "-99999999999999999999"})
    expect_bad(R"({"op":"history","id":7,"room":"r","limit":)" + limit + "}", "limit");
  const auto both = bad(R"({"op":"history","id":7,"room":"r","before_seq":9,"after_seq":1})");
  EXPECT_EQ(both.why.code, errc::bad_request);
}

TEST(json_decode, events_needs_the_seq_before) {
  EXPECT_EQ(good<events>(R"({"op":"events","id":1,"room":"r","after_seq":4})").after_seq, 4);
  EXPECT_EQ(good<events>(R"({"op":"events","id":1,"room":"r","after_seq":4,"limit":5000})").limit,
            200);
  expect_bad(R"({"op":"events","id":7,"room":"r"})", "after_seq");
}

TEST(json_decode, typing_may_come_without_an_id) {
  const auto d = decode_frame(R"({"op":"typing","room":"r"})");
  EXPECT_EQ(d.id, "");
  EXPECT_TRUE(std::get<typing>(std::get<request>(d.body)).on);
  EXPECT_EQ(decode_frame(R"({"op":"typing","id":"t","room":"r"})").id, "\"t\"");
  EXPECT_FALSE(good<typing>(R"({"op":"typing","id":1,"room":"r","on":false})").on);
}

TEST(json_decode, a_wrong_typing_without_an_id_has_no_id_to_answer) {
  const auto d = decode_frame(R"({"op":"typing"})");
  EXPECT_EQ(d.id, "");
  EXPECT_TRUE(std::holds_alternative<failure>(d.body));
}

TEST(json_decode, ping_and_renewal_are_ops) {
  good<ping>(R"({"op":"ping","id":1})");
  EXPECT_EQ(good<token_renew>(R"({"op":"token.renew","id":1,"token":"t"})").token, "t");
  expect_bad(R"({"op":"token.renew","id":7})", "token");
}

// ---- ids of requests

TEST(json_decode, an_id_is_a_string_or_an_integer_and_comes_back_as_it_was) {
  EXPECT_EQ(decode_frame(R"({"op":"ping","id":7})").id, "7");
  EXPECT_EQ(decode_frame(R"({"op":"ping","id":-7})").id, "-7");
  EXPECT_EQ(decode_frame(R"({"op":"ping","id":0})").id, "0");
  EXPECT_EQ(decode_frame(R"({"op":"ping","id":"a\"b\\日"})").id, R"("a\"b\\日")");
  EXPECT_EQ(decode_frame(R"({"op":"ping","id":""})").id, "\"\"");
  EXPECT_EQ(decode_frame(R"({"op":"ping","id":18446744073709551615})").id, "18446744073709551615");
  EXPECT_EQ(decode_frame(R"({"op":"ping","id":123456789012345678901234567890})").id,
            "123456789012345678901234567890");
}

TEST(json_decode, without_a_usable_id_the_answer_goes_to_null) {
  for (const std::string id :
       {"null", "1.5", "1e3", "true", "[]", "{}", R"("a\u0000b")", R"("\ud800")"}) {
    const auto r = bad(R"({"op":"ping","id":)" + id + "}");
    EXPECT_EQ(r.id, "null") << id;
    EXPECT_EQ(r.why.field, "id") << id;
    EXPECT_EQ(r.why.code, errc::bad_request);
  }
  EXPECT_EQ(bad(R"({"op":"ping"})").id, "null");
  EXPECT_EQ(bad(R"({"op":"ping","id":")" + std::string(257, 'i') + "\"}").id, "null");
  EXPECT_EQ(bad(R"({"op":"typing","id":null,"room":"r"})").id, "null");
}

TEST(json_decode, a_repeated_id_is_no_usable_id) {
  const auto r = bad(R"({"op":"ping","id":1,"id":2})");
  EXPECT_EQ(r.id, "null");
  EXPECT_EQ(r.why.code, errc::duplicate_key);
  EXPECT_EQ(r.why.field, "id");
}

// ---- ops that are none

TEST(json_decode, an_unknown_op_is_a_bad_request_that_names_it) {
  for (const std::string op : {"message.edit", "room.kick", "resource.put", "search", "Ping", "",
                               "constructor", "__proto__"})
    expect_bad(R"({"id":7,"op":")" + op + "\"}", "op");
  expect_bad(R"({"id":7})", "op");
  expect_bad(R"({"id":7,"op":5})", "op");
  expect_bad(R"({"id":7,"op":null})", "op");
}

// ---- types, missing and unknown fields

TEST(json_decode, unknown_fields_are_ignored_whatever_they_hold) {
  good<ping>(
      R"({"op":"ping","id":1,"__proto__":{"op":"x"},"constructor":[1,{"a":null}],"sender":"A","seq":"x","é":1.5e10,"":false})");
  const auto op = good<message_send>(
      R"({"op":"message.send","id":1,"room":"r","nonce":"n","text":"t","sender":"A","user_id":"A","at":1})");
  EXPECT_EQ(op.text, "t");
}

TEST(json_decode, a_field_of_the_wrong_type_is_named) {
  for (const std::string text : {"{}", "[]", "1", "true", "null", "1.5"})
    expect_bad(R"({"op":"message.send","id":7,"room":"r","nonce":"n","text":)" + text + "}",
               "text");
  expect_bad(R"({"op":"message.send","id":7,"room":1,"nonce":"n","text":"t"})", "room");
  expect_bad(R"({"op":"message.send","id":7,"room":"r","nonce":{},"text":"t"})", "nonce");
  expect_bad(R"({"op":"room.enter","id":7,"room":"r","after_seq":null})", "after_seq");
  expect_bad(R"({"op":"typing","id":7,"room":"r","on":1})", "on");
}

TEST(json_decode, a_missing_field_is_named) {
  expect_bad(R"({"op":"message.send","id":7,"nonce":"n","text":"t"})", "room");
  expect_bad(R"({"op":"message.send","id":7,"room":"r","text":"t"})", "nonce");
  expect_bad(R"({"op":"message.send","id":7,"room":"r","nonce":"n"})", "text");
}

TEST(json_decode, what_is_no_id_of_a_room_is_refused_before_anything_is_looked_up) {
  for (const std::string room : {"", "a b", "../../x", "'; DROP TABLE messages;--", "日", "r%00"})
    expect_bad(R"({"op":"room.join","id":7,"room":")" + room + "\"}", "room");
  expect_bad(R"({"op":"room.join","id":7,"room":")" + std::string(65, 'r') + "\"}", "room");
}

// ---- hostile JSON

TEST(json_decode, a_repeated_key_is_a_duplicate_key_and_never_two_readings) {
  expect_bad(R"({"op":"room.join","id":7,"room":"R2","room":"R1"})", "room", errc::duplicate_key);
  expect_bad(R"({"op":"room.join","id":7,"room":"R2","r\u006fom":"R1"})", "room",
             errc::duplicate_key);
  expect_bad(R"({"op":"ping","id":7,"x":1,"x":1})", "x", errc::duplicate_key);
  expect_bad(R"({"op":"ping","id":7,"x":{"deep":[0,{"y":1,"y":2}]}})", "x.deep[1].y",
             errc::duplicate_key);
  expect_bad(R"({"op":"ping","op":"ping","id":7})", "op", errc::duplicate_key);
}

TEST(json_decode, the_same_key_in_two_objects_is_no_repetition) {
  good<ping>(R"({"op":"ping","id":1,"a":{"x":1,"id":5},"b":{"x":1},"c":[{"x":1},{"x":1}]})");
}

std::string nested(int depth) {  // depth of the outermost object included
  const auto n = static_cast<std::size_t>(depth - 1);
  return R"({"op":"ping","x":)" + std::string(n, '[') + std::string(n, ']') + R"(,"id":7})";
}

TEST(json_decode, nesting_of_32_is_read_and_33_is_refused_by_its_path) {
  good<ping>(nested(32));
  const auto r = bad(nested(33));
  EXPECT_EQ(r.why.code, errc::bad_request);
  EXPECT_EQ(r.why.field.substr(0, 4), "x[0]");
  EXPECT_EQ(r.id, "7") << "the id behind it is found all the same";
  EXPECT_EQ(bad(nested(1000)).id, "7");
}

TEST(json_decode, a_million_brackets_are_refused_at_once) {
  const std::string brackets(1'000'000, '[');
  const auto took = milliseconds([&] {
    expect_broken(brackets);
    bad(R"({"op":"ping","id":7,"x":)" + brackets);
    EXPECT_FALSE(parse_strict(brackets));
  });
  EXPECT_LT(took, 200.0) << "some 10 ms in an optimised build without sanitizers";
}

TEST(json_decode, what_is_no_json_object_is_refused_without_an_id) {
  for (const std::string text : {"",
                                 " ",
                                 "null",
                                 "true",
                                 "7",
                                 "\"a\"",
                                 "[]",
                                 R"([{"op":"ping","id":7}])",
                                 "{",
                                 "}",
                                 R"({"op":"ping","id":7)",
                                 R"({"op":"ping","id":7}x)",
                                 R"({"op":"ping","id":7}{})",
                                 R"({"op":"ping","id":7,})",
                                 R"({'op':'ping','id':7})",
                                 R"({op:"ping","id":7})",
                                 R"({"op":"ping","id":NaN})",
                                 R"({"op":"ping","id":Infinity})",
                                 R"({"op":"ping","id":-Infinity})",
                                 R"({"op":"ping","id":01})",
                                 R"({"op":"ping","id":+1})",
                                 R"({"op":"ping","id":.5})",
                                 R"({"op":"ping","id":1.})",
                                 R"({"op":"ping","id":0x10})",
                                 R"({"op":"ping","id":7}//c)",
                                 R"({"op":"ping",/*c*/"id":7})",
                                 R"({"op":"ping" "id":7})",
                                 R"({"op":"ping","id":7,"x":tru})",
                                 R"({"op":"pi\qng","id":7})",
                                 R"({"op":"ping","id":7,"x":"\u12g4"})",
                                 "{\"op\":\"ping\",\"id\":7,\"x\":\"a\nb\"}",
                                 R"({"op":"ping","id":7,"x":"})"})
    expect_broken(text);
}

TEST(json_decode, a_byte_order_mark_is_refused) {
  expect_broken("\xEF\xBB\xBF{\"op\":\"ping\",\"id\":7}");
  EXPECT_FALSE(parse_strict("\xEF\xBB\xBF{}"));
}

TEST(json_decode, a_zero_byte_does_not_end_the_frame) {
  expect_broken("{\"op\":\"ping\",\"id\":7}\0"s);
  expect_broken("{\"op\":\"ping\",\"id\":7}\0junk"s);
  expect_broken("{\"op\":\"pi\0ng\",\"id\":7}"s);
  EXPECT_FALSE(parse_strict("{}\0{}"s));
}

TEST(json_decode, invalid_utf8_is_refused) {
  for (const std::string bytes :
       {"\xC3\x28", "\xED\xA0\x80", "\xC0\x80", "\xF4\x90\x80\x80", "\xE3\x81"})
    expect_broken(R"({"op":"message.send","id":7,"room":"r","nonce":"n","text":")" + bytes + "\"}");
}

TEST(json_decode, an_escaped_zero_character_is_refused_in_ids_names_and_text) {
  expect_bad(R"({"op":"message.send","id":7,"room":"r","nonce":"n","text":"a\u0000b"})", "text");
  expect_bad(R"({"op":"room.create","id":7,"kind":"public","name":"a\u0000b"})", "name");
  expect_bad(R"({"op":"room.change","id":7,"room":"r","topic":"\u0000"})", "topic");
  expect_bad(R"({"op":"room.join","id":7,"room":"r\u0000"})", "room");
  expect_bad(R"({"op":"users","id":7,"users":["u\u0000"]})", "users[0]");
  expect_bad(R"({"op":"hello","id":7,"token":"t\u0000"})", "token");
}

TEST(json_decode, a_lone_surrogate_is_refused_by_its_field_with_the_requests_id) {
  for (const std::string text :
       {R"(\ud800)", R"(\udc00)", R"(a\ud800b)", R"(\ud800\ud800)", R"(\udc00\ud800)", R"(\uD83D)",
        R"(\ud800\n)", R"(\ud83d\ude00\ud83d)"}) {
    expect_bad(R"({"op":"message.send","id":7,"room":"r","nonce":"n","text":")" + text + "\"}",
               "text");
    expect_bad(R"({"op":"message.send","text":")" + text + R"(","room":"r","nonce":"n","id":7})",
               "text");
  }
  expect_bad(R"({"op":"room.create","kind":"public","name":"\ud800","id":7})", "name");
  expect_bad(R"({"op":"users","users":["u1","\ud800"],"id":7})", "users[1]");
}

TEST(json_decode, a_backslash_before_a_surrogates_letters_is_no_surrogate) {
  EXPECT_EQ(
      good<message_send>(R"({"op":"message.send","id":7,"room":"r","nonce":"n","text":"\\ud800"})")
          .text,
      R"(\ud800)");
}

TEST(json_decode, a_lone_surrogate_beside_a_syntax_error_is_no_json_object) {
  expect_broken(R"({"op":"message.send","id":7,"room":"r","nonce":"n","text":"\ud800",})");
  expect_broken(R"({"op":"ping","id":7,"x":"\ud800")");
}

TEST(json_decode, a_syntax_error_never_quotes_what_was_sent) {
  const auto r = bad(R"({"op":"hello","id":7,"token":"geheim.geheim.geheim" x})");
  EXPECT_EQ(r.why.message.find("geheim"), std::string::npos) << r.why.message;
  EXPECT_NE(r.why.message.find("byte"), std::string::npos) << r.why.message;
}

TEST(json_decode, a_long_op_or_key_is_not_echoed_whole) {
  const std::string longer(60'000, 'k');
  EXPECT_LT(bad(R"({"id":7,"op":")" + longer + "\"}").why.message.size(), 300U);
  EXPECT_LT(
      bad(R"({"id":7,"op":"ping",")" + longer + R"(":1,")" + longer + R"(":2})").why.message.size(),
      300U);
}

std::string many_keys(int count) {
  std::string text = R"({"op":"ping","id":7)";
  for (int i = 0; i < count; ++i)
    text += ",\"k" + std::to_string(i) + "\":0";
  return text + "}";
}

TEST(json_decode, a_hundred_thousand_keys_cost_their_number_and_not_its_square) {
  const auto few = many_keys(10'000), many = many_keys(100'000);
  good<ping>(few);
  const auto base = milliseconds([&] { good<ping>(few); });
  const auto took = milliseconds([&] { good<ping>(many); });
  EXPECT_LT(took, 40 * base + 50) << "ten times as many keys; a square would be a hundred times "
                                  << base << " ms";
  const auto document = parse_strict(many);
  ASSERT_TRUE(document);
  EXPECT_EQ(document->size(), 100'002U);
}

TEST(json_decode, the_last_of_many_keys_is_still_seen_to_be_repeated) {
  auto text = many_keys(20'000);
  text.insert(text.size() - 1, ",\"k777\":1");
  expect_bad(text, "k777", errc::duplicate_key);
}

TEST(json_decode, a_string_of_the_frames_size_is_read) {
  const std::string text(65'000, 'x');
  EXPECT_EQ(good<message_send>(R"({"op":"message.send","id":1,"room":"r","nonce":"n","text":")" +
                               text + "\"}")
                .text.size(),
            65'000U);
}

TEST(json_decode, every_prefix_of_a_frame_is_refused_and_harmless) {
  const std::string whole =
      R"({"op":"message.send","id":7,"room":"r","nonce":"n","text":"a\ud83d\ude00é","media":["m"],"x":[{"y":-1.5e3}]})";
  good<message_send>(whole);
  for (std::size_t n = 0; n < whole.size(); ++n)
    expect_broken(whole.substr(0, n));
}

TEST(json_decode, every_single_byte_changed_is_read_or_refused_and_never_more) {
  const std::string whole =
      R"({"op":"hello","id":7,"enter":{"r":1},"token":"\ud83d\ude00","x":[null,true,1e5]})";
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (int byte = 0; byte < 256; ++byte) {
      auto changed = whole;
      changed[at] = static_cast<char>(byte);
      const auto d = decode_frame(changed);
      if (const auto* why = std::get_if<failure>(&d.body))
        EXPECT_FALSE(why->message.empty());
      else
        EXPECT_EQ(op_name(std::get<request>(d.body)), "hello");
    }
}

// ---- bodies over HTTP

TEST(json_decode, a_body_becomes_the_op_with_what_the_path_gives) {
  const auto r = decode_body("message.send", R"({"text":"hi","room":"r_other","nonce":"n"})",
                             {{"room", "r_path"}, {"nonce", "key-1"}});
  ASSERT_TRUE(r) << r.error().message;
  const auto& op = std::get<message_send>(*r);
  EXPECT_EQ(op.room, "r_path");
  EXPECT_EQ(op.nonce, "key-1");
  EXPECT_EQ(op.text, "hi");
}

TEST(json_decode, a_body_is_checked_as_a_frame_is) {
  const auto code_of = [](std::string_view body) {
    const auto r = decode_body("message.send", body, {{"room", "r"}, {"nonce", "n"}});
    return r ? errc{} : r.error().code;
  };
  EXPECT_EQ(code_of(R"({"text":"a","text":"b"})"), errc::duplicate_key);
  EXPECT_EQ(code_of(R"({"text":{}})"), errc::bad_request);
  EXPECT_EQ(code_of(R"({})"), errc::bad_request);
  EXPECT_EQ(code_of(R"([])"), errc::bad_request);
  EXPECT_EQ(code_of(R"({"text":"\ud800"})"), errc::bad_request);
  EXPECT_EQ(code_of(""), errc::bad_request);
  const auto bad_path = decode_body("room.join", "{}", {{"room", "a b"}});
  ASSERT_FALSE(bad_path);
  EXPECT_EQ(bad_path.error().field, "room");
}

// ---- documents

TEST(json_decode, a_strict_document_is_what_it_says) {
  const auto d = parse_strict(R"( {"name":"日本","n":[1,-2,3.5],"ok":true,"none":null} )");
  ASSERT_TRUE(d);
  EXPECT_EQ((*d)["name"], "日本");
  EXPECT_EQ((*d)["n"][1], -2);
  EXPECT_TRUE(parse_strict("5"));
  EXPECT_TRUE(parse_strict("[]"));
}

TEST(json_decode, a_strict_document_refuses_what_a_frame_refuses) {
  for (const std::string text :
       {"", "{", "{}x", "[1,]", "01", "NaN", "'a'", "{}//", R"("\ud800")", "\"\xC3(\"", "[1]]"}) {
    const auto d = parse_strict(text);
    ASSERT_FALSE(d) << text;
    EXPECT_EQ(d.error().code, errc::bad_request);
  }
  const auto twice = parse_strict(R"({"a":{"password":"x","password":"y"}})");
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code, errc::duplicate_key);
  EXPECT_EQ(twice.error().field, "a.password");
  EXPECT_TRUE(parse_strict(std::string(32, '[') + std::string(32, ']')));
  EXPECT_FALSE(parse_strict(std::string(33, '[') + std::string(33, ']')));
}

}  // namespace
}  // namespace parley::wire
