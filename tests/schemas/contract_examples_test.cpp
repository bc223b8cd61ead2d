// The published examples against the codec: what the contract shows as a request, the decoder
// takes, as that op; and it knows no op that the contract does not show.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "schemas/wire/json_decode.hpp"

namespace parley::wire {
namespace {

nlohmann::json examples(const char* group) {
  const auto top = std::filesystem::path(PARLEY_TEST_SOURCES);
  std::ifstream file(top / "schemas" / "json" / "examples" / (std::string(group) + ".json"));
  return nlohmann::json::parse(file);
}

TEST(contract_examples, every_request_is_decoded_as_its_op) {
  const auto requests = examples("requests");
  int count = 0;
  for (const auto& [op, shown] : requests.items()) {
    const auto all = shown.is_array() ? shown : nlohmann::json::array({shown});
    for (const auto& one : all) {
      const auto got = decode_frame(one.dump());
      const auto* request = std::get_if<wire::request>(&got.body);
      ASSERT_NE(request, nullptr) << one << ": " << std::get<failure>(got.body).message;
      EXPECT_EQ(op_name(*request), op);
      EXPECT_EQ(got.id, one.contains("id") ? one["id"].dump() : "");
      EXPECT_EQ(room_of(*request), one.value("room", ""));
      ++count;
    }
  }
  EXPECT_GE(count, 18);
}

TEST(contract_examples, a_request_without_a_required_field_is_refused) {
  const auto requests = examples("requests");
  for (const auto& [op, shown] : requests.items()) {
    auto one = shown.is_array() ? shown.front() : shown;
    one["id"] = 1;
    for (const auto& [key, value] : one.items()) {
      // What may be left out of these examples; everything else is required.
      static const std::set<std::string> optional = {"token",    "client",    "nonce",     "cursor",
                                                     "limit",    "after_seq", "epoch",     "topic",
                                                     "reply_to", "id",        "before_seq"};
      const bool needed = key == "nonce"       ? op == "message.send"
                          : key == "token"     ? op == "token.renew"
                          : key == "after_seq" ? op == "events"
                                               : optional.count(key) == 0;
      if (!needed) continue;
      auto without = one;
      without.erase(key);
      const auto got = decode_frame(without.dump());
      const auto* why = std::get_if<failure>(&got.body);
      ASSERT_NE(why, nullptr) << op << " without " << key;
      EXPECT_EQ(why->code, errc::bad_request) << op << " without " << key;
      EXPECT_NE(why->message.find(key), std::string::npos) << why->message;
    }
  }
}

TEST(contract_examples, ops_that_are_not_published_are_unknown) {
  for (const auto* op : {"message.edit",
                         "message.delete",
                         "message.pin",
                         "message.unpin",
                         "reaction.add",
                         "reaction.remove",
                         "room.kick",
                         "room.ban",
                         "room.unban",
                         "room.role",
                         "room.mute",
                         "room.pin",
                         "room.level",
                         "resource.get",
                         "resource.put",
                         "resource.add",
                         "search",
                         "Hello",
                         "",
                         "constructor"}) {
    const auto got = decode_frame(nlohmann::json{{"op", op}, {"id", 1}, {"room", "r_1"}}.dump());
    const auto* why = std::get_if<failure>(&got.body);
    ASSERT_NE(why, nullptr) << op;
    EXPECT_EQ(why->code, errc::bad_request) << op;
  }
}

}  // namespace
}  // namespace parley::wire
