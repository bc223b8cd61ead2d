// Bytes of one text frame or HTTP body -> request structs. Unknown fields are ignored; an unknown
// op, a wrong type, a missing field, a repeated key, nesting deeper than 32, U+0000 or a lone
// surrogate in an id or name is an error that names the field (its path). Never throws. Text and
// name rules are checked by the owner (schemas/text.hpp), since a known nonce is answered before
// them; only the type is checked here.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "schemas/wire/requests.hpp"

namespace parley::wire {

inline constexpr std::size_t max_depth = 32;  // the outermost value is depth 1

/// One frame of parley.v1. A frame that is no JSON object has id `null` and bad_request.
decoded decode_frame(std::string_view text);

/// The body of an HTTP request as the op of that name, by the same rules; needs no `op` or `id`.
/// `given` are top-level string fields that come from the path or a header and stand for the body's
/// own ("room", "nonce", "user").
result<request>
decode_body(std::string_view op, std::string_view body,
            const std::vector<std::pair<std::string_view, std::string>>& given = {});

/// A JSON document by the same rules (no repeated keys: duplicate_key; depth; no BOM; nothing
/// behind it; strict).
result<nlohmann::json> parse_strict(std::string_view text);

}  // namespace parley::wire
