// See http_gate.hpp. Each refusal names its reason in one English sentence; none repeats the peer's
// bytes.
#include "net/http_gate.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "schemas/text.hpp"

namespace parley::net::http {
namespace {

failure refuse(int status, std::string message, errc code = errc::bad_request) {
  return failure{code, std::move(message), std::nullopt, status};
}

// RFC 9110 5.6.2.
bool is_token_char(char c) {
  if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return true;
  return std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}
bool is_token(std::string_view t) {
  return !t.empty() && std::all_of(t.begin(), t.end(), is_token_char);
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
std::string lowered(std::string_view t) {
  std::string out(t);
  std::transform(out.begin(), out.end(), out.begin(), lower);
  return out;
}
std::string_view trim(std::string_view t) {
  while (!t.empty() && (t.front() == ' ' || t.front() == '\t'))
    t.remove_prefix(1);
  while (!t.empty() && (t.back() == ' ' || t.back() == '\t'))
    t.remove_suffix(1);
  return t;
}

// Calls `f` with each element of a comma-separated list, trimmed and in lower case.
template <class F> void each_element(std::string_view list, F f) {
  while (true) {
    const auto comma = list.find(',');
    const auto item = trim(list.substr(0, comma));
    if (!item.empty()) f(lowered(item));
    if (comma == std::string_view::npos) return;
    list.remove_prefix(comma + 1);
  }
}

bool lists(const request_head& head, std::string_view name, std::string_view wanted) {
  bool found = false;
  for (const auto& [n, v] : head.fields)
    if (n == name)
      each_element(v, [&](const std::string& item) { found = found || item == wanted; });
  return found;
}

// The origin form of a target: visible ASCII without what RFC 3986 never allows and some parsers
// rewrite.
bool good_origin(std::string_view t) {
  if (t.empty() || t.front() != '/') return false;
  return std::all_of(t.begin(), t.end(), [](char c) {
    return c > 0x20 && c < 0x7f && c != '\\' && c != '#' && c != '<' && c != '>' && c != '"';
  });
}

// method SP target SP version
std::optional<failure> request_line(std::string_view line, request_head& head) {
  const auto first = line.find(' ');
  const auto last = line.rfind(' ');
  if (first == std::string_view::npos || first == last || first == 0)
    return refuse(400, "the request line is not `METHOD target HTTP/1.1`");
  const auto method = line.substr(0, first), target = line.substr(first + 1, last - first - 1),
             version = line.substr(last + 1);
  if (!is_token(method)) return refuse(400, "the method is no token");
  if (version.size() != 8 || version.substr(0, 5) != "HTTP/" || !is_digit(version[5]) ||
      version[6] != '.' || !is_digit(version[7]))
    return refuse(400, "the request line does not end with an HTTP version");
  if (version[5] != '1' || version[7] > '1')
    return refuse(505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
  head.minor = version[7] - '0';
  static constexpr std::array<std::string_view, 7> known = {"GET",   "HEAD",   "POST",   "PUT",
                                                            "PATCH", "DELETE", "OPTIONS"};
  if (std::find(known.begin(), known.end(), method) == known.end())
    return refuse(501, "the method is not implemented");
  head.method = method;
  if (target.find(' ') != std::string_view::npos) return refuse(400, "the target contains a space");
  std::string_view origin = target;
  if (!target.empty() && target.front() != '/') {
    // Absolute form: what it names counts, not Host (RFC 9112 3.2.2).
    const auto scheme = target.find("://");
    if (scheme == std::string_view::npos)
      return refuse(400, "the target is neither a path nor an http URL");
    const auto name = lowered(target.substr(0, scheme));
    if (name != "http" && name != "https")
      return refuse(400, "the target is neither a path nor an http URL");
    const auto rest = target.substr(scheme + 3);
    const auto slash = rest.find_first_of("/?#");
    head.authority = rest.substr(0, slash);
    if (!split_authority(head.authority))
      return refuse(400, "the target's authority is not a host and a port");
    origin = slash == std::string_view::npos ? std::string_view("/") : rest.substr(slash);
    if (!origin.empty() && origin.front() == '?') {
      head.target = "/" + std::string(origin);
      return good_origin(head.target)
                 ? std::nullopt
                 : std::optional(refuse(400, "the target contains a forbidden character"));
    }
  }
  if (!good_origin(origin)) return refuse(400, "the target contains a forbidden character");
  head.target = origin;
  return std::nullopt;
}

std::optional<failure> field_line(std::string_view line, request_head& head) {
  if (line.front() == ' ' || line.front() == '\t') return refuse(400, "a folded header field");
  const auto colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon)))
    return refuse(400, "a header field is not `name: value`");
  const auto value = trim(line.substr(colon + 1));
  for (const char c : value)
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f)
      return refuse(400, "a control character in a header field");
  if (head.fields.size() == head_fields_max)
    return refuse(431, "more than 100 header fields", errc::too_large);
  head.fields.emplace_back(lowered(line.substr(0, colon)), value);
  return std::nullopt;
}

std::optional<failure> framing(request_head& head) {
  const auto codings = head.count("transfer-encoding"), lengths = head.count("content-length");
  if (codings > 0) {
    if (lengths > 0) return refuse(400, "both Content-Length and Transfer-Encoding");
    if (head.minor == 0) return refuse(400, "Transfer-Encoding in HTTP/1.0");
    if (codings > 1) return refuse(400, "more than one Transfer-Encoding");
    std::vector<std::string> list;
    each_element(*head.find("transfer-encoding"),
                 [&](std::string item) { list.push_back(std::move(item)); });
    if (list.empty()) return refuse(400, "an empty Transfer-Encoding");
    const auto chunked = std::find(list.begin(), list.end(), "chunked");
    if (chunked != list.end() && std::next(chunked) != list.end())
      return refuse(400, "chunked is not the last transfer coding");
    if (list.size() != 1 || list[0] != "chunked")
      return refuse(501, "only the transfer coding chunked is known");
    head.chunked = true;
  }
  if (lengths > 1) return refuse(400, "more than one Content-Length");
  if (lengths == 1) {
    const auto& text = *head.find("content-length");
    // 18 digits fit 64 bits; more could only be meant to overflow someone.
    if (text.empty() || text.size() > 18 || !std::all_of(text.begin(), text.end(), is_digit))
      return refuse(400, "Content-Length is not a number");
    std::uint64_t n = 0;
    std::from_chars(text.data(), text.data() + text.size(), n);
    head.content_length = n;
  }
  return std::nullopt;
}

std::optional<failure> semantics(request_head& head) {
  // HTTP/1.0 had no Host (RFC 9112 3.2); whoever needs one then finds it empty.
  const auto hosts = head.count("host");
  if (hosts > 1 || (hosts == 0 && head.minor == 1))
    return refuse(400, "exactly one Host field is needed");
  if (hosts == 1) {
    head.host = *head.find("host");
    if (!split_authority(head.host)) return refuse(400, "Host is not a host and a port");
  }
  // Fields that decide who asks for what must not be readable in two ways.
  for (const auto name : {"authorization", "content-type", "origin", "idempotency-key"})
    if (head.count(name) > 1) return refuse(400, "more than one " + std::string(name) + " field");
  if (auto bad = framing(head)) return bad;
  head.keep_alive = head.minor == 1 ? !lists(head, "connection", "close")
                                    : lists(head, "connection", "keep-alive") &&
                                          !lists(head, "connection", "close");
  if (const auto* expect = head.find("expect")) {
    if (head.count("expect") > 1 || lowered(*expect) != "100-continue")
      return refuse(417, "only 100-continue can be expected");
    head.expect_continue = head.minor == 1;
  }
  head.wants_websocket =
      lists(head, "connection", "upgrade") && lists(head, "upgrade", "websocket");
  return std::nullopt;
}

}  // namespace

const std::string* request_head::find(std::string_view name) const {
  for (const auto& [n, v] : fields)
    if (n == name) return &v;
  return nullptr;
}

std::size_t request_head::count(std::string_view name) const {
  return static_cast<std::size_t>(
      std::count_if(fields.begin(), fields.end(), [&](const auto& f) { return f.first == name; }));
}

gate_result examine_head(std::string_view buffer, std::size_t& checked) {
  // One empty line before the request line is let pass (RFC 9112 2.2).
  std::size_t start = buffer.substr(0, 2) == "\r\n" ? 2 : 0;
  if (buffer == "\r") return need_more{};
  if (buffer.size() > start) {
    // A TLS hello, binary or lower-level noise: a request line begins with a letter.
    const char c = buffer[start];
    if (!((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')))
      return refuse(400, "this is no HTTP request");
  }
  std::size_t i = std::max(checked, start);
  std::size_t end = 0;  // of the head, behind its empty line
  for (; i < buffer.size(); ++i) {
    const char c = buffer[i];
    if (c == '\n' && (i == start || buffer[i - 1] != '\r'))
      return refuse(400, "a line is ended by a bare LF");
    if (c == '\0') return refuse(400, "a NUL byte in the head");
    if (c == '\r') {
      if (i + 1 == buffer.size()) break;  // whether LF follows is not known yet
      if (buffer[i + 1] != '\n') return refuse(400, "a CR without LF in the head");
    }
    if (c == '\n' && i >= start + 3 && buffer.substr(i - 3, 4) == "\r\n\r\n") {
      end = i + 1;
      break;
    }
  }
  checked = i;
  const std::size_t size = end != 0 ? end : buffer.size();
  if (size - start > head_bytes_max || (end == 0 && size - start == head_bytes_max)) {
    const auto line = buffer.substr(start, head_bytes_max).find("\r\n");
    if (line == std::string_view::npos)
      return refuse(414, "the target is too long", errc::too_large);
    return refuse(431, "the head is over 8 KiB", errc::too_large);
  }
  if (end == 0) return need_more{};

  gate_head out;
  out.size = end;
  auto rest =
      buffer.substr(start, end - start - 2);  // every line with its CRLF, the empty one cut off
  bool first = true;
  while (!rest.empty()) {
    const auto eol = rest.find("\r\n");
    const auto line = rest.substr(0, eol);
    if (auto bad = first ? request_line(line, out.head) : field_line(line, out.head))
      return *std::move(bad);
    first = false;
    rest.remove_prefix(eol + 2);
  }
  if (auto bad = semantics(out.head)) return *std::move(bad);
  return out;
}

std::optional<std::pair<std::string, std::string>> split_authority(std::string_view authority) {
  if (authority.empty() || authority.size() > 255 + 6) return std::nullopt;
  std::string_view host, port;
  if (authority.front() == '[') {
    const auto close = authority.find(']');
    if (close == std::string_view::npos || close < 3) return std::nullopt;
    host = authority.substr(0, close + 1);
    const auto inside = host.substr(1, host.size() - 2);
    if (!std::all_of(inside.begin(), inside.end(), [](char c) {
          return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'f') || c == ':' || c == '.';
        }))
      return std::nullopt;
    const auto rest = authority.substr(close + 1);
    if (!rest.empty()) {
      if (rest.front() != ':') return std::nullopt;
      port = rest.substr(1);
    }
  } else {
    const auto colon = authority.find(':');
    host = authority.substr(0, colon);
    if (colon != std::string_view::npos) port = authority.substr(colon + 1);
    if (host.empty() || !std::all_of(host.begin(), host.end(), [](char c) {
          return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'z') || c == '-' || c == '.' ||
                 c == '_' || c == '~';
        }))
      return std::nullopt;
  }
  if (port.size() > 5 || !std::all_of(port.begin(), port.end(), is_digit)) return std::nullopt;
  return std::pair{lowered(host), std::string(port)};
}

std::optional<std::string> percent_decode(std::string_view text, bool plus) {
  const auto hex = [](char c) {
    return is_digit(c) ? c - '0' : lower(c) >= 'a' && lower(c) <= 'f' ? lower(c) - 'a' + 10 : -1;
  };
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = hex(text[i + 1]), low = hex(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      out.push_back(static_cast<char>(high * 16 + low));
      i += 2;
    } else {
      out.push_back(plus && text[i] == '+' ? ' ' : text[i]);
    }
  }
  for (const char c : out)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return std::nullopt;
  if (!is_clean_utf8(out)) return std::nullopt;
  return out;
}

chunk_decoder::state chunk_decoder::feed(std::string_view in, std::string& out, std::size_t& used) {
  constexpr std::size_t line_max = 8 + 256, trailer_max = 1024;
  used = 0;
  // Reads up to and with CRLF into line_; false where the line is not whole yet. A lone CR or LF is
  // bad.
  const auto take_line = [&](std::size_t max) -> std::optional<bool> {
    while (used < in.size()) {
      const char c = in[used++];
      if (!line_.empty() && line_.back() == '\r') {
        if (c != '\n') return std::nullopt;
        line_.pop_back();
        return true;
      }
      if (c == '\n' || c == '\0' || line_.size() > max) return std::nullopt;
      line_.push_back(c);
    }
    return false;
  };
  const auto bad = [&] {
    at_ = at::bad;
    return state::bad;
  };
  while (true) {
    switch (at_) {
    case at::size_line: {
      const auto whole = take_line(line_max);
      if (!whole) return bad();
      if (!*whole) return state::more;
      std::size_t digits = 0;
      std::size_t n = 0;
      while (digits < line_.size()) {
        const char c = lower(line_[digits]);
        if (is_digit(c))
          n = n * 16 + static_cast<std::size_t>(c - '0');
        else if (c >= 'a' && c <= 'f')
          n = n * 16 + static_cast<std::size_t>(c - 'a' + 10);
        else
          break;
        if (++digits > 8) return bad();
      }
      if (digits == 0 || (digits < line_.size() && line_[digits] != ';')) return bad();
      for (const char c : line_)
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return bad();
      // All that is not body has a bound too: 65,536 chunks of one byte each must not cost 16 MiB
      // of extensions.
      framing_ += line_.size() - digits;
      if (framing_ > 4096) return bad();
      line_.clear();
      if (n == 0) {
        at_ = at::trailer;
        break;
      }
      if (n > max_body_ - total_) {
        at_ = at::bad;
        return state::too_large;
      }
      left_ = n;
      at_ = at::data;
      break;
    }
    case at::data: {
      const auto n = std::min(left_, in.size() - used);
      out.append(in.substr(used, n));
      used += n;
      left_ -= n;
      total_ += n;
      if (left_ > 0) return state::more;
      at_ = at::data_end;
      break;
    }
    case at::data_end: {
      const auto whole = take_line(0);
      if (!whole) return bad();
      if (!*whole) return state::more;
      if (!line_.empty()) return bad();
      at_ = at::size_line;
      break;
    }
    case at::trailer: {
      const auto whole = take_line(trailer_max);
      if (!whole) return bad();
      if (!*whole) return state::more;
      if (line_.empty()) {
        at_ = at::done;
        break;
      }
      trailer_bytes_ += line_.size() + 2;
      const auto colon = line_.find(':');
      if (trailer_bytes_ > trailer_max || colon == std::string::npos ||
          !is_token(std::string_view(line_).substr(0, colon)))
        return bad();
      line_.clear();
      break;
    }
    case at::done:
      return state::done;
    case at::bad:
      return state::bad;
    }
  }
}

}  // namespace parley::net::http
