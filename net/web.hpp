// The chat page and the published documents, packed into the program: `/`, one route per file,
// /openapi.json and /asyncapi.json. No file system is asked, so no path can leave a folder.
#pragma once
#include "net/http/router.hpp"
#include "schemas/packed.hpp"

namespace parley::net::http {

/// Adds a GET for every packed file.
void add_web_routes(router& to);

/// The answer for one file: 200, or 304 where If-None-Match names its ETag.
response packed_response(const packed_file& file, const std::string& etag,
                         const std::string* if_none_match);
/// A strong entity tag, quoted: a digest of the content.
std::string etag_of(std::string_view data);
/// Whether an If-None-Match value names the tag (RFC 9110 13.1.2: weakly compared).
bool names_etag(std::string_view if_none_match, std::string_view etag);
/// The media type by the name's ending.
std::string_view media_type(std::string_view name);

}  // namespace parley::net::http
