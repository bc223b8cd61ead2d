// See message.hpp.
#include "net/http/message.hpp"

#include <array>
#include <charconv>
#include <ctime>

#include "schemas/wire/json_encode.hpp"

namespace parley::net::http {

response object(int status, std::string_view fields) {
  response r;
  r.status = status;
  r.body.reserve(fields.size() + 2);
  r.body.push_back('{');
  r.body.append(fields);
  r.body.push_back('}');
  return r;
}

response problem(const failure& why) {
  response r;
  r.status = why.status != 0 ? why.status : http_status(why.code);
  r.content_type = "application/problem+json";
  failure whole = why;
  whole.status = r.status;
  // 429 and 503 always say when to come back; a second where nobody knows better.
  if ((r.status == 429 || r.status == 503) && !whole.retry_after_ms) whole.retry_after_ms = 1000;
  if (whole.retry_after_ms)
    r.headers.emplace_back("Retry-After", std::to_string((*whole.retry_after_ms + 999) / 1000));
  if (r.status == 401) r.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"parley\"");
  r.body = wire::problem_body(whole);
  return r;
}

response no_content() {
  response r;
  r.status = 204;
  r.content_type.clear();
  return r;
}

std::string_view reason_phrase(int status) {
  switch (status) {
  case 200:
    return "OK";
  case 201:
    return "Created";
  case 202:
    return "Accepted";
  case 204:
    return "No Content";
  case 304:
    return "Not Modified";
  case 400:
    return "Bad Request";
  case 401:
    return "Unauthorized";
  case 403:
    return "Forbidden";
  case 404:
    return "Not Found";
  case 405:
    return "Method Not Allowed";
  case 408:
    return "Request Timeout";
  case 409:
    return "Conflict";
  case 413:
    return "Content Too Large";
  case 414:
    return "URI Too Long";
  case 415:
    return "Unsupported Media Type";
  case 417:
    return "Expectation Failed";
  case 421:
    return "Misdirected Request";
  case 422:
    return "Unprocessable Content";
  case 426:
    return "Upgrade Required";
  case 429:
    return "Too Many Requests";
  case 431:
    return "Request Header Fields Too Large";
  case 500:
    return "Internal Server Error";
  case 501:
    return "Not Implemented";
  case 503:
    return "Service Unavailable";
  case 505:
    return "HTTP Version Not Supported";
  default:
    return status < 400 ? "OK" : "Error";
  }
}

std::string response_head(const response& r, bool keep_alive, std::string_view date) {
  std::string out;
  out.reserve(320);
  out.append("HTTP/1.1 ")
      .append(std::to_string(r.status))
      .append(" ")
      .append(reason_phrase(r.status))
      .append("\r\n");
  out.append("Date: ").append(date).append("\r\n");
  const bool bodiless = r.status == 204 || r.status == 304;
  if (!bodiless) {
    out.append("Content-Type: ").append(r.content_type).append("\r\n");
    out.append("Content-Length: ").append(std::to_string(r.content().size())).append("\r\n");
  }
  out.append("X-Content-Type-Options: nosniff\r\n");
  if (r.no_store) out.append("Cache-Control: no-store\r\n");
  for (const auto& [name, value] : r.headers) {
    out.append(name).append(": ");
    // Values are ours or ids; a control character can only come by a defect and must not split the
    // header.
    for (const char c : value)
      out.push_back(static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c);
    out.append("\r\n");
  }
  out.append(keep_alive ? "\r\n" : "Connection: close\r\n\r\n");
  return out;
}

std::string http_date(std::int64_t unix_seconds) {
  static constexpr std::array<const char*, 7> days = {"Sun", "Mon", "Tue", "Wed",
                                                      "Thu", "Fri", "Sat"};
  static constexpr std::array<const char*, 12> months = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const auto t = static_cast<std::time_t>(unix_seconds);
  std::tm tm{};
  gmtime_r(&t, &tm);
  // By hand, since strftime would take the names from the locale.
  const auto two = [](int n) {
    return std::string{static_cast<char>('0' + n / 10 % 10), static_cast<char>('0' + n % 10)};
  };
  return std::string(days[static_cast<std::size_t>(tm.tm_wday)]) + ", " + two(tm.tm_mday) + " " +
         months[static_cast<std::size_t>(tm.tm_mon)] + " " + std::to_string(1900 + tm.tm_year) +
         " " + two(tm.tm_hour) + ":" + two(tm.tm_min) + ":" + two(tm.tm_sec) + " GMT";
}

std::optional<std::vector<std::pair<std::string, std::string>>>
parse_query(std::string_view query) {
  std::vector<std::pair<std::string, std::string>> out;
  while (!query.empty()) {
    const auto amp = query.find('&');
    const auto item = query.substr(0, amp);
    if (!item.empty()) {
      const auto eq = item.find('=');
      auto name = percent_decode(item.substr(0, eq), true);
      auto value = percent_decode(
          eq == std::string_view::npos ? std::string_view() : item.substr(eq + 1), true);
      if (!name || !value) return std::nullopt;
      out.emplace_back(std::move(*name), std::move(*value));
    }
    if (amp == std::string_view::npos) break;
    query.remove_prefix(amp + 1);
  }
  return out;
}

query_reader::query_reader(std::string_view query) {
  if (auto pairs = parse_query(query))
    pairs_ = std::move(*pairs);
  else
    error_ = fail(errc::bad_request, "the query string is not well-formed");
}

std::optional<std::string> query_reader::text(std::string_view name) {
  std::optional<std::string> found;
  for (const auto& [n, v] : pairs_) {
    if (n != name) continue;
    if (found && !error_) error_ = fail(errc::bad_request, std::string(name) + " is given twice");
    found = v;
  }
  return found;
}

std::optional<std::int64_t> query_reader::integer(std::string_view name, std::int64_t low,
                                                  std::int64_t high) {
  const auto value = text(name);
  if (!value) return std::nullopt;
  std::int64_t n = 0;
  const auto* end = value->data() + value->size();
  const auto [at, why] = std::from_chars(value->data(), end, n);
  if (why != std::errc() || at != end || n < low || n > high) {
    if (!error_)
      error_ = fail(errc::bad_request, std::string(name) + " is not an integer from " +
                                           std::to_string(low) + " to " + std::to_string(high));
    return std::nullopt;
  }
  return n;
}

std::vector<std::string> query_reader::list(std::string_view name) {
  std::vector<std::string> out;
  for (const auto& [n, v] : pairs_) {
    if (n != name) continue;
    std::string_view rest = v;
    while (true) {
      const auto comma = rest.find(',');
      if (!rest.substr(0, comma).empty()) out.emplace_back(rest.substr(0, comma));
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
  }
  return out;
}

}  // namespace parley::net::http
