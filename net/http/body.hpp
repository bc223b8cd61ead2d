// Reads the JSON body of an account or admin request field by field, with the contract's rules:
// unknown fields are ignored, a wrong type, a missing field or a repeated key is an error that
// names the field. Handlers read all and check error() once. (Operations that the WebSocket has too
// are read by wire::decode_body.)
#pragma once
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "schemas/error.hpp"

namespace parley::net::http {

class body_reader {
 public:
  /// `optional_body`: an empty body stands for {}.
  explicit body_reader(std::string_view body, bool optional_body = false);
  ~body_reader();
  body_reader(const body_reader&) = delete;
  body_reader& operator=(const body_reader&) = delete;

  /// A string that must be there; empty after an error.
  std::string text(std::string_view name);
  std::optional<std::string> maybe_text(std::string_view name);
  std::optional<std::int64_t> maybe_integer(std::string_view name, std::int64_t low,
                                            std::int64_t high);
  /// The first thing that was wrong.
  const std::optional<failure>& error() const { return error_; }
  /// Adds what a further check says, unless something was wrong before.
  void also(std::optional<failure> bad) {
    if (!error_) error_ = std::move(bad);
  }

 private:
  const nlohmann::json* find(std::string_view name) const;
  void wrong(std::string_view name, std::string_view what);

  std::unique_ptr<nlohmann::json> doc_;
  std::optional<failure> error_;
};

}  // namespace parley::net::http
