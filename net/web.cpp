// See web.hpp.
#include "net/web.hpp"

#include "net/auth/keys.hpp"

namespace parley::net::http {
namespace {

// Scripts, styles, pictures and sockets of this origin alone; no inline script, no plug-in, no
// frame around.
constexpr std::string_view policy = "default-src 'none'; script-src 'self'; style-src 'self'; "
                                    "img-src 'self' data: blob:; connect-src 'self'; "
                                    "manifest-src 'self'; object-src 'none'; base-uri 'none'; "
                                    "form-action 'none'; frame-ancestors 'none'";

void add_file(router& to, std::string path, const packed_file& file) {
  // The digest is taken once, at the start.
  to.add("GET", path, [&file, tag = etag_of(file.data)](request rq, responder out) {
    out(packed_response(file, tag, rq.head.find("if-none-match")));
  });
}

}  // namespace

std::string_view media_type(std::string_view name) {
  const auto dot = name.rfind('.');
  const auto ending = dot == std::string_view::npos ? std::string_view() : name.substr(dot + 1);
  if (ending == "html") return "text/html; charset=utf-8";
  if (ending == "js" || ending == "mjs") return "text/javascript; charset=utf-8";
  if (ending == "css") return "text/css; charset=utf-8";
  if (ending == "svg") return "image/svg+xml";
  if (ending == "png") return "image/png";
  if (ending == "webmanifest") return "application/manifest+json";
  if (ending == "json") return "application/json";
  return "application/octet-stream";
}

std::string etag_of(std::string_view data) {
  return "\"" + auth::sha256_hex(data).substr(0, 24) + "\"";
}

bool names_etag(std::string_view list, std::string_view etag) {
  while (!list.empty()) {
    const auto comma = list.find(',');
    auto item = list.substr(0, comma);
    while (!item.empty() && (item.front() == ' ' || item.front() == '\t'))
      item.remove_prefix(1);
    while (!item.empty() && (item.back() == ' ' || item.back() == '\t'))
      item.remove_suffix(1);
    if (item.substr(0, 2) == "W/") item.remove_prefix(2);
    if (item == etag || item == "*") return true;
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  return false;
}

response packed_response(const packed_file& file, const std::string& etag,
                         const std::string* if_none_match) {
  response r;
  r.content_type = media_type(file.name);
  r.no_store = false;
  // Kept, but asked for again each time: a new version of the program shows at once, at the price
  // of a 304.
  r.headers.emplace_back("Cache-Control", "no-cache");
  r.headers.emplace_back("ETag", etag);
  r.headers.emplace_back("Content-Security-Policy", policy);
  r.headers.emplace_back("Referrer-Policy", "no-referrer");
  r.headers.emplace_back("Cross-Origin-Opener-Policy", "same-origin");
  r.headers.emplace_back("Cross-Origin-Resource-Policy", "same-origin");
  if (if_none_match != nullptr && names_etag(*if_none_match, etag))
    r.status = 304;
  else
    r.packed = file.data;
  return r;
}

void add_web_routes(router& to) {
  for (std::size_t i = 0; i < web_files_count; ++i) {
    const auto& file = web_files[i];
    if (file.name == "index.html") add_file(to, "/", file);
    add_file(to, "/" + std::string(file.name), file);
  }
  for (std::size_t i = 0; i < doc_files_count; ++i)
    add_file(to, "/" + std::string(doc_files[i].name), doc_files[i]);
}

}  // namespace parley::net::http
