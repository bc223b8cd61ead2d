// The error codes of the wire, with their HTTP status and default text in one table.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace parley {

enum class errc : std::uint8_t {
  bad_request = 1,
  unauthenticated,
  forbidden,
  not_found,
  conflict,
  duplicate_key,
  out_of_range,
  too_large,
  rate_limited,
  overloaded,
  unavailable,
  suspended,
  internal,
};

/// The code as it stands on the wire, e.g. "not_found".
std::string_view to_string(errc code);
/// The HTTP status that goes with the code, e.g. 404.
int http_status(errc code);

/// Why a request failed. Definite: it did not happen and will not.
struct failure {
  errc code = errc::internal;
  std::string message;  // one English sentence for developers; names the field
  std::optional<std::int64_t> retry_after_ms{};  // for rate_limited, overloaded, unavailable
  int status = 0;       // HTTP status where it is not the code's own (408, 413, 415, 421, 431)
  std::string field{};  // path of what was wrong ("users[3]"), where one field was
};

inline failure fail(errc code, std::string message) { return failure{code, std::move(message)}; }
/// A failure of one field; its message is the field and what is wrong with it: "text must be a
/// string".
inline failure field_failure(errc code, std::string_view field, std::string_view what) {
  std::string message(field);
  message.append(field.empty() ? "" : " ").append(what);
  return failure{code, std::move(message), std::nullopt, 0, std::string(field)};
}

/// A value or the reason why there is none.
template <class T> class result {
 public:
  result(T value) : v_(std::in_place_index<0>, std::move(value)) {}
  result(failure why) : v_(std::in_place_index<1>, std::move(why)) {}
  explicit operator bool() const { return v_.index() == 0; }
  T& operator*() { return std::get<0>(v_); }
  const T& operator*() const { return std::get<0>(v_); }
  T* operator->() { return &std::get<0>(v_); }
  const T* operator->() const { return &std::get<0>(v_); }
  failure& error() { return std::get<1>(v_); }
  const failure& error() const { return std::get<1>(v_); }

 private:
  std::variant<T, failure> v_;
};

}  // namespace parley
