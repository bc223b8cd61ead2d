// See body.hpp.
#include "net/http/body.hpp"

#include <nlohmann/json.hpp>

#include "schemas/text.hpp"
#include "schemas/wire/json_decode.hpp"

namespace parley::net::http {

body_reader::body_reader(std::string_view body, bool optional_body)
    : doc_(std::make_unique<nlohmann::json>(nlohmann::json::object())) {
  if (optional_body && body.empty()) return;
  auto parsed = wire::parse_strict(body);
  if (!parsed) {
    error_ = body.empty() ? fail(errc::bad_request, "a JSON object is expected as the body")
                          : parsed.error();
    return;
  }
  if (!parsed->is_object()) {
    error_ = fail(errc::bad_request, "the body must be a JSON object");
    return;
  }
  *doc_ = std::move(*parsed);
}

body_reader::~body_reader() = default;

const nlohmann::json* body_reader::find(std::string_view name) const {
  const auto it = doc_->find(name);
  return it == doc_->end() ? nullptr : &*it;
}

void body_reader::wrong(std::string_view name, std::string_view what) {
  also(field_failure(errc::bad_request, name, what));
}

std::string body_reader::text(std::string_view name) {
  auto value = maybe_text(name);
  if (!value) wrong(name, "is missing");
  return value.value_or(std::string());
}

std::optional<std::string> body_reader::maybe_text(std::string_view name) {
  const auto* v = find(name);
  if (v == nullptr) return std::nullopt;
  if (!v->is_string()) {
    wrong(name, "must be a string");
    return std::nullopt;
  }
  auto value = v->get<std::string>();
  if (!is_clean_utf8(value)) wrong(name, "must be text without U+0000");
  return value;
}

std::optional<std::int64_t> body_reader::maybe_integer(std::string_view name, std::int64_t low,
                                                       std::int64_t high) {
  const auto* v = find(name);
  if (v == nullptr) return std::nullopt;
  // An unsigned beyond the signed range is out of every range here.
  const bool fits =
      v->is_number_integer() &&
      !(v->is_number_unsigned() && v->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX));
  if (!fits || v->get<std::int64_t>() < low || v->get<std::int64_t>() > high) {
    wrong(name, "must be an integer from " + std::to_string(low) + " to " + std::to_string(high));
    return std::nullopt;
  }
  return v->get<std::int64_t>();
}

}  // namespace parley::net::http
