// Every queue of the actors is filled, and gives its named answer; nobody is left without one.
#include "tests/support/actor_fixture.hpp"

namespace parley::test {
namespace {

class bounds_test : public actors_test {
 protected:
  void configure(config& c) override {
    c.limits.writer_queue = 10;
    c.limits.session_queue = 3;
    c.limits.reader_queue = 2;
    c.limits.hash_queue = 1;
    c.limits.room_queue = 1000;
  }
  void SetUp() override {
    actors_test::SetUp();
    add_user("ann");
    add_user("bob");
  }
  /// How many of these were done and how many refused with `overloaded` and a time to come back.
  std::pair<int, int> count(const person& p, const std::vector<int>& ids) {
    int done = 0, refused = 0;
    for (auto id : ids) {
      auto a = answer(p, id);
      if (a.value("ok", false))
        ++done;
      else if (a["error"]["code"] == "overloaded" && a["error"]["retry_after_ms"] > 0)
        ++refused;
      else
        ADD_FAILURE() << a.dump();
    }
    return {done, refused};
  }
};

TEST_F(bounds_test, a_full_writer_refuses_before_it_accepts) {
  auto ann = connect("ann");
  auto room = make_room(ann);
  std::vector<int> ids;
  for (int i = 0; i < 50; ++i)
    ids.push_back(post(ann, message(room, "x")));
  run();
  auto [done, refused] = count(ann, ids);
  EXPECT_GE(done, 10);
  EXPECT_GT(refused, 0);
  EXPECT_EQ(done + refused, 50);
  EXPECT_EQ(ctx_->gate->depth.load(), 0) << "what was taken is given back";
  EXPECT_EQ(send_text(ann, room, "after")["seq"], 2 + done);
}

TEST_F(bounds_test, a_full_line_of_one_room_refuses) {
  settings_->limits.room_queue = 5;
  settings_->limits.writer_queue = 1000;
  ctx_->gate->bound = 1000;
  auto ann = connect("ann");
  auto room = make_room(ann);
  std::vector<int> ids;
  for (int i = 0; i < 40; ++i)
    ids.push_back(post(ann, message(room, "x")));
  run();
  auto [done, refused] = count(ann, ids);
  EXPECT_GT(done, 0);
  EXPECT_GT(refused, 0);
  EXPECT_TRUE(send_text(ann, room, "after")["ok"]);
}

TEST_F(bounds_test, requests_that_wait_for_a_look_up_of_people_are_bounded) {
  auto ann = connect("ann");
  auto room = make_room(ann);
  std::vector<int> ids;
  for (int i = 0; i < 10; ++i)
    ids.push_back(post(ann, wire::room_invite{room, "bob", ""}));
  run();
  auto [done, refused] = count(ann, ids);
  EXPECT_GE(done, 3);
  EXPECT_GT(refused, 0);
}

TEST_F(bounds_test, a_full_reader_refuses) {
  auto ann = connect("ann");
  auto room = make_room(ann);
  std::vector<int> ids;
  for (int i = 0; i < 20; ++i)
    ids.push_back(post(ann, wire::history{room, {}, {}, 10}));
  run();
  auto [done, refused] = count(ann, ids);
  EXPECT_GE(done, 2);
  EXPECT_GT(refused, 0);
  EXPECT_EQ(metrics_.reader_queue.get(), 0);
}

TEST_F(bounds_test, passwords_that_wait_are_bounded) {
  int done = 0, refused = 0;
  for (int i = 0; i < 5; ++i)
    caf::anon_send(ctx_->accounts,
                   account_op{std::make_shared<account_request>(register_user{
                                  "user" + std::to_string(i), "long enough", "", "", "::1"}),
                              std::make_shared<account_fn>([&](result<account_answer> a) {
                                if (a)
                                  ++done;
                                else if (a.error().code == errc::overloaded)
                                  ++refused;
                              })});
  run();
  EXPECT_GE(done, 1);
  EXPECT_GE(refused, 1);
  EXPECT_EQ(done + refused, 5);
  EXPECT_EQ(metrics_.hash_queue.get(), 0);
}

TEST(runtime_bounds, requests_over_http_that_wait_are_bounded) {
  ASSERT_GE(sodium_init(), 0);
  auto data = std::filesystem::temp_directory_path() / ("parley-runtime-" + make_id("t_"));
  std::filesystem::create_directories(data);
  auto c = std::make_shared<config>();
  c->storage.data = data.string();
  c->limits.http_waiting = 1;
  metrics m;
  recording_relay relay;
  actors_test_checker tokens;
  runtime_options o;
  o.settings = c;
  o.counters = &m;
  o.tokens = &tokens;
  o.relays = {&relay};
  auto rt = start_runtime(std::move(o));
  ASSERT_TRUE(rt) << rt.error().message;
  std::mutex lock;
  std::condition_variable changed;
  std::vector<std::optional<errc>> got;
  auto then = [&](result<account_answer> a) {
    std::lock_guard hold(lock);
    got.push_back(a ? std::nullopt : std::optional(a.error().code));
    changed.notify_all();
  };
  // The first hashes a password; the second comes while it does.
  (*rt)->account(register_user{"first", "long enough", "", "", "::1"}, then);
  (*rt)->account(register_user{"second", "long enough", "", "", "::1"}, then);
  {
    std::unique_lock hold(lock);
    ASSERT_TRUE(changed.wait_for(hold, std::chrono::seconds(20), [&] { return got.size() == 2; }));
    EXPECT_EQ(got[0], errc::overloaded);
    EXPECT_EQ(got[1], std::nullopt);
  }
  EXPECT_TRUE((*rt)->drain(std::chrono::seconds(5)));
  EXPECT_TRUE((*rt)->stop(std::chrono::seconds(5)));
  rt = failure{};
  std::filesystem::remove_all(data);
}

}  // namespace
}  // namespace parley::test
