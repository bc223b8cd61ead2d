// Files packed into the program by scripts/pack_files.py: migrations, the page, the documents.
#pragma once
#include <cstddef>
#include <string_view>

namespace parley {

struct packed_file {
  std::string_view name;  // relative path, '/' as separator
  std::string_view data;
};

extern const packed_file migration_files[];
extern const std::size_t migration_files_count;
extern const packed_file web_files[];
extern const std::size_t web_files_count;
extern const packed_file doc_files[];
extern const std::size_t doc_files_count;

}  // namespace parley
