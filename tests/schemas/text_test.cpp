// The text contract: units, blankness, names, titles, passwords.
#include "schemas/text.hpp"

#include <gtest/gtest.h>

namespace parley {
namespace {

using namespace std::string_literals;

const std::string family = "👨‍👩‍👧‍👦";  // 7 code points, 25 bytes

TEST(text, length_is_counted_in_code_points) {
  EXPECT_EQ(code_points(""), 0U);
  EXPECT_EQ(code_points("aé日😀"), 4U);
  EXPECT_EQ(code_points(family), 7U);
}

TEST(text, invalid_utf8_and_zero_characters_are_not_clean) {
  EXPECT_TRUE(is_clean_utf8(""));
  EXPECT_TRUE(is_clean_utf8("a\u0001é日😀"));
  EXPECT_FALSE(is_clean_utf8("a\0b"s));
  for (const std::string bad :
       {"\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE3\x81", "\xC3\x28", "\x80", "\xFE"})
    EXPECT_FALSE(is_clean_utf8(bad));
  EXPECT_TRUE(is_clean_utf8("\uFFFE")) << "a noncharacter is valid UTF-8";
}

TEST(text, white_space_format_characters_and_fillers_are_blank) {
  for (const std::string blank :
       {"", " ", "\t\r\n", "\u00A0", "\u3000", "\u2028", "\u200B", "\u200C", "\u200D", "\u202E",
        "\u2060", "\uFEFF", "\u00AD", "\u115F", "\u1160", "\u2800", "\u3164", "\uFFA0",
        " \u3164\u200B\n"})
    EXPECT_TRUE(is_blank(blank)) << testing::PrintToString(blank);
}

TEST(text, anything_that_shows_is_not_blank) {
  for (const std::string shown : {"a", " a ", "\u200Ba", "\u0301", "😀", "\u202Ex", "가"})
    EXPECT_FALSE(is_blank(shown)) << shown;
}

TEST(text, a_cut_never_parts_a_code_point) {
  EXPECT_EQ(first_code_points("日本語", 2), "日本");
  EXPECT_EQ(first_code_points("日本語", 3), "日本語");
  EXPECT_EQ(first_code_points("日本語", 100), "日本語");
  EXPECT_EQ(first_code_points("日本語", 0), "");
  EXPECT_EQ(first_code_points("😀a", 1), "😀");
  EXPECT_EQ(first_code_points("", 5), "");
}

TEST(text, names_are_the_same_after_nfkc_and_case_folding) {
  EXPECT_EQ(fold_name("Alice"), fold_name("aLICE"));
  EXPECT_EQ(fold_name("ＡＬＩＣＥ"), "alice");
  EXPECT_EQ(fold_name("Straße"), fold_name("STRASSE"));
  EXPECT_EQ(fold_name("e\u0301"), fold_name("\u00E9"));
  EXPECT_EQ(fold_name("ｶﾞ"), fold_name("ガ"));
  EXPECT_EQ(fold_name("a\u200Db"), fold_name("ab")) << "what cannot be seen makes no other name";
  EXPECT_NE(fold_name("が"), fold_name("か"));
}

TEST(text, folding_keeps_long_expansions_whole) {
  std::string one = "\uFDFA", many;  // becomes 18 code points each
  for (int i = 0; i < 64; ++i)
    many += one;
  EXPECT_EQ(code_points(fold_name(many)), 64 * code_points(fold_name(one)));
  EXPECT_EQ(code_points(fold_name(one)), 18U);
}

TEST(text, nfc_composes_and_leaves_invalid_bytes_alone) {
  EXPECT_EQ(to_nfc("e\u0301"), "\u00E9");
  EXPECT_EQ(to_nfc("한"), to_nfc("한"));
  EXPECT_EQ(to_nfc("\xC3("), "\xC3(");
}

TEST(text, a_message_of_exactly_the_limit_fits_and_one_more_is_too_large) {
  std::string text;
  for (int i = 0; i < 4000; ++i)
    text += "😀";
  EXPECT_FALSE(check_text(text, 4000, "text"));
  const auto why = check_text(text + "a", 4000, "text");
  ASSERT_TRUE(why);
  EXPECT_EQ(why->code, errc::too_large);
  EXPECT_EQ(why->field, "text");
  EXPECT_EQ(why->message, "text has 4001 code points, at most 4000 are allowed");
}

TEST(text, the_limit_counts_code_points_and_not_graphemes) {
  EXPECT_TRUE(check_text("123456789" + family, 10, "text"));
  EXPECT_FALSE(check_text("123" + family, 10, "text"));
  EXPECT_FALSE(check_text("😀😀😀😀😀😀😀😀😀😀", 10, "text"));
}

TEST(text, families_of_emoji_count_by_their_code_points_up_to_the_limit) {
  std::string text;
  for (int i = 0; i < 571; ++i)
    text += family;  // 3,997 code points
  EXPECT_FALSE(check_text(text + "abc", 4000, "text"));
  EXPECT_TRUE(check_text(text + family, 4000, "text"));
}

TEST(text, blank_or_unclean_messages_are_refused) {
  for (const std::string& bad : {""s, "   "s, "\u3164"s, "\u200B"s, "a\0b"s, "\xC3("s}) {
    const auto why = check_text(bad, 4000, "text");
    ASSERT_TRUE(why) << testing::PrintToString(bad);
    EXPECT_EQ(why->code, errc::bad_request);
    EXPECT_EQ(why->field, "text");
  }
}

TEST(text, bidi_controls_and_piled_marks_are_kept_in_messages) {
  EXPECT_FALSE(check_text("\u202Eabc", 4000, "text"));
  std::string zalgo = "a";
  for (int i = 0; i < 3999; ++i)
    zalgo += "\u0301";
  EXPECT_FALSE(check_text(zalgo, 4000, "text"));
  EXPECT_TRUE(check_text(zalgo + "\u0301", 4000, "text"));
}

TEST(text, names_of_all_scripts_are_names) {
  for (const std::string name :
       {"alice", "山田太郎", "홍길동", "😀", "𠮷野家", "🇯🇵", "ÅåÄä", "O'Brien", "a", "नमस्ते"}) {
    const auto why = check_user_name(name);
    EXPECT_FALSE(why) << name << ": " << (why ? why->message : "");
  }
  EXPECT_FALSE(check_user_name(family));
}

TEST(text, joiners_are_allowed_in_and_behind_letters) {
  EXPECT_FALSE(check_user_name("ന\u0D4D\u200D")) << "a Malayalam chillu ends with a joiner";
  EXPECT_FALSE(check_user_name("می\u200Cخواهم"));
  EXPECT_TRUE(check_user_name("\u200Cabc"));
  EXPECT_TRUE(check_user_name("\u200Dabc"));
}

TEST(text, names_that_show_nothing_or_turn_the_line_are_refused) {
  for (const std::string& name :
       {""s, " "s, "\u200C"s, "\u200D\u200D"s, "\u3164"s, "\u202Eabc"s, "ab\u202Ec"s, "\u200Babc"s,
        "a\u2800"s, "a b"s, "a\tb"s, "a\u00A0b"s, "a\0b"s, "a\x7F"s, "\uFEFFa"s, "\xFF"s,
        "a\u00A8"s}) {
    const auto why = check_user_name(name);
    ASSERT_TRUE(why) << testing::PrintToString(name);
    EXPECT_EQ(why->code, errc::bad_request);
    EXPECT_EQ(why->field, "name");
  }
}

TEST(text, a_name_has_at_most_64_code_points) {
  std::string name;
  for (int i = 0; i < 64; ++i)
    name += "日";
  EXPECT_FALSE(check_user_name(name));
  EXPECT_TRUE(check_user_name(name + "日"));
}

TEST(text, reserved_names_are_reserved_in_every_writing) {
  for (const std::string name :
       {"admin", "ADMIN", "ａｄｍｉｎ", "All", "here", "System", "ad\u200Dmin"})
    EXPECT_TRUE(check_user_name(name)) << name;
  EXPECT_FALSE(check_user_name("administrator"));
}

TEST(text, titles_keep_spaces_and_emoji) {
  for (const std::string title :
       {"Tea room", "お茶 ☕", "😀", "𠮷野家", "🇯🇵 news", "<img src=x onerror=alert(1)>"})
    EXPECT_FALSE(check_title(title, 128, "name")) << title;
}

TEST(text, titles_without_anything_to_see_or_with_controls_are_refused) {
  for (const std::string& title : {""s, "  "s, "\u200C"s, "\u3164"s, "a\nb"s, "a\x1B[31m"s,
                                   "a\u2028b"s, "\u202Eabc"s, "a\u2066b"s, "a\0b"s, "\xC3("s}) {
    const auto why = check_title(title, 128, "name");
    ASSERT_TRUE(why) << testing::PrintToString(title);
    EXPECT_EQ(why->field, "name");
  }
  EXPECT_TRUE(check_title("abcd", 3, "topic"));
}

TEST(text, passwords_are_measured_in_bytes) {
  EXPECT_TRUE(check_password("1234567"));
  EXPECT_FALSE(check_password("12345678"));
  EXPECT_FALSE(check_password("日本語")) << "9 bytes";
  EXPECT_FALSE(check_password(std::string(1024, 'x')));
  EXPECT_TRUE(check_password(std::string(1025, 'x')));
  EXPECT_TRUE(check_password("1234567\0"s));
}

}  // namespace
}  // namespace parley
