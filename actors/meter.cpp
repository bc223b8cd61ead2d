#include "actors/meter.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>

#include "schemas/time.hpp"

namespace parley {

std::string message_name(const std::type_info* type) {
  if (type == nullptr) return "message";
  int status = 0;
  std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(type->name(), nullptr, nullptr, &status), &std::free);
  std::string name = status == 0 && text ? text.get() : type->name();
  auto cut = name.rfind("::");
  if (cut != std::string::npos && name.find('<') == std::string::npos) name.erase(0, cut + 2);
  return name;
}

meter_ptr meter_table::add(const char* kind, std::string id) {
  auto* m = new meter;
  m->kind = kind;
  m->id = std::move(id);
  {
    std::lock_guard hold(shard_->lock);
    shard_->all.push_back(m);
  }
  return meter_ptr(m, [table = shard_](meter* gone) {
    {
      std::lock_guard hold(table->lock);
      auto at = std::find(table->all.rbegin(), table->all.rend(), gone);
      if (at != table->all.rend()) {
        *at = table->all.back();
        table->all.pop_back();
      }
    }
    delete gone;
  });
}

std::vector<actor_view> meter_table::snapshot() const {
  std::vector<actor_view> out;
  auto now = steady_ns();
  std::lock_guard hold(shard_->lock);
  out.reserve(shard_->all.size());
  for (const auto* m : shard_->all) {
    actor_view v;
    v.kind = m->kind;
    v.id = m->id;
    v.mailbox = std::max<std::int64_t>(0, m->length());
    v.handled = m->handled.load(std::memory_order_relaxed);
    v.max_handler_us = m->max_ns.load(std::memory_order_relaxed) / 1000;
    if (auto since = m->busy_since_ns.load(std::memory_order_acquire); since != 0) {
      v.busy_since_ms = (now - since) / 1'000'000;
      v.busy_with = message_name(m->busy_with.load(std::memory_order_relaxed));
    }
    out.push_back(std::move(v));
  }
  return out;
}

}  // namespace parley
