// The strict pass, as a handler of nlohmann's SAX parser. Repeated keys, depth, what the parser
// would let through. Knows no op.
#include "schemas/wire/json_reader.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "schemas/text.hpp"
#include "schemas/wire/json_decode.hpp"

namespace parley::wire::detail {

namespace {

using json = nlohmann::json;

constexpr std::size_t most_listed = 1001;  // what a list keeps: enough to see that it is too long
constexpr std::size_t deepest_scanned = 1024;  // beyond it nothing is read on, not even for the id

/// The SAX handler. Refuses repeated keys and deep nesting; with a table, also fills it and goes on
/// after such an error, so that the answer can carry the request's id. Repeated keys are found by
/// sorting an object's keys at its end: n log n for any keys, where a hash table would be open to
/// chosen collisions.
class reader {
 public:
  explicit reader(table* out) : out_(out) {}

  const std::optional<failure>& error() const { return error_; }
  bool id_repeated() const { return id_repeated_; }

  // What json::sax_parse calls; false ends the parsing.
  bool null() { return scalar({shape::null, false, 0, {}}); }
  bool boolean(bool v) { return scalar({shape::boolean, v, 0, {}}); }
  bool number_integer(json::number_integer_t v) { return scalar({shape::integer, false, v, {}}); }
  bool number_unsigned(json::number_unsigned_t v) {
    if (v > static_cast<std::uint64_t>(INT64_MAX))
      return scalar({shape::other_number, false, 0, std::to_string(v)});
    return scalar({shape::integer, false, static_cast<std::int64_t>(v), {}});
  }
  bool number_float(json::number_float_t /*v*/, const std::string& written) {
    return scalar({shape::other_number, false, 0, written});
  }
  bool string(std::string& v) { return scalar({shape::string, false, 0, std::move(v)}); }
  bool binary(json::binary_t& /*v*/) { return false; }  // JSON has none
  bool start_object(std::size_t /*elements*/) { return open(false); }
  bool start_array(std::size_t /*elements*/) { return open(true); }
  bool end_object() {
    check_keys();
    return close();
  }
  bool end_array() { return close(); }

  bool key(std::string& k) {
    level& top = levels_.back();
    top.key_at = arena_.size();
    top.key_size = k.size();
    keys_.push_back({top.key_at, top.key_size});
    arena_.append(k);
    if (out_ != nullptr && levels_.size() == 1) current_ = find_name(k);
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*last_token*/,
                   const json::exception& /*why*/) {
    // The parser's own words quote the input, which may hold a token.
    std::string message = "not valid JSON at byte " + std::to_string(position);
    if (const auto where = path(); !where.empty()) message += ", in " + where;
    if (!error_) error_ = fail(errc::bad_request, std::move(message));
    broken_ = true;
    return false;
  }
  bool broken() const { return broken_; }

  /// Where the parser stands: "enter.r_1", "users[3]". Long keys are cut.
  std::string path() const {
    std::string where;
    for (const level& l : levels_) {
      if (l.array) {
        where += "[" + std::to_string(l.index) + "]";
      } else if (l.key_size != no_key) {
        if (!where.empty()) where += ".";
        where += first_code_points(std::string_view(arena_).substr(l.key_at, l.key_size), 64);
      }
      if (where.size() > 200) break;
    }
    return where;
  }

 private:
  static constexpr std::size_t no_key = static_cast<std::size_t>(-1);
  struct level {
    bool array = false;
    std::size_t index = 0;                      // of an array's next element
    std::size_t keys_from = 0;                  // in keys_
    std::size_t arena_from = 0;                 // in arena_
    std::size_t key_at = 0, key_size = no_key;  // the present key
  };
  struct span_of_key {
    std::size_t at, size;
  };

  bool open(bool array) {
    if (levels_.empty() && out_ != nullptr && array) return no_object();
    if (levels_.size() == 1) set(array ? shape::array : shape::object);
    if (levels_.size() == 2) add({array ? shape::array : shape::object, false, 0, {}});
    if (levels_.size() == max_depth && !error_) {
      error_ = field_failure(errc::bad_request, path(),
                             "is nested deeper than " + std::to_string(max_depth));
      if (out_ == nullptr) return false;
    }
    if (levels_.size() >= deepest_scanned) return false;
    levels_.push_back({array, 0, keys_.size(), arena_.size(), 0, no_key});
    return true;
  }

  bool close() {
    const level done = levels_.back();
    levels_.pop_back();
    keys_.resize(done.keys_from);
    arena_.resize(done.arena_from);
    next();
    return out_ != nullptr || !error_;
  }

  bool scalar(value v) {
    if (levels_.empty()) return out_ == nullptr || no_object();
    if (levels_.size() == 2)
      add(std::move(v));
    else if (levels_.size() == 1 && out_ != nullptr && current_ != n_count)
      out_->at[current_] = std::move(v);
    next();
    return true;
  }

  void next() {
    if (!levels_.empty() && levels_.back().array) ++levels_.back().index;
  }

  void set(shape s) {
    if (out_ != nullptr && current_ != n_count) out_->at[current_] = {s, false, 0, {}};
  }

  /// An element of a list that is known, or a member of `enter`.
  void add(value v) {
    if (current_ == n_count || out_ == nullptr) return;
    if (levels_.back().array) {
      if (auto* list = list_of(*out_, current_); list != nullptr && list->size() < most_listed)
        list->push_back(std::move(v));
    } else if (current_ == n_enter) {
      ++out_->entered;
      const level& l = levels_.back();
      if (out_->enter.size() < most_listed)
        out_->enter.emplace_back(arena_.substr(l.key_at, l.key_size), std::move(v));
    }
  }

  bool no_object() {
    error_ = fail(errc::bad_request, "not a JSON object");
    broken_ = true;
    return false;
  }

  std::string_view text_of(const span_of_key& k) const {
    return std::string_view(arena_).substr(k.at, k.size);
  }

  void check_keys() {
    const auto from = keys_.begin() + static_cast<std::ptrdiff_t>(levels_.back().keys_from);
    // By length first: most comparisons then need no look at the bytes.
    std::sort(from, keys_.end(), [this](const span_of_key& a, const span_of_key& b) {
      return a.size != b.size ? a.size < b.size : text_of(a) < text_of(b);
    });
    const auto twice =
        std::adjacent_find(from, keys_.end(), [this](const span_of_key& a, const span_of_key& b) {
          return text_of(a) == text_of(b);
        });
    if (twice == keys_.end()) return;
    if (levels_.size() == 1)
      for (auto k = from; k + 1 != keys_.end(); ++k)
        if (text_of(*k) == "id" && text_of(*(k + 1)) == "id") id_repeated_ = true;
    if (error_) return;
    level& top = levels_.back();
    top.key_at = twice->at;
    top.key_size = twice->size;
    error_ = field_failure(errc::duplicate_key, path(), "stands twice in one object");
  }

  table* out_;
  std::vector<level> levels_;
  std::vector<span_of_key> keys_;
  std::string arena_;
  name current_ = n_count;
  std::optional<failure> error_;
  bool id_repeated_ = false, broken_ = false;
};

/// What nlohmann's lexer would let through: a byte order mark, and a raw NUL, which it takes for
/// the end of the input.
std::optional<failure> refused_bytes(std::string_view text) {
  if (text.size() >= 3 && text.substr(0, 3) == "\xEF\xBB\xBF")
    return fail(errc::bad_request, "not valid JSON: a byte order mark is not allowed");
  if (const auto at = text.find('\0'); at != std::string_view::npos)
    return fail(errc::bad_request, "not valid JSON: a zero byte at byte " + std::to_string(at + 1));
  return std::nullopt;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// The code unit of a `\uXXXX` at `at`, or -1.
int escaped_unit(std::string_view text, std::size_t at) {
  if (at + 6 > text.size() || text[at] != '\\' || text[at + 1] != 'u') return -1;
  int unit = 0;
  for (std::size_t i = at + 2; i < at + 6; ++i) {
    const int digit = hex_digit(text[i]);
    if (digit < 0) return -1;
    unit = unit * 16 + digit;
  }
  return unit;
}

/// The text with every lone surrogate's escape made `\ufffd`; nothing where there is none. The
/// parser ends at such an escape, though it is JSON by the grammar: so its field can be named and
/// the request's id still be found.
std::optional<std::string> without_lone_surrogates(std::string_view text) {
  std::optional<std::string> changed;
  for (std::size_t i = 0; i + 1 < text.size();) {
    if (text[i] != '\\') {
      ++i;
      continue;
    }
    const int unit = escaped_unit(text, i);
    if (unit < 0xD800 || unit > 0xDFFF) {
      i += unit < 0 ? 2 : 6;
      continue;
    }
    const int second = unit < 0xDC00 ? escaped_unit(text, i + 6) : -1;
    if (second >= 0xDC00 && second <= 0xDFFF) {
      i += 12;
      continue;
    }
    if (!changed) changed.emplace(text);
    changed->replace(i, 6, "\\ufffd");
    i += 6;
  }
  return changed;
}

reading read_once(std::string_view text, table* out) {
  reader r(out);
  const bool whole = json::sax_parse(text.data(), text.data() + text.size(), &r);
  return {r.error(), r.broken() || (!whole && !r.error()), r.id_repeated()};
}

}  // namespace

name find_name(std::string_view key) {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == key) return static_cast<name>(i);
  return n_count;
}

std::vector<value>* list_of(table& t, name n) {
  switch (n) {
  case n_users:
    return &t.lists[0];
  case n_members:
    return &t.lists[1];
  case n_media:
    return &t.lists[2];
  default:
    return nullptr;
  }
}

bool is_integral(std::string_view number) {
  return number.find_first_not_of("0123456789", number.starts_with('-') ? 1 : 0) ==
         std::string_view::npos;
}

reading read(std::string_view text, table* out) {
  if (auto refused = refused_bytes(text)) return {std::move(refused), true, false};
  reader first(out);
  json::sax_parse(text.data(), text.data() + text.size(), &first);
  if (!first.broken()) return {first.error(), false, first.id_repeated()};
  const auto mended = without_lone_surrogates(text);
  if (!mended) return {first.error(), true, false};
  if (out != nullptr) *out = table{};
  reading second = read_once(*mended, out);
  if (second.broken)
    return {first.error(), true, false};  // there is another flaw, which comes first or later
  second.error = field_failure(errc::bad_request, first.path(), "has a lone surrogate");
  return second;
}

}  // namespace parley::wire::detail
